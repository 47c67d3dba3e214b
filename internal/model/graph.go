package model

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
	"github.com/flowgen/flowgen/internal/payload"
)

// Graph is the part of a workflow's model that only workflows declared by a struct with //flow:dag
// have. The exported fields of the struct are the parameters of the workflow.
type Graph struct {
	Type         *types.TypeName
	Dependencies []*Dependency // for the unexported fields, in the order of the fields
	Nodes        []*Node       // in topological order
	Sinks        []*Node       // nodes whose results are the result of the graph
	Results      []Param       // fields of the generated result; nil if there is at most one sink

	workflow *Workflow
	spec     *ast.TypeSpec
	methods  map[string]*ast.FuncDecl // all methods of the struct, by name
	broken   map[string]bool          // names of the steps with reported mistakes
	steps    []*Node                  // in source order
}

// Dependency is a parameter of Register. Its value becomes a field of structs whose methods are
// steps.
type Dependency struct {
	Field string
	Type  types.Type
	Steps []*Step // steps that need the dependency
}

// Input returns the first parameter of the steps, which contains the exported fields of the graph.
// It returns nil if there are no exported fields.
func (g *Graph) Input() *Param {
	if len(g.workflow.Params) == 0 {
		return nil
	}
	return &g.steps[0].Step.Params[0]
}

// Finishes reports whether, after a failed step, the graph executes the steps that do not depend on
// it.
func (g *Graph) Finishes() bool { return g.workflow.Directive.OnFail == "finish" }

// graph checks a struct with //flow:dag and adds its workflow to the model. The steps are added
// later.
func (b *builder) graph(spec *ast.TypeSpec, ds []directive.Directive) {
	d := ds[0]
	if len(ds) > 1 {
		b.report(ds[1].Pos, "type "+spec.Name.Name+" has two directives", "keep one")
		return
	}
	g := &Graph{spec: spec, broken: map[string]bool{}, methods: map[string]*ast.FuncDecl{}}
	g.workflow = &Workflow{Function: Function{Impl: spec.Name.Name, Stored: b.stored(spec.Name.Name, d), Doc: prose(b.docOf(spec)), Directive: d, pos: spec.Name.Pos()}, Graph: g}
	obj, ok := b.Info.Defs[spec.Name].(*types.TypeName)
	if !ok {
		b.report(spec.Name.Pos(), "type "+spec.Name.Name+" is not part of the package", "mend the errors of the compiler first")
		return
	}
	g.Type = obj
	b.structs[obj] = g
	for _, f := range b.Files {
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && receiverName(&Function{decl: fn}) == obj.Name() {
				g.methods[fn.Name.Name] = fn
			}
		}
	}
	fields := b.graphType(g)
	if token.IsExported(obj.Name()) && !d.Has("as") {
		b.report(spec.Name.Pos(), "graph "+obj.Name()+" is exported, and so is what is generated from it",
			"rename it to "+name.Unexported(obj.Name())+": the definition of the workflow takes the exported name; or keep it and name that with as=Name")
		return
	}
	goName, ok := b.goName(spec.Name.Pos(), obj.Name(), d)
	if fields == nil || !ok {
		return
	}
	g.workflow.GoName = goName
	b.fields(g, fields)
	b.model.Workflows = append(b.model.Workflows, g.workflow)
}

// docOf returns the doc comment of a type, which may be on its group of declarations.
func (b *builder) docOf(spec *ast.TypeSpec) *ast.CommentGroup {
	for _, f := range b.Files {
		for _, decl := range f.AST.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && spec.Doc == nil && gen.Doc != nil && gen.Pos() <= spec.Pos() && spec.End() <= gen.End() {
				return gen.Doc
			}
		}
	}
	return spec.Doc
}

// graphType returns the struct type of a graph. If the type is not a struct, graphType reports the
// mistake and returns nil.
func (b *builder) graphType(g *Graph) *types.Struct {
	title := "graph " + g.Type.Name()
	if g.spec.TypeParams != nil {
		b.report(g.spec.TypeParams.Pos(), title+" has type parameters", "write it for concrete types")
		return nil
	}
	fields, ok := g.Type.Type().Underlying().(*types.Struct)
	switch {
	case g.Type.IsAlias():
		b.report(g.spec.Name.Pos(), title+" is an alias", "declare a struct type of its own")
		return nil
	case !ok:
		b.report(g.spec.Name.Pos(), fmt.Sprintf("%s is no struct but %s", title, types.TypeString(g.Type.Type().Underlying(), types.RelativeTo(b.Types))),
			"declare a struct: its exported fields are the input, the others the dependencies of the steps")
		return nil
	}
	return fields
}

// fields adds the exported fields to the input and the unexported fields to the dependencies.
func (b *builder) fields(g *Graph, s *types.Struct) {
	w := g.workflow
	title := "graph " + g.Type.Name()
	for i := range s.NumFields() {
		f := s.Field(i)
		switch {
		case f.Name() == "_":
		case f.Embedded() && f.Exported():
			b.report(f.Pos(), fmt.Sprintf("%s embeds %s", title, f.Name()), "give the field a name: exported fields are the input, the others the dependencies of the steps")
		case !f.Exported():
			if isLock(f.Type()) {
				b.report(f.Pos(), fmt.Sprintf("%s: dependency %s is a lock, and each step gets a copy of it", title, f.Name()), "make it a pointer")
				continue
			}
			g.Dependencies = append(g.Dependencies, b.dependency(f))
		default:
			stored, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
			if stored == "-" {
				b.report(f.Pos(), fmt.Sprintf("%s: field %s is part of the input, which is stored, and has the tag json:\"-\"", title, f.Name()),
					"remove the tag, or make the field unexported: a dependency of the steps")
				continue
			}
			if stored == "" {
				stored = f.Name()
			}
			for _, other := range w.Params {
				if strings.EqualFold(other.Wire, stored) {
					b.report(f.Pos(), fmt.Sprintf("%s stores both %s and %s as %q", title, other.Name, f.Name(), stored), "give one of them another json tag")
				}
			}
			for _, fault := range payload.Check(f.Name(), f.Type(), b.Types) {
				b.report(f.Pos(), title+": "+fault.String(), fault.Fix)
			}
			w.Params = append(w.Params, Param{Name: f.Name(), Field: f.Name(), Wire: stored, Type: f.Type(), Var: f})
		}
	}
	b.scopeOf(g)
}

// isLock reports whether a value of type t must not be copied.
func isLock(t types.Type) bool {
	locks := func(t types.Type) bool { return types.NewMethodSet(t).Lookup(nil, "Lock") != nil }
	return !types.IsInterface(t) && !locks(t) && locks(types.NewPointer(t))
}

// scopeOf creates the scope in which the expressions of the graph's directive are checked. It
// contains the exported fields.
func (b *builder) scopeOf(g *Graph) {
	w := g.workflow
	from, to := g.spec.Type.Pos(), g.spec.Type.End()
	scope := types.NewScope(b.Types.Scope().Innermost(from), from, to, "the input of a graph")
	for i := range w.Params {
		p := &w.Params[i]
		p.Var = types.NewVar(p.Var.Pos(), b.Types, p.Name, p.Type)
		scope.Insert(p.Var)
	}
	w.scope = from + 1
}

// dependency returns the parameter of Register for an unexported field. Fields of the same name and
// type share a parameter.
func (b *builder) dependency(f *types.Var) *Dependency {
	for _, d := range b.model.Dependencies {
		if d.Field == f.Name() && types.Identical(d.Type, f.Type()) {
			return d
		}
	}
	d := &Dependency{Field: f.Name(), Type: f.Type()}
	b.model.Dependencies = append(b.model.Dependencies, d)
	return d
}

// graphOptions checks the options in the directive of a graph.
func (b *builder) graphOptions(g *Graph) {
	w := g.workflow
	fn := &w.Function
	if fn.Directive.Has("schedule") && len(fn.Params) > 0 {
		b.report(fn.Directive.At("schedule"), "graph "+fn.Impl+" takes an input, and its schedule has none to give",
			"remove schedule= and call "+fn.GoName+".Schedule with the input, or have no exported fields")
	}
	w.Uses = b.uses(fn)
	b.starts(w)
}
