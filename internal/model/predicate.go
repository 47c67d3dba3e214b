package model

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/spelling"
)

func (n *Node) predicateTitle() string {
	return "condition " + n.Step.Directive.If.Value + " of step " + n.name()
}

// predicate returns the method that decides whether a step is executed, with its dependencies. It
// returns nil if there is no such method.
func (b *builder) predicate(g *Graph, n *Node) *Predicate {
	text := n.Step.Directive.If
	decl := g.methods[text.Value]
	if decl == nil || b.Info.Defs[decl.Name] == nil {
		fix := "write it: func (" + receiverOf(n) + ") " + text.Value + "() bool, with the results that it looks at as parameters"
		if near := spelling.Nearest(text.Value, g.methodNames()); near != "" {
			fix = "did you mean " + near + "?"
		}
		b.report(text.Pos, fmt.Sprintf("%s: type %s has no method %s, which if names", n.title(), g.Type.Name(), text.Value), fix)
		return nil
	}
	sig := b.Info.Defs[decl.Name].(*types.Func).Signature()
	if slices.ContainsFunc(g.steps, func(o *Node) bool { return o.Step.decl == decl }) || g.broken[text.Value] {
		b.report(text.Pos, fmt.Sprintf("%s: if=%s is a step", n.title(), text.Value), "name a method without directive that returns a bool, or take the result of "+text.Value+" in one")
		return nil
	}
	title := n.predicateTitle()
	if sig.Results().Len() != 1 || !types.Identical(sig.Results().At(0).Type().Underlying(), types.Typ[types.Bool]) {
		pos := decl.Type.End()
		if decl.Type.Results != nil {
			pos = decl.Type.Results.Pos()
		}
		b.report(pos, title+" does not return a bool alone", "return bool: a condition cannot fail; what can is a step, whose result it takes")
	}
	p := &Predicate{Method: text.Value}
	for v := range sig.Params().Variables() {
		switch {
		case contextName(v.Type()) != "":
			b.report(v.Pos(), title+" takes a context", "remove it: a condition is pure, so what needs a context is a step, whose result it takes")
		case v.Name() == "" || v.Name() == "_":
			b.report(v.Pos(), title+" has a parameter without a name", "name it after the step whose result it takes")
		default:
			if t, ok := b.take(g, n, title, Param{Name: v.Name(), Type: v.Type(), Var: v}, nil); ok {
				p.Takes = append(p.Takes, t)
			}
		}
	}
	b.pure(g, n, decl, map[*ast.FuncDecl]bool{})
	return p
}

func receiverOf(n *Node) string {
	return strings.TrimSpace(n.Step.sig.Recv().Name() + " *" + n.graph.Type.Name())
}

// pure reports dependency fields in a predicate or in methods that the predicate calls. Dependency
// fields are set only while a step is executed.
func (b *builder) pure(g *Graph, n *Node, decl *ast.FuncDecl, seen map[*ast.FuncDecl]bool) {
	if decl == nil || seen[decl] || decl.Body == nil {
		return
	}
	seen[decl] = true
	ast.Inspect(decl.Body, func(node ast.Node) bool {
		sel, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch obj := b.Info.Uses[sel.Sel].(type) {
		case *types.Var:
			if slices.ContainsFunc(g.Dependencies, func(d *Dependency) bool { return d.Field == obj.Name() }) && b.fieldOf(g, obj) {
				b.report(sel.Sel.Pos(), fmt.Sprintf("%s uses field %s, which is a dependency, and only steps have those", n.predicateTitle(), obj.Name()),
					"ask it in a step, and let the condition take the result of that; or export the field, if it is part of the input")
			}
		case *types.Func:
			if m := g.methods[obj.Name()]; m != nil && b.Info.Defs[m.Name] == obj {
				b.pure(g, n, m, seen)
			}
		}
		return true
	})
}

// fieldOf reports whether v is a field of the struct of g.
func (b *builder) fieldOf(g *Graph, v *types.Var) bool {
	s, ok := g.Type.Type().Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if f == v {
			return true
		}
	}
	return false
}
