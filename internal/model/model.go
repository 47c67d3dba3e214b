// Package model turns a loaded package into a complete and checked description of the code to
// generate: its steps, workflows and errors.
//
// [New] finds the directives and their declarations (attach.go). It checks each annotated
// declaration (function.go, step.go, workflow.go, graph.go, machine.go, failure.go). Then it checks
// properties of the whole package: names (collision.go), receivers (function.go), and
// initialization order (cycle.go). If there are no diagnostics, package emit can generate code from
// the model, and the code compiles.
package model

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
)

// Package describes the code to generate for a package. Its lists are sorted by Go names.
type Package struct {
	Path      string
	Name      string
	First     token.Pos // position of the first directive; 0 if there is none
	Types     *types.Package
	Register  string // Go name of the function that registers everything
	StepsVar  string // Go name of the variable that refers to the steps
	Workflows []*Workflow
	Steps     []*Step
	Receivers []*Receiver
	// Dependencies contains the parameters of Register that are not receivers of steps.
	Dependencies []*Dependency
	Failures     []*Failure
	Foreign      []Foreign       // sorted by stored names
	Client       directive.Text  // directory of the client package; empty if there is none
	Declared     map[string]bool // names that generated identifiers must not use
}

// Empty reports whether the package has no code to generate.
func (p *Package) Empty() bool {
	return len(p.Workflows) == 0 && len(p.Steps) == 0 && len(p.Failures) == 0 && len(p.Foreign) == 0
}

// Function contains the properties that steps and workflows have in common.
type Function struct {
	Impl    string // name of the user's function
	GoName  string // name of the generated counterpart
	Stored  string // name that logs contain
	Doc     string // the user's doc comment without directives; empty if there is none
	Context string // the user's name of the context parameter; may be empty or "_"
	Params  []Param
	Result  types.Type // nil if the function returns only an error
	// Variadic reports whether the last parameter is variadic. The Type of the parameter is then a
	// slice type.
	Variadic bool
	// Batch is set for a workflow that takes the inputs of several starts as a slice. It is the
	// type of the slice; the Param describes one element. Batch is nil for other workflows.
	Batch types.Type

	Uses []Use

	// Directive contains the options of the directive.
	Directive directive.Directive

	decl *ast.FuncDecl
	sig  *types.Signature
	pos  token.Pos
	// scope is a position. The expressions of the directive are checked in the scope at this
	// position.
	scope token.Pos
}

// title returns the name of the function for messages.
func (f *Function) title() string { return string(f.Directive.Kind) + " " + f.Impl }

// Pos returns the position of the user's function.
func (f *Function) Pos() token.Pos { return f.pos }

// Pos returns the position of the declaration of the error.
func (f *Failure) Pos() token.Pos { return f.pos }

// Param is a parameter after the context.
type Param struct {
	Name  string
	Field string // name of the field in the generated struct of arguments
	Wire  string // name under which the argument is stored
	Type  types.Type
	Var   *types.Var
}

// Step is a function or method with //flow:step.
type Step struct {
	Function
	Receiver *Receiver // nil for a function
	// ByValue reports whether the step is a method with a value receiver.
	ByValue bool
	Key     *Key // nil if not declared
	Fatal   []Fatal
	Graph   *Graph   // the graph to which the step belongs, or nil
	Machine *Machine // the machine to which the step belongs, or nil
	Catch   *Step    // the machine step that handles a failure of this step, or nil

	named *types.TypeName // the receiver type; nil for a function
	next  types.Type      // the second type argument of step.Next; nil unless the step belongs to a machine
}

// Workflow is a function with //flow:workflow, or a struct with //flow:dag or //flow:machine.
type Workflow struct {
	Function
	Priority  *Key     // nil if not declared
	Singleton *Key     // nil if not a singleton
	Collect   *Key     // key of debounce= or batch=; nil if all starts have the same key
	Fair      *Fair    // nil if not declared
	Graph     *Graph   // for a struct with //flow:dag, otherwise nil
	Machine   *Machine // for a struct with //flow:machine, otherwise nil
}

// Receiver is a type whose methods are steps. Register has a parameter for each Receiver.
type Receiver struct {
	Type    *types.TypeName
	Pointer bool // whether the parameter of Register is a pointer
	Steps   []*Step
}

// Key is an expression over the parameters: the key of a step or limit, or another value of a
// directive.
type Key struct {
	Text string
	Expr ast.Expr
	Info *types.Info // type information of Expr
}

// Use is a limit that a step or workflow uses.
type Use struct {
	Limit  types.Object // the variable that declares the limit
	Key    *Key         // key of the part that is used; nil if the limit has no keys
	Weight int
}

// Fatal is an error after which the runtime does not retry a step. Exactly one of its fields is
// set.
type Fatal struct {
	Sentinel types.Object
	Type     types.Type
}

// Failure is an error with //flow:error. Exactly one of Sentinel and Type is set.
type Failure struct {
	Stored   string
	Sentinel types.Object
	Type     types.Type

	pos token.Pos
}
