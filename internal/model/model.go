package model

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
)

// Package holds everything to generate for a package, sorted by Go names.
type Package struct {
	Path      string
	Name      string
	First     token.Pos // of the directives; 0: there is none
	Types     *types.Package
	Register  string // Go name of the function that registers everything
	StepsVar  string // Go name of the variable that refers to the steps
	Workflows []*Workflow
	Steps     []*Step
	Receivers []*Receiver
	// Dependencies are the parameters of Register beside the receivers.
	Dependencies []*Dependency
	Failures     []*Failure
	Foreign      []Foreign       // by stored names
	Client       directive.Text  // directory of the client package; empty: none
	Declared     map[string]bool // what no identifier invented for the output may be called
}

// Empty reports whether there is nothing to generate.
func (p *Package) Empty() bool {
	return len(p.Workflows) == 0 && len(p.Steps) == 0 && len(p.Failures) == 0 && len(p.Foreign) == 0
}

// Function holds the fields that steps and workflows share.
type Function struct {
	Impl    string // the user's function
	GoName  string // its generated counterpart
	Stored  string // its name in logs
	Doc     string // the user's text, without directives; may be empty
	Context string // the user's name of the first parameter; may be empty or "_"
	Params  []Param
	Result  types.Type // nil: an error only
	// Variadic tells that the last parameter is. Its Type is the slice.
	Variadic bool
	// Batch is the type of the only parameter of a workflow that takes the inputs of several
	// starts, nil: it does not. The Param is one of its elements.
	Batch types.Type

	Uses []Use

	// Directive holds the options.
	Directive directive.Directive

	decl *ast.FuncDecl
	sig  *types.Signature
	pos  token.Pos
	// scope is where the expressions of the directive are checked.
	scope token.Pos
}

// title names the function in messages.
func (f *Function) title() string { return string(f.Directive.Kind) + " " + f.Impl }

// Pos returns where the user's function is.
func (f *Function) Pos() token.Pos { return f.pos }

// Pos returns where the error is declared.
func (f *Failure) Pos() token.Pos { return f.pos }

// Param is a parameter behind the context.
type Param struct {
	Name  string
	Field string // of the struct that holds the arguments
	Wire  string // the name under which it is stored
	Type  types.Type
	Var   *types.Var
}

// Step is a function or method under //flow:step.
type Step struct {
	Function
	Receiver *Receiver // nil: a function
	// ByValue tells a method with a value receiver.
	ByValue bool
	Key     *Key // nil: none declared
	Fatal   []Fatal
	Graph   *Graph   // that it is a step of; nil: of none
	Machine *Machine // whose step it is, nil: it is called by workflow code
	Catch   *Step    // of the machine, to which its failure leads; nil: none

	named *types.TypeName // of the receiver
	next  types.Type      // the result of the machine that it leads to
}

// Workflow is a function under //flow:workflow, or a struct under //flow:dag or //flow:machine.
type Workflow struct {
	Function
	Priority  *Key     // nil: none declared
	Singleton *Key     // nil: it is none
	Gather    *Key     // of debounce= and batch=; nil: it is the same for all starts
	Fair      *Fair    // nil: none declared
	Graph     *Graph   // of a struct under //flow:dag; nil: it is none
	Machine   *Machine // of a struct under //flow:machine; nil: it is none
}

// Receiver is a type whose methods are steps: a parameter of Register.
type Receiver struct {
	Type    *types.TypeName
	Pointer bool // whether Register takes a pointer
	Steps   []*Step
}

// Key is the declared key of a step, or of a limit, or another value that a directive
// computes from the parameters.
type Key struct {
	Text string
	Expr ast.Expr
	Info *types.Info // of Expr
}

// Use is a limit that a step or workflow uses.
type Use struct {
	Limit  types.Object // the variable
	Key    *Key         // of the part; nil: the limit has no keys
	Weight int
}

// Fatal is an error after which a step is not tried again: one of its fields
// is set.
type Fatal struct {
	Sentinel types.Object
	Type     types.Type
}

// Failure is an error under //flow:error: one of Sentinel and Type is set.
type Failure struct {
	Stored   string
	Sentinel types.Object
	Type     types.Type

	pos token.Pos
}
