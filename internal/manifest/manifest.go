package manifest

import (
	"encoding/json"
	"go/token"
)

// Format is the version of the file's form. The algorithms of the hashes have
// numbers of their own: see [ShapeAlgorithm] and [CodeAlgorithm].
const Format = 1

// File is the name of the manifest of a package, beside its flow_gen.go.
const File = "flow.manifest.json"

// Manifest describes what runs depend on in one package.
type Manifest struct {
	Format    int                        `json:"format"`
	Package   string                     `json:"package"`
	Workflows map[string]*Workflow       `json:"workflows"` // by stored name
	Steps     map[string]*Step           `json:"steps"`     // by stored name
	Declared  map[string]*Declaration    `json:"declared"`  // by kind and name: "topic verdict"
	Errors    map[string]string          `json:"errors"`    // reference to the type by stored name; "": a variable
	Types     map[string]json.RawMessage `json:"types"`     // JSON Schemas by name

	// Position is where the package is, for messages. It is not stored.
	Position token.Position `json:"-"`
}

// Workflow is a function under //flow:workflow.
type Workflow struct {
	Go     string            `json:"go"` // name of the generated variable
	Params []Param           `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"` // schema; none: an error only
	Policy map[string]string `json:"policy,omitempty"` // options of the directive
	// Scratchpad is the schema of what a machine keeps from step to step.
	Scratchpad json.RawMessage `json:"scratchpad,omitempty"`

	Shape string            `json:"shape"`
	Code  string            `json:"code"`
	Uses  map[string]string `json:"uses,omitempty"` // versions of modules whose functions decide about operations
	// Decides has hashes of functions and variables without operations that ops mention.
	Decides map[string]string `json:"decides,omitempty"`
	Ops     []*Op             `json:"ops"`

	Position token.Position `json:"-"`
}

// Step is a function or method under //flow:step.
type Step struct {
	Go     string            `json:"go"`
	Params []Param           `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"`
	Key    string            `json:"key,omitempty"`   // with $1 for the first parameter
	Queue  string            `json:"queue,omitempty"` // a run of its own
	Uses   []string          `json:"uses,omitempty"`  // the limits: a run of its own
	Policy map[string]string `json:"policy,omitempty"`

	Position token.Position `json:"-"`
}

// Param is a parameter behind the context, under the name that logs hold.
type Param struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Declaration is a topic, hook, value, stream or ask.
type Declaration struct {
	Go     string          `json:"go"` // name of the variable
	Schema json.RawMessage `json:"schema"`
	Answer json.RawMessage `json:"answer,omitempty"` // of an ask

	Position token.Position `json:"-"`
}

// Op is an operation of a workflow, or what decides about some: a condition, a
// variable, the end of a function.
type Op struct {
	Op     string   `json:"op"`
	Name   string   `json:"name,omitempty"`   // stored or declared
	Key    string   `json:"key,omitempty"`    // given by an option of the context
	Queue  string   `json:"queue,omitempty"`  // the same
	Args   []string `json:"args,omitempty"`   // by the parameters of what is called
	Text   string   `json:"text,omitempty"`   // condition, items, value
	Limit  string   `json:"limit,omitempty"`  // of a map
	Latest int      `json:"latest,omitempty"` // of a guard and a version
	Least  string   `json:"least,omitempty"`  // of these: AtLeast
	Body   []*Op    `json:"body,omitempty"`
	Else   []*Op    `json:"else,omitempty"`
	Ways   [][]*Op  `json:"ways,omitempty"` // of a guard, by version from 0 on
	// Result is the name by which texts mention the result, with a number.
	Result string `json:"-"`
	// Always says that every run which completes passes the step of a machine or graph.
	Always bool `json:"always,omitempty"`

	Position token.Position `json:"-"`
}

// Arguments that are known when the program is written: zero values, and the texts of
// others behind a mark.
const (
	Zero    = "zero"
	Literal = "= "
)

// Kinds of ops that put a record into the log when a run comes to them.
var recorded = map[string]bool{
	"step": true, "child": true, "sleep": true, "receive": true, "select": true, "set": true, "write": true, "close": true,
	"hook": true, "dispose": true, "answer": true, "send": true, "record": true, "read": true, "timeout": true, "cancel child": true,
}

// Recorded reports whether the log of every run that passes the op has a record of it.
func (o *Op) Recorded() bool { return recorded[o.Op] }

// containers are kinds of ops that hold others, each of which a run comes to once it
// comes to the container, under a key that has the container's name.
var containers = map[string]bool{"go": true, "map": true}

// Branches reports whether the keys of what is in the op's body begin with its own.
func (o *Op) Branches() bool { return containers[o.Op] }

// Blocks returns the blocks that o holds.
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

// Walk calls f for every op of a block and of the blocks within.
func Walk(ops []*Op, f func(*Op)) {
	for _, o := range ops {
		f(o)
		for _, b := range o.Blocks() {
			Walk(b, f)
		}
	}
}
