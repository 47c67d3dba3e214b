package model

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// generated is an identifier that the generated code declares.
type generated struct {
	name string
	what string // description for messages
	pos  token.Pos
	fix  string
	once bool // declared once in the package, not for each function
}

// collisions reports generated identifiers that are also declared in the package or imported, and
// identifiers that would be generated twice.
func (b *builder) collisions() {
	declared := b.declared()
	for id := range declared {
		b.model.Declared[id] = true
	}
	b.hidden(declared)
	imported := b.imported()
	b.sameGoName()
	for _, g := range b.generated() {
		b.model.Declared[g.name] = true
		if at := cmp.Or(declared[g.name], imported[g.name]); at != "" {
			b.report(g.pos, fmt.Sprintf("%s would be called %s, which %s declares already", g.what, g.name, at), g.fix)
		}
	}
}

// hidden reports predeclared identifiers that the generated code needs and that the package
// redeclares. It also considers files of other platforms and tests.
func (b *builder) hidden(declared map[string]string) {
	needs := make(map[string]bool)
	for _, s := range b.model.Steps {
		needs["error"] = true
		needs["bool"] = needs["bool"] || len(s.Fatal) > 0
		needs["true"] = needs["true"] || s.Directive.NonIdempotent
	}
	for _, w := range b.model.Workflows {
		needs["error"] = true
		needs["int"] = needs["int"] || w.Priority != nil || w.Fair != nil
		needs["string"] = needs["string"] || w.Singleton != nil || w.Fair != nil || w.Directive.Has("debounce") || w.Directive.Has("batch")
	}
	if len(b.model.Receivers)+len(b.machines) > 0 {
		needs["nil"], needs["false"] = true, true
	}
	for _, id := range slices.Sorted(maps.Keys(needs)) {
		if at := declared[id]; needs[id] && at != "" {
			b.report(b.firstFunction(), fmt.Sprintf("generated code needs the predeclared %s, which %s declares anew", id, at), "give that another name")
		}
	}
}

// generated returns the identifiers that the generated code declares, each once.
func (b *builder) generated() []generated {
	var gs []generated
	if len(b.model.Steps)+len(b.model.Workflows) > 0 {
		pos := cmp.Or(b.clause.Pos, b.firstFunction())
		gs = append(gs, generated{b.model.Register, "the function that registers the package", pos, "choose another name with //flow:package register=Name above the package clause", true})
		if len(b.model.Steps) > 0 {
			gs = append(gs, generated{b.model.StepsVar, "the variable that refers to the steps", pos, "choose another name with //flow:package steps=Name above the package clause", true})
		}
	}
	for _, s := range b.model.Steps {
		fix := "choose another name with as=Name"
		if s.Graph == nil && s.Machine == nil {
			gs = append(gs, generated{s.GoName, "the durable counterpart of " + s.Impl, s.pos, fix, false})
		}
		gs = append(gs,
			generated{name.Step(s.GoName), "the description of " + s.Impl, s.pos, fix, false},
			generated{name.Func(s.GoName), "the type of " + s.Impl, s.pos, fix, false})
		if len(s.Params) > 0 {
			gs = append(gs, generated{name.Args(s.GoName), "the arguments of " + s.Impl, s.pos, fix, false})
		}
	}
	for _, w := range b.model.Workflows {
		fix := "choose another name with as=Name"
		gs = append(gs, generated{w.GoName, "the definition of " + w.Impl, w.pos, fix, false})
		if w.Machine != nil {
			gs = append(gs, generated{name.Next(w.GoName), "the type of what the steps of " + w.Impl + " return", w.pos, fix, false})
		}
		if len(w.Params) > 1 || w.Graph != nil && len(w.Params) > 0 {
			gs = append(gs, generated{name.Input(w.GoName), "the input of " + w.Impl, w.pos, fix, false})
		}
		if w.Graph != nil {
			gs = append(gs, generated{name.Graph(w.GoName), "the code of " + w.Impl, w.pos, fix, false})
			if len(w.Graph.Results) > 0 {
				gs = append(gs, generated{name.Result(w.GoName), "the result of " + w.Impl, w.pos, fix, false})
			}
		}
	}
	return b.distinct(gs)
}

// distinct returns the identifiers without duplicates, and reports the duplicates. It omits
// functions with the same Go name, which sameGoName reports.
func (b *builder) distinct(gs []generated) []generated {
	first := make(map[string]generated)
	var once []generated
	for _, g := range gs {
		other, twice := first[g.name]
		switch {
		case !twice:
			first[g.name] = g
			once = append(once, g)
		case other.once:
			b.report(g.pos, fmt.Sprintf("%s would be called %s, as is %s", g.what, g.name, other.what), g.fix+", or "+other.fix)
		case !b.askedTwice(g.pos):
			b.report(g.pos, fmt.Sprintf("%s would be called %s, as is %s", g.what, g.name, other.what), g.fix)
		}
	}
	return once
}

func (b *builder) functions() []*Function {
	var fns []*Function
	for _, w := range b.model.Workflows {
		fns = append(fns, &w.Function)
	}
	for _, s := range b.model.Steps {
		fns = append(fns, &s.Function)
	}
	slices.SortStableFunc(fns, b.compareFunctions)
	return fns
}

func (b *builder) firstFunction() token.Pos {
	fns := b.functions()
	return slices.MinFunc(fns, func(x, y *Function) int { return b.comparePos(x.pos, y.pos) }).pos
}

// sameGoName reports functions whose generated counterparts would have the same Go name. Usually
// these are methods of the same name on two receivers, and then the stored names are also equal.
func (b *builder) sameGoName() {
	fns := b.functions()
	for i, f := range fns {
		if i == 0 || fns[i-1].GoName != f.GoName {
			continue
		}
		what := fmt.Sprintf("%s and %s (%s) would both be called %s", b.title(f), b.title(fns[i-1]), b.line(fns[i-1].pos), f.GoName)
		fix := "choose another Go name with as=" + suggestion(f)
		if fns[i-1].Stored == f.Stored {
			what += " in Go and " + strconv.Quote(f.Stored) + " in logs"
			fix = fmt.Sprintf("give one of them other names: as=%s name=%s", suggestion(f), storedSuggestion(f))
		}
		b.report(f.pos, what, fix)
	}
}

func (b *builder) askedTwice(pos token.Pos) bool {
	fns := b.functions()
	for i, f := range fns {
		if f.pos == pos && i > 0 && fns[i-1].GoName == f.GoName {
			return true
		}
	}
	return false
}

// title returns the name of a function, with its receiver, for messages.
func (b *builder) title(f *Function) string {
	if recv := receiverName(f); recv != "" {
		return "method " + recv + "." + f.Impl
	}
	return string(f.Directive.Kind) + " " + f.Impl
}

func receiverName(f *Function) string {
	if f.Directive.Kind == directive.Machine || f.decl == nil || f.decl.Recv == nil || len(f.decl.Recv.List) == 0 {
		return ""
	}
	expr := f.decl.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if id, ok := expr.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func suggestion(f *Function) string {
	exported, ok := name.Exported(receiverName(f))
	if !ok {
		return "Name"
	}
	return exported + f.GoName
}

func storedSuggestion(f *Function) string {
	prefix := f.Stored[:strings.LastIndexByte(f.Stored, '.')+1]
	if suggestion(f) == "Name" {
		return prefix + "name"
	}
	return prefix + name.Unexported(suggestion(f))
}

func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
