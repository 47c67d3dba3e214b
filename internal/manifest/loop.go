package manifest

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
)

func (x *walker) forStmt(s *ast.ForStmt) {
	if s.Init != nil {
		x.stmt(s.Init)
	}
	carried := x.carried(s)
	x.loop(s.Pos(), carried, func() string {
		if s.Cond == nil {
			return ""
		}
		return x.expr(s.Cond).text
	}, func() {
		if !x.block(s.Body.List) && s.Post != nil {
			x.stmt(s.Post)
		}
	})
}

func (x *walker) rangeStmt(s *ast.RangeStmt) {
	over := x.expr(s.X)
	carried := x.carried(s)
	name := func(base string) value {
		if x.depth > 1 {
			base += strconv.Itoa(x.depth)
		}
		return text(base)
	}
	x.loop(s.Pos(), carried, func() string { return "range " + over.text }, func() {
		if s.Key != nil {
			x.store(s.Key, name("index"))
		}
		if s.Value != nil {
			x.store(s.Value, name("item"))
		}
		x.block(s.Body.List)
	})
}

// carried returns the outer variables that a loop modifies, in the order of their declarations.
func (x *walker) carried(loop ast.Stmt) []types.Object {
	seen := map[types.Object]bool{}
	note := func(e ast.Expr) {
		if obj := x.root(e); obj != nil {
			if v, ok := x.env[obj]; ok && v.ctx == nil && v.fn == nil && !x.frame.shared[obj] {
				seen[obj] = true
			}
		}
	}
	ast.Inspect(loop, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				note(l)
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok {
				for _, a := range call.Args {
					if obj := x.root(a); obj != nil && refers(obj.Type()) {
						note(a)
					}
				}
			}
		}
		return true
	})
	return slices.SortedFunc(maps.Keys(seen), func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
}

// loop evaluates a loop. The variables that the loop modifies are numbered, because their values
// differ between iterations.
func (x *walker) loop(pos token.Pos, carried []types.Object, cond func() string, body func()) {
	names := map[types.Object]value{}
	for _, obj := range carried {
		before := x.env[obj]
		delete(x.env, obj)
		x.let(obj, before, pos)
		names[obj] = x.env[obj]
	}
	x.depth++
	head := cond()
	ops, after, _ := x.under("in "+head, x.env, func() bool { return x.around(func() bool { body(); return false }) })
	x.depth--
	for _, obj := range carried {
		if after[obj].text != names[obj].text {
			ops = append(ops, &Op{Op: "let", Name: names[obj].text, Text: after[obj].text, Position: x.pkg.Position(pos)})
		}
		x.env[obj] = names[obj]
	}
	if len(ops) > 0 {
		x.emit(&Op{Op: "loop", Text: head, Body: ops}, pos)
	}
}
