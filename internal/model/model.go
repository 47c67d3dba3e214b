// Package model turns a loaded package into a complete and checked description of the code to
// generate: its steps, workflows and errors.
//
// [New] finds the directives and their declarations (attach.go), checks each annotated function
// (function.go, step.go, workflow.go, failure.go), and then checks properties of the whole package:
// names (collision.go), receivers (function.go), and initialization order (cycle.go). If there are
// no diagnostics, code can be emitted for the model and will compile.
package model

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
)

// Package contains everything to generate for a package, sorted by Go names.
type Package struct {
	Path      string
	Name      string
	First     token.Pos // the first directive; 0 if there is none
	Types     *types.Package
	Register  string // Go name of the function that registers everything
	StepsVar  string // Go name of the variable that refers to the steps
	Workflows []*Workflow
	Steps     []*Step
	Receivers []*Receiver
	// Dependencies contains the parameters of Register that are not receivers.
	Dependencies []*Dependency
	Failures     []*Failure
	Foreign      []Foreign       // sorted by stored names
	Client       directive.Text  // directory of the client package; may be empty
	Declared     map[string]bool // names that generated identifiers must not have
}

// Empty reports whether there is nothing to generate.
func (p *Package) Empty() bool {
	return len(p.Workflows) == 0 && len(p.Steps) == 0 && len(p.Failures) == 0 && len(p.Foreign) == 0
}

// Function contains the common fields of steps and workflows.
type Function struct {
	Impl    string // name of the user's function
	GoName  string // name of its generated counterpart
	Stored  string // name in logs
	Doc     string // the user's doc comment without directives; may be empty
	Context string // the user's name of the first parameter; may be empty or "_"
	Params  []Param
	Result  types.Type // nil if it returns only an error
	// Variadic reports whether the last parameter is variadic. Its Type is the slice type.
	Variadic bool
	// Batch is the type of the only parameter of a workflow that takes the inputs of several
	// starts, and nil for other workflows. The Param describes one element.
	Batch types.Type

	Uses []Use

	// Directive contains the options.
	Directive directive.Directive

	decl *ast.FuncDecl
	sig  *types.Signature
	pos  token.Pos
	// scope is the position whose scope the expressions of the directive are checked in.
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
	Field string // field of the struct with the arguments
	Wire  string // stored name
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
	Graph   *Graph   // the graph of a graph step, or nil
	Machine *Machine // the machine of a machine step; nil if workflow code calls the step
	Catch   *Step    // the machine step that follows a failure, or nil

	named *types.TypeName // the receiver type
	next  types.Type      // the result of its machine
}

// Workflow is a function with //flow:workflow, or a struct with //flow:dag or //flow:machine.
type Workflow struct {
	Function
	Priority  *Key     // nil if not declared
	Singleton *Key     // nil if not a singleton
	Collect   *Key     // the key of debounce= or batch=; nil if all starts have the same
	Fair      *Fair    // nil if not declared
	Graph     *Graph   // for a struct with //flow:dag, otherwise nil
	Machine   *Machine // for a struct with //flow:machine, otherwise nil
}

// Receiver is a type whose methods are steps. It is a parameter of Register.
type Receiver struct {
	Type    *types.TypeName
	Pointer bool // whether Register takes a pointer
	Steps   []*Step
}

// Key is the declared key of a step or a limit, or another value that a directive computes from the
// parameters.
type Key struct {
	Text string
	Expr ast.Expr
	Info *types.Info // type information of Expr
}

// Use is a limit that a step or workflow uses.
type Use struct {
	Limit  types.Object // the variable
	Key    *Key         // key of the partition; nil if the limit has no keys
	Weight int
}

// Fatal is an error after which a step is not retried. Exactly one of its fields is set.
type Fatal struct {
	Sentinel types.Object
	Type     types.Type
}

// Failure is an error with //flow:error. Either Sentinel or Type is set.
type Failure struct {
	Stored   string
	Sentinel types.Object
	Type     types.Type

	pos token.Pos
}
