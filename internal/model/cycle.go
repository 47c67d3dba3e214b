package model

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
)

// cycles reports directive values that cause an initialization cycle in the generated code. The
// generated variable of a step or workflow refers to the objects that its directive names. The
// function of a step refers to the names in its key. Therefore the initialization of these objects
// must not call the function.
func (b *builder) cycles() {
	var g *graph
	for _, c := range b.counterparts() {
		if len(c.refs) == 0 {
			continue
		}
		if g == nil {
			g = b.dependencies()
		}
		for _, ref := range c.refs {
			if path := g.path(ref, b.Types.Scope().Lookup(c.fn.GoName)); path != nil {
				b.report(c.fn.Directive.At(ref.option), fmt.Sprintf("%s of %s %s makes an initialization cycle: %s needs %s",
					ref.option, c.fn.Directive.Kind, c.fn.Impl, c.fn.GoName, strings.Join(path, ", which needs ")),
					"set the variable in an init function")
			}
		}
	}
}

// counterpart is a step or workflow and the objects to which its generated code refers.
type counterpart struct {
	fn   *Function
	refs []reference
}

func (b *builder) counterparts() []counterpart {
	var all []counterpart
	for _, s := range b.model.Steps {
		refs := append(s.references(b.Types), s.Function.references(b.Types)...)
		all = append(all, counterpart{&s.Function, refs})
	}
	for _, w := range b.model.Workflows {
		refs := append(w.Priority.references(b.Types, "priority"), w.Singleton.references(b.Types, "singleton")...)
		refs = append(refs, w.Collect.references(b.Types, "debounce")...)
		if w.Fair != nil {
			refs = append(append(refs, w.Fair.Key.references(b.Types, "fair")...), w.Fair.Share.references(b.Types, "fair")...)
		}
		refs = append(refs, w.Function.references(b.Types)...)
		all = append(all, counterpart{&w.Function, refs})
	}
	return all
}

// reference is a package-level object that an option of a directive names.
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
	return append(refs, s.Key.references(pkg, "key")...)
}

// references returns the package-level objects in the keys of the limits that f uses.
func (f *Function) references(pkg *types.Package) []reference {
	var refs []reference
	for _, u := range f.Uses {
		refs = append(refs, u.Key.references(pkg, "uses")...)
	}
	return refs
}

func (k *Key) references(pkg *types.Package, option string) []reference {
	if k == nil {
		return nil
	}
	var refs []reference
	ast.Inspect(k.Expr, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if obj := k.Info.Uses[id]; inPackage(obj, pkg) {
				refs = append(refs, reference{obj, option})
			}
		}
		return true
	})
	return refs
}

// inPackage reports whether obj is a package-level variable or function of pkg, or a method.
func inPackage(obj types.Object, pkg *types.Package) bool {
	switch obj := obj.(type) {
	case *types.Var:
		return obj.Pkg() == pkg && obj.Parent() == pkg.Scope()
	case *types.Func:
		return obj.Pkg() == pkg
	}
	return false
}

// graph maps each package-level object to the objects to which its declaration refers.
type graph struct {
	edges map[types.Object][]types.Object
}

// dependencies returns the graph of the user's declarations, extended by the references of the
// generated code.
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
	for _, c := range b.counterparts() {
		generated := b.Types.Scope().Lookup(c.fn.GoName)
		for _, ref := range c.refs {
			g.edges[generated] = append(g.edges[generated], ref.object)
			if c.fn.Directive.Kind == directive.Step {
				g.edges[all] = append(g.edges[all], generated)
			}
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

// path returns the names of the objects on a path of references from ref to target, or nil if there
// is no path. At least one of the objects must be a variable, because functions may call each other
// recursively.
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
