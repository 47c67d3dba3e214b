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

// value is the symbolic value of an expression of workflow code. Its text is equal for equal
// computations, independently of the names of variables, files and helpers.
type value struct {
	text  string
	parts []value // the results of a call with several of them

	constant constant.Value
	zero     bool // certainly the zero value of its type
	known    bool // a constant literal
	nonNil   bool // certainly not nil
	fn       *function
	ctx      *scope // for a workflow.Context
	choice   *choice
	guard    *guard
	returned bool // returned by a call in tail position
}

// choice is a value that depends on a condition.
type choice struct {
	cond    string
	yes, no value
}

// guard is a condition on the version of a change.
type guard struct {
	change string
	latest int
	least  string
	number bool // the version itself
	holds  func(version int) bool
}

// scope contains the options of a context that apply to the steps called with it.
type scope struct{ key, queue string }

// function is a value that can be called.
type function struct {
	lit    *ast.FuncLit
	decl   *ast.FuncDecl
	name   string // the full name of decl
	pkg    *load.Package
	target *target
	method string // for a workflow: Child or StartChild
}

func text(s string) value { return value{text: s} }

// part returns one of several results.
func (v value) part(i int) value {
	if i < len(v.parts) {
		return v.parts[i]
	}
	if i == 0 && len(v.parts) == 0 {
		return v
	}
	return text(v.text + "." + strconv.Itoa(i))
}

// choose returns the value that is yes if cond holds and no otherwise.
func choose(cond string, yes, no value) value {
	if yes.text == no.text {
		return yes
	}
	if no.choice != nil && no.choice.cond == cond && !strings.Contains(cond, varMark) {
		no = no.choice.no
	}
	return value{text: "(" + cond + " ? " + yes.text + " : " + no.text + ")", choice: &choice{cond, yes, no}, nonNil: yes.nonNil && no.nonNil}
}

// without returns the value of v if cond does not hold.
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

// with returns the value of v if cond holds.
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

// isNil returns the condition that v is nil, or with not that v is not nil.
func (v value) isNil(not bool) value {
	if c := v.choice; not && c != nil && c.no.text == "nil" && (c.yes.nonNil || c.cond == c.yes.text+" != nil") {
		return text(c.cond)
	}
	if not {
		return text(v.text + " != nil")
	}
	return text(v.text + " == nil")
}

// Marks in texts. A name of a function or variable of the module is enclosed in name marks, the
// number of a variable of a workflow in variable marks.
const (
	nameMark = "\x00"
	varMark  = "\x01"
)

// marked returns a marked name, which is replaced when the text is shown or hashed.
func marked(name string) string { return nameMark + name + nameMark }

// unmark replaces marked names.
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

// shortName returns the last part of a full name: tax.Total for example.com/tax.Total.
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
