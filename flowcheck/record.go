package flowcheck

import (
	"go/ast"
	"go/token"
)

var recordRule = rule{name: "record"}

// checkRecord finds operations that a function passed to Record must not use.
func checkRecord(p *packagePass, u *unit) {
	if !u.isRecord {
		return
	}
	for _, pr := range u.prims {
		switch pr.rule {
		case durable:
			p.report("record", pr.pos, pr.end, pr.what+" is a durable operation in the function of a Record, which no replay calls: do it in front of the Record")
		case "channel", "lock", "goroutine":
			p.report("record", pr.pos, pr.end, pr.what+" is in the function of a Record, for which the run stands still: do it in a step")
		}
	}
	for _, c := range u.calls {
		if p.isDurableFunc(c.fn) {
			p.report("record", c.pos, c.end, display(c.fn)+" has durable operations, in the function of a Record, which no replay calls: call it in front of the Record")
		}
	}
}

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
