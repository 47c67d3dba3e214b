package flowcheck

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A Rule is the name of a rule. Reports end with it in brackets.
type Rule string

// Effect records that a function leads to an operation that a rule forbids in workflow code. It
// contains the chain of calls from the function to the operation.
type Effect struct {
	Rule Rule
	What string   // the operation, such as "time.Now"
	Pos  string   // the position of the operation, such as "rate.go:12"
	Path []string // the functions from the called one to the one with the operation, such as "tax.Total", "tax.rate"
}

// less orders effects by the length of their paths and then by their texts.
func (e Effect) less(than Effect) bool {
	if len(e.Path) != len(than.Path) {
		return len(e.Path) < len(than.Path)
	}
	if c := slices.Compare(e.Path, than.Path); c != 0 {
		return c < 0
	}
	if e.What != than.What {
		return e.What < than.What
	}
	return e.Pos < than.Pos
}

// via returns the effect that the function caller has because it calls a function with the effect
// e.
func (e Effect) via(caller string) Effect {
	e.Path = append([]string{caller}, e.Path...)
	return e
}

// String returns the chain of calls, such as "tax.Total → tax.rate → time.Now (rate.go:12)".
func (e Effect) String() string {
	way := strings.Join(append(slices.Clone(e.Path), e.What), " → ")
	if e.Pos == "" {
		return way
	}
	return way + " (" + e.Pos + ")"
}

// Effects is the fact of a function with effects. It contains at most one effect for each rule.
type Effects struct {
	Module string // path of the module that contains the function
	List   []Effect
}

// AFact implements [analysis.Fact].
func (*Effects) AFact() {}

// String lists the effects.
func (e *Effects) String() string {
	words := make([]string, len(e.List))
	for i, effect := range e.List {
		words[i] = fmt.Sprintf("%s: %s", effect.Rule, effect)
	}
	return strings.Join(words, "; ")
}

// Mutated is the fact of a package variable that is written outside of its declaration and outside
// of init functions.
type Mutated struct{ By, Module string }

// AFact implements [analysis.Fact].
func (*Mutated) AFact() {}

// String returns the name of the function that writes the variable.
func (m *Mutated) String() string { return "written by " + m.By }

// Annotated is the fact of a function with a directive.
type Annotated struct {
	Kind        string // "step" or "workflow"
	Counterpart string // name of the generated Go function
}

// AFact implements [analysis.Fact].
func (*Annotated) AFact() {}

// String returns the kind of the directive and the name of the counterpart.
func (a *Annotated) String() string { return a.Kind + " " + a.Counterpart }

// outwards lists the rules that apply to the code of other modules and to generated code. All other
// rules, such as those for locks, goroutines and variables, do not apply to such code.
var outwards = []Rule{"clock", "random", "io", "log", "exit", durable}

// imported returns the effects of a function of another package that are also effects in this
// package.
func (p *packagePass) imported(fn *types.Func) []Effect {
	if rule := others().rule(fn); rule != "" {
		if rule == pure {
			return nil
		}
		return []Effect{{Rule: rule, What: display(fn)}}
	}
	var fact Effects
	if !p.pass.ImportObjectFact(fn, &fact) {
		return nil
	}
	if fact.Module == p.module {
		return fact.List
	}
	return slices.DeleteFunc(slices.Clone(fact.List), func(e Effect) bool { return !slices.Contains(outwards, e.Rule) })
}

// export exports the facts of this package for the packages that import it.
func (p *packagePass) export() {
	for _, u := range p.units {
		if u.fn == nil {
			continue
		}
		fact := &Effects{Module: p.module, List: p.effects[u.fn]}
		if u.isFlow { // Violations in workflow code are reported in this package, so importing packages need no fact.
			fact.List = slices.DeleteFunc(slices.Clone(fact.List), func(e Effect) bool { return e.Rule != durable })
		}
		if len(fact.List) > 0 {
			p.pass.ExportObjectFact(u.fn, fact)
		}
	}
	for v, m := range p.mutated {
		p.pass.ExportObjectFact(v, m)
	}
	for fn, a := range p.annotated {
		p.pass.ExportObjectFact(fn, a)
	}
}

func moduleOf(pass *analysis.Pass) string {
	if pass.Module != nil {
		return pass.Module.Path
	}
	return ""
}

// display returns the name of a function in the form used in reports, such as tax.Total or
// tax.Table.Rate.
func display(fn *types.Func) string {
	name := fn.Name()
	if recv := fn.Signature().Recv(); recv != nil {
		name = typeName(recv.Type()) + "." + name
	}
	if fn.Pkg() == nil {
		return name
	}
	return fn.Pkg().Name() + "." + name
}
