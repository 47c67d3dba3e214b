package flowcheck

import "go/ast"

var cleanupRule = rule{name: "cleanup", advice: true}

// checkCleanup finds deferred steps that use the context of the function, which may be canceled by
// then.
func checkCleanup(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		stmt, isDefer := n.(*ast.DeferStmt)
		if !isDefer {
			return
		}
		ast.Inspect(stmt.Call, func(n ast.Node) bool {
			call, isCall := n.(*ast.CallExpr)
			if !isCall || !p.isDurableCall(call) || len(call.Args) == 0 {
				return true
			}
			fn := origin(callee(p.pass.TypesInfo, call))
			id, isIdent := ast.Unparen(call.Args[0]).(*ast.Ident)
			if isIdent && !isEngine(fn.Pkg().Path()) && p.pass.TypesInfo.Uses[id] == u.ctx {
				p.report("cleanup", call.Pos(), call.End(), "advice: if the run is canceled or out of time, "+display(fn)+" fails at once with this context: give it workflow.Detached("+id.Name+")")
			}
			return true
		})
	})
}
