package flowcheck

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A Rule is the name of a rule: what stands in brackets at the end of a report.
type Rule string

// Effect says that a function, when it is called, does what a rule forbids workflow
// code, and by which way of calls.
type Effect struct {
	Rule Rule
	What string   // the primitive: "time.Now"
	Pos  string   // of the primitive: "rate.go:12"
	Path []string // the functions from the called one to the primitive: "tax.Total", "tax.rate"
}

// less orders ways to a primitive: the shortest first, ties by their text.
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

// via returns the effect of a function that calls the one with e.
func (e Effect) via(caller string) Effect {
	e.Path = append([]string{caller}, e.Path...)
	return e
}

// String is the way: "tax.Total → tax.rate → time.Now (rate.go:12)".
func (e Effect) String() string {
	way := strings.Join(append(slices.Clone(e.Path), e.What), " → ")
	if e.Pos == "" {
		return way
	}
	return way + " (" + e.Pos + ")"
}

// Effects is the fact of a function with effects: at most one for a rule.
type Effects struct {
	Module string // of the function
	List   []Effect
}

// AFact marks a fact.
func (*Effects) AFact() {}

// String lists the effects.
func (e *Effects) String() string {
	words := make([]string, len(e.List))
	for i, effect := range e.List {
		words[i] = fmt.Sprintf("%s: %s", effect.Rule, effect)
	}
	return strings.Join(words, "; ")
}

// Mutated is the fact of a package variable that is written outside of its declaration
// and init.
type Mutated struct{ By, Module string }

// AFact marks a fact.
func (*Mutated) AFact() {}

// String names who writes.
func (m *Mutated) String() string { return "written by " + m.By }

// Annotated is the fact of a function with a directive.
type Annotated struct {
	Kind        string // step or workflow
	Counterpart string // the Go name of what was generated for it
}

// AFact marks a fact.
func (*Annotated) AFact() {}

// String names the directive.
func (a *Annotated) String() string { return a.Kind + " " + a.Counterpart }

// outwards are the rules that hold for the code of other modules, and for generated code:
// its locks, goroutines and variables are its own affair.
var outwards = []Rule{"clock", "random", "io", "log", "exit", durable}

// imported returns the effects of a function of another package, as far as they
// count for this one.
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

// export keeps what was found about this package's functions for those that import it.
func (p *packagePass) export() {
	for _, u := range p.units {
		if u.fn == nil {
			continue
		}
		fact := &Effects{Module: p.module, List: p.effects[u.fn]}
		if u.isFlow { // it is judged here
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

// display returns a function's name as it is said in reports: tax.Total, tax.Table.Rate.
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
