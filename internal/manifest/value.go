package manifest

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
)

// value is the symbolic value of an expression of workflow code. Equal computations have equal
// texts. The text does not depend on the names of variables, files and helpers.
type value struct {
	text  string
	parts []value // values of a call with several results

	constant constant.Value
	zero     bool // the value is certainly the zero value of its type
	known    bool // the value is a constant literal
	nonNil   bool // the value is certainly not nil
	fn       *function
	ctx      *scope // scope of a workflow.Context
	choice   *choice
	guard    *guard
	returned bool // the value is the result of a call in tail position
}

// choice is a value that is one of two values, depending on a condition.
type choice struct {
	cond    string
	yes, no value
}

// guard is a condition on the version of a change.
type guard struct {
	change string
	latest int
	least  string
	number bool // the value is the version itself
	holds  func(version int) bool
}

// scope contains the options of a context that apply to the steps called with it.
type scope struct{ key, queue string }

// function is a value that can be called in workflow code.
type function struct {
	lit    *ast.FuncLit
	decl   *ast.FuncDecl
	name   string // full name of decl
	pkg    *load.Package
	target *target
	method string // for a workflow, the method that is called: Child or StartChild
}

func text(s string) value { return value{text: s} }

// part returns the result with index i of a call with several results.
func (v value) part(i int) value {
	if i < len(v.parts) {
		return v.parts[i]
	}
	if i == 0 && len(v.parts) == 0 {
		return v
	}
	return text(v.text + "." + strconv.Itoa(i))
}

// choose returns a value that is yes if cond holds, and no otherwise.
func choose(cond string, yes, no value) value {
	if yes.text == no.text {
		return yes
	}
	if no.choice != nil && no.choice.cond == cond && !strings.Contains(cond, varMark) {
		no = no.choice.no
	}
	return value{text: "(" + cond + " ? " + yes.text + " : " + no.text + ")", choice: &choice{cond, yes, no}, nonNil: yes.nonNil && no.nonNil}
}

// without returns the value of v under the condition that cond does not hold.
func (v value) without(cond string) value {
	if v.choice != nil && v.choice.cond == cond {
		return v.choice.no.without(cond)
	}
	for i, p := range v.parts {
		if p.choice != nil && p.choice.cond == cond {
			v.parts = slices.Clone(v.parts)
			v.parts[i] = p.without(cond)
		}
	}
	return v
}

// with returns the value of v under the condition cond.
func (v value) with(cond string) value {
	if v.choice != nil && v.choice.cond == cond {
		return v.choice.yes.with(cond)
	}
	for i, p := range v.parts {
		if p.choice != nil && p.choice.cond == cond {
			v.parts = slices.Clone(v.parts)
			v.parts[i] = p.with(cond)
		}
	}
	return v
}

// isNil returns the condition that v is nil. If not is true, it returns the opposite.
func (v value) isNil(not bool) value {
	if c := v.choice; not && c != nil && c.no.text == "nil" && (c.yes.nonNil || c.cond == c.yes.text+" != nil") {
		return text(c.cond)
	}
	if not {
		return text(v.text + " != nil")
	}
	return text(v.text + " == nil")
}

// The marks in texts. Name marks enclose the name of a function or variable of the module. Variable
// marks enclose the number of a variable of a workflow.
const (
	nameMark = "\x00"
	varMark  = "\x01"
)

// marked encloses a name in name marks. The name is replaced when the text is shown or hashed.
func marked(name string) string { return nameMark + name + nameMark }

// unmark replaces each text between two marks by the result of by.
func unmark(s, mark string, by func(string) string) string {
	if !strings.Contains(s, mark) {
		return s
	}
	parts := strings.Split(s, mark)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = by(parts[i])
	}
	return strings.Join(parts, "")
}

// shortName returns the last part of a full name, such as tax.Total for example.com/tax.Total.
func shortName(full string) string {
	full = strings.TrimPrefix(full, "var ")
	if i := strings.LastIndex(full, ")."); i >= 0 {
		return full[i+2:]
	}
	return full[strings.LastIndex(full, "/")+1:]
}

// shown returns the readable name of a function or variable of the module. It is qualified by the
// package name, which may differ from the last element of the path.
func (w *World) shown(full string) string {
	if b, ok := w.bodies[full]; ok && b.decl.Recv == nil {
		return b.pkg.Types.Name() + "." + b.decl.Name.Name
	}
	if name, isVar := strings.CutPrefix(full, "var "); isVar {
		if init, ok := w.inits[name]; ok {
			return init.pkg.Types.Name() + name[strings.LastIndex(name, "."):]
		}
	}
	return shortName(full)
}

// qualifier qualifies types by the names of their packages.
func qualifier(p *types.Package) string { return p.Name() }
