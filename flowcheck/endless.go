package flowcheck

import (
	"go/ast"
)

var endlessRule = rule{name: "endless", advice: true}

// checkEndless finds loops of durable operations that only an error can end, in functions that do
// not continue as new.
func checkEndless(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	continued := false
	ast.Inspect(u.body, func(n ast.Node) bool {
		if call, isCall := n.(*ast.CallExpr); isCall {
			continued = continued || isMethod(origin(callee(p.pass.TypesInfo, call)), workflowPath, "Definition", "ContinueAsNew")
		}
		return true
	})
	if continued {
		return
	}
	p.inspect(u, func(n ast.Node) {
		loop, isLoop := n.(*ast.ForStmt)
		if isLoop && isEndless(p.pass.TypesInfo, loop) && p.hasDurable(loop.Body) != nil && !p.ends(loop) && !p.isDeaf(loop) {
			p.report("endless", loop.Pos(), loop.Body.Lbrace, "advice: this loop makes the log longer for ever: end it some time, and return what ContinueAsNew returns")
		}
	})
}

// ends reports whether the loop may end without an error.
func (p *packagePass) ends(loop *ast.ForStmt) bool {
	failing := true
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				failing = false
				return false
			}
			if !p.isFailure(n.Results[len(n.Results)-1]) {
				failing = false
			}
			return false
		}
		return true
	})
	return !failing || leavesByBranch(loop)
}

// isFailure reports whether a result is certainly a non-nil error.
func (p *packagePass) isFailure(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name != "nil" && isErrorType(p.pass.TypesInfo.TypeOf(e))
	case *ast.CallExpr:
		fn := callee(p.pass.TypesInfo, e)
		return isFunc(fn, "fmt", "Errorf") || isFunc(fn, "errors", "New")
	}
	return false
}
