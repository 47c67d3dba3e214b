package model

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// cycles reports keys and fatal errors that make an initialization cycle: the
// generated variable of a step refers to its fatal errors and its function to
// the names in the key, so none of these may be initialised by calling it.
func (b *builder) cycles() {
	var g *graph
	for _, s := range b.model.Steps {
		refs := s.references(b.Types)
		if len(refs) == 0 {
			continue
		}
		if g == nil {
			g = b.dependencies()
		}
		counterpart := b.Types.Scope().Lookup(s.GoName)
		for _, ref := range refs {
			if path := g.path(ref, counterpart); path != nil {
				b.report(s.Directive.At(ref.option), fmt.Sprintf("%s of step %s makes an initialization cycle: %s needs %s",
					ref.option, s.Impl, s.GoName, strings.Join(path, ", which needs ")),
					"set the variable in an init function")
			}
		}
	}
}

// reference is a package-level object that a directive names.
type reference struct {
	object types.Object
	option string
}

func (s *Step) references(pkg *types.Package) []reference {
	var refs []reference
	for _, f := range s.Fatal {
		if f.Sentinel != nil && f.Sentinel.Pkg() == pkg {
			refs = append(refs, reference{f.Sentinel, "fatal"})
		}
	}
	if s.Key == nil {
		return refs
	}
	ast.Inspect(s.Key.Expr, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if obj := s.Key.Info.Uses[id]; inPackage(obj, pkg) {
				refs = append(refs, reference{obj, "key"})
			}
		}
		return true
	})
	return refs
}

// inPackage reports whether obj is a variable, function or method that pkg
// declares at package level.
func inPackage(obj types.Object, pkg *types.Package) bool {
	switch obj := obj.(type) {
	case *types.Var:
		return obj.Pkg() == pkg && obj.Parent() == pkg.Scope()
	case *types.Func:
		return obj.Pkg() == pkg
	}
	return false
}

// graph holds which package-level objects each of them refers to.
type graph struct {
	edges map[types.Object][]types.Object
}

// dependencies reads the graph off the user's files and adds what generated
// code will refer to.
func (b *builder) dependencies() *graph {
	g := &graph{make(map[types.Object][]types.Object)}
	for _, f := range b.Files {
		for _, decl := range f.AST.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				b.addEdges(g, b.Info.Defs[decl.Name], decl)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						b.addValueEdges(g, v)
					}
				}
			}
		}
	}
	all := b.Types.Scope().Lookup(b.model.StepsVar)
	for _, s := range b.model.Steps {
		counterpart := b.Types.Scope().Lookup(s.GoName)
		for _, ref := range s.references(b.Types) {
			g.edges[counterpart] = append(g.edges[counterpart], ref.object)
			g.edges[all] = append(g.edges[all], counterpart)
		}
	}
	return g
}

func (b *builder) addValueEdges(g *graph, spec *ast.ValueSpec) {
	for i, id := range spec.Names {
		switch {
		case len(spec.Values) == len(spec.Names):
			b.addEdges(g, b.Info.Defs[id], spec.Values[i])
		case len(spec.Values) == 1:
			b.addEdges(g, b.Info.Defs[id], spec.Values[0])
		}
	}
}

func (b *builder) addEdges(g *graph, from types.Object, node ast.Node) {
	if from == nil {
		return
	}
	ast.Inspect(node, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if to := b.Info.Uses[id]; inPackage(to, b.Types) && to != from {
				g.edges[from] = append(g.edges[from], to)
			}
		}
		return true
	})
}

// path returns the names of objects from ref to target if an initialization
// leads there: functions alone may well call each other, so one of them must
// be a variable.
func (g *graph) path(ref reference, target types.Object) []string {
	type state struct {
		object types.Object
		isVar  bool
	}
	start := state{ref.object, ref.option == "fatal"}
	if _, ok := ref.object.(*types.Var); ok {
		start.isVar = true
	}
	before := map[state]state{start: {}}
	for queue := []state{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.object == target && at.isVar {
			var names []string
			for s := at; s.object != nil; s = before[s] {
				names = append(names, s.object.Name())
			}
			slices.Reverse(names)
			return names
		}
		for _, next := range g.edges[at.object] {
			_, isVar := next.(*types.Var)
			s := state{next, at.isVar || isVar}
			if _, seen := before[s]; !seen {
				before[s] = at
				queue = append(queue, s)
			}
		}
	}
	return nil
}
