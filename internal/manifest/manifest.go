// Package manifest describes the parts of a package on which runs of its workflows depend: stored
// names, parameters and types, and the durable operations in the order in which a workflow calls
// them.
//
// A [Manifest] contains no source positions, so that moving or formatting code does not change it.
// Begin with manifest.go, which defines the vocabulary. build.go fills a manifest from a loaded
// package; walk.go evaluates the body of a workflow, together with assign.go, branch.go, loop.go,
// expr.go and call.go; schema.go describes the encoding of types by encoding/json; write.go and
// hash.go define the format of the file and of the hashes.
package manifest

import (
	"encoding/json"
	"go/token"
)

// Format is the version of the file format. The hash algorithms have versions of their own: see
// [ShapeAlgorithm] and [CodeAlgorithm].
const Format = 1

// File is the name of the manifest of a package, in the directory of its flow_gen.go.
const File = "flow.manifest.json"

// Manifest describes the parts of one package on which runs depend.
type Manifest struct {
	Format    int                        `json:"format"`
	Package   string                     `json:"package"`
	Workflows map[string]*Workflow       `json:"workflows"` // by stored name
	Steps     map[string]*Step           `json:"steps"`     // by stored name
	Declared  map[string]*Declaration    `json:"declared"`  // by kind and name: "topic verdict"
	Errors    map[string]string          `json:"errors"`    // references to types by stored name; "" for a variable
	Types     map[string]json.RawMessage `json:"types"`     // JSON Schemas by name

	// Position is a position in the package for messages. It is not stored.
	Position token.Position `json:"-"`
}

// Workflow describes a function with //flow:workflow.
type Workflow struct {
	Go     string            `json:"go"` // name of the generated variable
	Params []Param           `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"` // schema; missing if it returns only an error
	Policy map[string]string `json:"policy,omitempty"` // options of the directive
	// Scratchpad is the schema of the state that a machine keeps between steps.
	Scratchpad json.RawMessage `json:"scratchpad,omitempty"`

	Shape string            `json:"shape"`
	Code  string            `json:"code"`
	Uses  map[string]string `json:"uses,omitempty"` // versions of modules whose functions influence operations
	// Decides contains hashes of the functions and variables without operations that ops mention.
	Decides map[string]string `json:"decides,omitempty"`
	Ops     []*Op             `json:"ops"`

	Position token.Position `json:"-"`
}

// Step describes a function or method with //flow:step.
type Step struct {
	Go     string            `json:"go"`
	Params []Param           `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"`
	Key    string            `json:"key,omitempty"`   // with $1 for the first parameter
	Queue  string            `json:"queue,omitempty"` // the step has a run of its own
	Uses   []string          `json:"uses,omitempty"`  // names of limits; the step has a run of its own
	Policy map[string]string `json:"policy,omitempty"`

	Position token.Position `json:"-"`
}

// Param is a parameter after the context, with its name in logs.
type Param struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Declaration is a topic, hook, value, stream or ask.
type Declaration struct {
	Go     string          `json:"go"` // name of the variable
	Schema json.RawMessage `json:"schema"`
	Answer json.RawMessage `json:"answer,omitempty"` // for an ask

	Position token.Position `json:"-"`
}

// Op is an operation of a workflow, or an item that influences operations: a condition, a variable,
// a return.
type Op struct {
	Op     string   `json:"op"`
	Name   string   `json:"name,omitempty"`   // stored or declared name
	Key    string   `json:"key,omitempty"`    // from an option of the context
	Queue  string   `json:"queue,omitempty"`  // from an option of the context
	Args   []string `json:"args,omitempty"`   // in the order of the parameters
	Text   string   `json:"text,omitempty"`   // condition, items or value
	Limit  string   `json:"limit,omitempty"`  // for a map
	Latest int      `json:"latest,omitempty"` // for a guard and a version
	Least  string   `json:"least,omitempty"`  // for a guard and a version: AtLeast
	Body   []*Op    `json:"body,omitempty"`
	Else   []*Op    `json:"else,omitempty"`
	Ways   [][]*Op  `json:"ways,omitempty"` // for a guard, by version from 0
	// Result is the name, with a number, by which texts refer to the result.
	Result string `json:"-"`
	// Always reports whether every completed run executes this step of a machine or graph.
	Always bool `json:"always,omitempty"`

	Position token.Position `json:"-"`
}

// Arguments with statically known values: zero values, and the text of literals after a prefix.
const (
	Zero    = "zero"
	Literal = "= "
)

// recorded contains the kinds of ops that are recorded in the log whenever a run executes them.
var recorded = map[string]bool{
	"step": true, "child": true, "sleep": true, "receive": true, "select": true, "set": true, "write": true, "close": true,
	"hook": true, "dispose": true, "answer": true, "send": true, "record": true, "read": true, "timeout": true, "cancel child": true,
}

// Recorded reports whether the log of every run that executes the op has a record of it.
func (o *Op) Recorded() bool { return recorded[o.Op] }

// containers lists the kinds of ops whose inner ops are executed whenever the container is, and
// whose keys begin with the name of the container.
var containers = map[string]bool{"go": true, "map": true}

// Branches reports whether the keys of the inner ops begin with that of the op.
func (o *Op) Branches() bool { return containers[o.Op] }

// Blocks returns the inner blocks of o.
func (o *Op) Blocks() [][]*Op {
	var all [][]*Op
	if len(o.Body) > 0 {
		all = append(all, o.Body)
	}
	if len(o.Else) > 0 {
		all = append(all, o.Else)
	}
	return append(all, o.Ways...)
}

// Walk calls f for every op of a block and of its inner blocks.
func Walk(ops []*Op, f func(*Op)) {
	for _, o := range ops {
		f(o)
		for _, b := range o.Blocks() {
			Walk(b, f)
		}
	}
}
