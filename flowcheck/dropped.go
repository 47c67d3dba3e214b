package flowcheck

import (
	"go/ast"
	"go/types"
)

var droppedRule = rule{name: "dropped"}

// checkDropped finds errors and futures that are not used.
func checkDropped(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		stmt, isStmt := n.(*ast.ExprStmt)
		if !isStmt {
			return
		}
		call, isCall := ast.Unparen(stmt.X).(*ast.CallExpr)
		if !isCall {
			return
		}
		fn := origin(callee(p.pass.TypesInfo, call))
		if fn == nil {
			return
		}
		results := fn.Signature().Results()
		if results.Len() == 0 {
			return
		}
		last := results.At(results.Len() - 1).Type()
		switch {
		case isErrorType(last) && p.isDurableFunc(fn):
			p.report("dropped", call.Pos(), call.End(), "the error of "+display(fn)+" is dropped: check it, or write _ = if that is meant")
		case isFuture(last):
			p.report("dropped", call.Pos(), call.End(), "nobody asks for the result of "+display(fn)+", nor for its error: keep it and call Get, or write _ = if that is meant")
		}
	})
}

func isFuture(t types.Type) bool {
	ptr, isPointer := types.Unalias(t).(*types.Pointer)
	return isPointer && isNamed(ptr.Elem(), workflowPath, "Future", "Child")
}
