package model

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/name"
)

// edges finds the possible transitions of each step. They are calls of generated methods in the
// body of the step, or in other methods of the machine that the step calls.
func (b *builder) edges(m *Machine) {
	f := finder{b: b, m: m, bodies: map[string]body{}}
	b.methods(m, func(decl *ast.FuncDecl, recv types.Object) { f.bodies[decl.Name.Name] = body{decl, recv} })
	for _, s := range m.Steps {
		f.from, f.seen = s, map[string]bool{}
		f.method(s.Impl, "")
		if s.Catch != nil {
			f.add(s.Catch, "failure")
		}
	}
}

type body struct {
	decl *ast.FuncDecl
	recv types.Object
}

// finder finds the transitions of one step.
type finder struct {
	b      *builder
	m      *Machine
	bodies map[string]body
	from   *Step
	seen   map[string]bool // names of the methods that were analyzed
}

func (f *finder) add(to *Step, label string) {
	e := Edge{From: f.from, To: to, Label: label}
	if !slices.Contains(f.m.Edges, e) {
		f.m.Edges = append(f.m.Edges, e)
	}
}

func (f *finder) method(id, label string) {
	if m, ok := f.bodies[id]; ok && !f.seen[id] {
		f.seen[id] = true
		f.node(m.decl.Body, m.recv, label)
	}
}

// node adds the transitions in the code n. label is the condition under which the code is executed.
func (f *finder) node(n ast.Node, recv types.Object, label string) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch {
		case f.b.is(sel.X, recv):
			f.call(sel.Sel.Name, call, label)
		case sel.Sel.Name == "OrAfter" && len(call.Args) == 2:
			f.node(sel.X, recv, label)
			f.node(call.Args[1], recv, "after "+text(call.Args[0]))
			return false
		case sel.Sel.Name == "After" && len(call.Args) == 1:
			f.node(sel.X, recv, "after "+text(call.Args[0]))
			return false
		}
		return true
	})
}

// call adds the transitions of a call of the method id of the machine.
func (f *finder) call(id string, call *ast.CallExpr, label string) {
	if id == name.Done {
		f.add(nil, label)
		return
	}
	for _, s := range f.m.Steps {
		switch id {
		case name.Goto(s.Impl):
			f.add(s, label)
			return
		case name.Await(s.Impl):
			if len(call.Args) > 0 {
				label = strings.TrimPrefix(label+", "+text(call.Args[len(call.Args)-1]), ", ")
			}
			f.add(s, label)
			return
		}
	}
	f.method(id, label)
}

// text returns an expression as a label of a diagram: on one line and without the characters that
// would end the label.
func text(e ast.Expr) string {
	s := strings.Join(strings.Fields(types.ExprString(e)), " ")
	return strings.NewReplacer(":", "", ";", "", "#", "", "\"", "'", "`", "'", "{", "(", "}", ")").Replace(s)
}
