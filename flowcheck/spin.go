package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"
)

var spinRule = rule{name: "spin"}

// checkSpin finds infinite loops that do not wait for anything.
func checkSpin(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		loop, isLoop := n.(*ast.ForStmt)
		if !isLoop || p.mayBeDurable(loop) || leaves(loop) {
			return
		}
		if isEndless(p.pass.TypesInfo, loop) || p.standsStill(loop) {
			p.report("spin", loop.Pos(), loop.Body.Lbrace, "this loop never ends, and nothing in it waits, so that the run stands still: wait for a future, a message or a time")
		}
	})
}

func isEndless(info *types.Info, loop *ast.ForStmt) bool {
	return loop.Cond == nil || info.Types[loop.Cond].Value != nil && info.Types[loop.Cond].Value.String() == "true"
}

// leaves reports whether the loop body may leave the loop by return, break, goto or a panic.
func leaves(loop *ast.ForStmt) bool {
	found := leavesByBranch(loop)
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			found = true
		case *ast.CallExpr:
			if id, isIdent := n.Fun.(*ast.Ident); isIdent && id.Name == "panic" {
				found = true
			}
		}
		return !found
	})
	return found
}

// leavesByBranch reports whether a break or goto leaves the loop.
func leavesByBranch(loop *ast.ForStmt) bool {
	found := false
	var walk func(n ast.Node, inner bool)
	walk = func(n ast.Node, inner bool) {
		ast.Inspect(n, func(m ast.Node) bool {
			switch m := m.(type) {
			case *ast.FuncLit:
				return false
			case *ast.BranchStmt:
				found = found || m.Tok == token.GOTO || m.Label != nil || m.Tok == token.BREAK && !inner
			case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
				if m != n && !inner {
					walk(m, true)
					return false
				}
			}
			return !found
		})
	}
	walk(loop.Body, false)
	return found
}

// standsStill reports whether the condition of a loop cannot change while the loop runs, because it
// depends only on the time, on futures and on variables that the loop does not assign.
func (p *packagePass) standsStill(loop *ast.ForStmt) bool {
	info := p.pass.TypesInfo
	if loop.Post != nil {
		return false
	}
	vars := make(map[types.Object]bool)
	still, asks := true, false
	ast.Inspect(loop.Cond, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if v, isVar := info.Uses[n].(*types.Var); isVar {
				vars[v] = true
			}
		case *ast.CallExpr:
			fn := origin(callee(info, n))
			switch {
			case isMethod(fn, workflowPath, "Future", "Done"), isFunc(fn, workflowPath, "Now"), isMethod(fn, workflowPath, "Context", "Err"):
				asks = true
			case methodOf(fn, "time") == "":
				still = false
			}
		}
		return still
	})
	if !still || !asks {
		return false
	}
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if vars[info.Uses[n]] && !isFlowContext(info.Uses[n].Type()) {
				still = false // the body may assign it
			}
		case *ast.CallExpr:
			if fn := callee(info, n); fn == nil || fn.Pkg() == nil || !isEngine(fn.Pkg().Path()) && !standard().has(fn.Pkg().Path()) {
				still = false
			}
		}
		return still
	})
	return still
}
