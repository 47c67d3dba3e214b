// Package manifest describes the parts of a package on which runs of its workflows depend. These
// are stored names, parameters and types, and the durable operations in the order in which a
// workflow calls them.
//
// A [Manifest] contains no source positions, so that moving or formatting code does not change it.
// Begin with manifest.go, which defines the vocabulary. build.go fills a manifest from a loaded
// package. walk.go evaluates the body of a workflow, together with assign.go, branch.go, loop.go,
// expr.go and call.go. schema.go describes the encoding of types by encoding/json. write.go and
// hash.go define the format of the file and of the hashes.
package manifest

import (
	"encoding/json"
	"go/token"
)

// Format is the version of the file format. The hash algorithms have separate versions,
// [ShapeAlgorithm] and [CodeAlgorithm].
const Format = 1

// File is the name of the manifest file of a package. It is in the same directory as flow_gen.go.
const File = "flow.manifest.json"

// Manifest describes the parts of one package on which runs depend.
type Manifest struct {
	Format    int                        `json:"format"`
	Package   string                     `json:"package"`
	Workflows map[string]*Workflow       `json:"workflows"` // indexed by stored name
	Steps     map[string]*Step           `json:"steps"`     // indexed by stored name
	Declared  map[string]*Declaration    `json:"declared"`  // indexed by kind and name, as in "topic verdict"
	Errors    map[string]string          `json:"errors"`    // reference to the type of each error by stored name; "" for an error variable
	Types     map[string]json.RawMessage `json:"types"`     // JSON Schemas by type name

	// Position is a position in the package, for messages that concern the whole package. It is not
	// stored.
	Position token.Position `json:"-"`
}

// Workflow describes a function with a //flow:workflow directive.
type Workflow struct {
	Go     string            `json:"go"` // name of the generated variable
	Params []Param           `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"` // JSON Schema; missing if the workflow returns only an error
	Policy map[string]string `json:"policy,omitempty"` // options of the directive by name
	// Scratchpad is the schema of the state that a machine keeps between steps.
	Scratchpad json.RawMessage `json:"scratchpad,omitempty"`

	Shape string            `json:"shape"`
	Code  string            `json:"code"`
	Uses  map[string]string `json:"uses,omitempty"` // versions of the modules whose functions influence operations
	// Decides contains hashes of the functions and variables that ops mention. These functions
	// contain no operations.
	Decides map[string]string `json:"decides,omitempty"`
	Ops     []*Op             `json:"ops"`

	Position token.Position `json:"-"`
}

// Step describes a function or method with a //flow:step directive.
type Step struct {
	Go     string            `json:"go"`
	Params []Param           `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"`
	Key    string            `json:"key,omitempty"`   // key expression, in which $1 is the first parameter
	Queue  string            `json:"queue,omitempty"` // queue of the step; the step then has its own run
	Uses   []string          `json:"uses,omitempty"`  // names of limits; the step then has its own run
	Policy map[string]string `json:"policy,omitempty"`

	Position token.Position `json:"-"`
}

// Param is a parameter after the context. Its name is the name in logs.
type Param struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Declaration is a topic, hook, value, stream or ask.
type Declaration struct {
	Go     string          `json:"go"` // name of the variable in Go
	Schema json.RawMessage `json:"schema"`
	Answer json.RawMessage `json:"answer,omitempty"` // JSON Schema of the answer of an ask

	Position token.Position `json:"-"`
}

// Op is an operation of a workflow, or an item that influences operations, such as a condition, a
// variable or a return.
type Op struct {
	Op     string   `json:"op"`
	Name   string   `json:"name,omitempty"`   // stored name of a step or child, or declared name
	Key    string   `json:"key,omitempty"`    // key from an option of the context
	Queue  string   `json:"queue,omitempty"`  // queue from an option of the context
	Args   []string `json:"args,omitempty"`   // arguments in the order of the parameters
	Text   string   `json:"text,omitempty"`   // condition, items or value, depending on Op
	Limit  string   `json:"limit,omitempty"`  // concurrency limit of a map
	Latest int      `json:"latest,omitempty"` // highest version of a guard or version
	Least  string   `json:"least,omitempty"`  // minimum version of a guard or version, from AtLeast
	Body   []*Op    `json:"body,omitempty"`
	Else   []*Op    `json:"else,omitempty"`
	Ways   [][]*Op  `json:"ways,omitempty"` // branches of a guard, indexed by version
	// Result is the numbered name by which texts refer to the result of the operation.
	Result string `json:"-"`
	// Always reports whether every completed run executes this step of a machine or graph.
	Always bool `json:"always,omitempty"`

	Position token.Position `json:"-"`
}

// The forms of arguments with statically known values: a zero value, and a literal with a prefix.
const (
	Zero    = "zero"
	Literal = "= "
)

// recorded contains the kinds of ops that every run that executes them records in its log.
var recorded = map[string]bool{
	"step": true, "child": true, "sleep": true, "receive": true, "select": true, "set": true, "write": true, "close": true,
	"hook": true, "dispose": true, "answer": true, "send": true, "record": true, "read": true, "timeout": true, "cancel child": true,
}

// Recorded reports whether every run that executes o records it in its log.
func (o *Op) Recorded() bool { return recorded[o.Op] }

// containers lists the kinds of ops that always execute their inner ops. The keys of the inner ops
// begin with the name of the container.
var containers = map[string]bool{"go": true, "map": true}

// Branches reports whether the keys of the inner ops begin with the name of o.
func (o *Op) Branches() bool { return containers[o.Op] }

// Blocks returns the inner blocks of o in execution order.
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

// Walk calls f for every op of a block, including the ops of inner blocks.
func Walk(ops []*Op, f func(*Op)) {
	for _, o := range ops {
		f(o)
		for _, b := range o.Blocks() {
			Walk(b, f)
		}
	}
}
