package flowcheck

import (
	"go/ast"
	"go/token"
)

var captureRule = rule{name: "capture"}

// checkCapture finds functions passed to Record that assign to captured variables.
func checkCapture(p *packagePass, u *unit) {
	if !u.isRecord {
		return
	}
	assigned := func(left ast.Expr) {
		if left == nil {
			return
		}
		if v := rootVar(p.pass.TypesInfo, left); v != nil && v.Name() != "_" && !u.contains(v.Pos()) {
			p.report("capture", left.Pos(), left.End(), p.source(left)+
				" is assigned in the function of a Record, which no replay calls: return the value, and assign what Record returns")
		}
	}
	p.inspect(u, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if n.Tok != token.DEFINE {
					assigned(left)
				}
			}
		case *ast.IncDecStmt:
			assigned(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				assigned(n.Key)
				assigned(n.Value)
			}
		}
	})
}
