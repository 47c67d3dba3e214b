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

// leaves reports whether the body of a loop contains a return, break, goto or panic that leaves the
// loop.
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

// standsStill reports whether the condition of a loop cannot change while the loop runs. This is
// the case if the condition depends only on the time, on futures and on variables that the loop
// does not assign.
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
				still = false // The body may assign the variable.
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

var deafRule = rule{name: "deaf"}

// checkDeaf finds loops that wait and never end, even after the run is canceled.
func checkDeaf(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		if loop, isLoop := n.(*ast.ForStmt); isLoop && p.isDeaf(loop) {
			p.report("deaf", loop.Pos(), loop.Body.Lbrace, "no error leaves this loop: when the run is canceled, what waits in it fails at once, again and again: return the error")
		}
	})
}

func (p *packagePass) isDeaf(loop *ast.ForStmt) bool {
	return isEndless(p.pass.TypesInfo, loop) && p.hasDurable(loop.Body) != nil && !leaves(loop)
}

var endlessRule = rule{name: "endless", advice: true}

// checkEndless finds loops of durable operations that only an error ends. It ignores loops in
// functions that continue as new.
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

// ends reports whether a loop may end without an error.
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

var rearmRule = rule{name: "rearm", advice: true}

// checkRearm finds timers that a loop creates in each iteration before its Select. Whenever another
// case wins, such a timer restarts from zero.
func checkRearm(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		loop, isLoop := n.(*ast.ForStmt)
		if !isLoop {
			return
		}
		made := p.timersOf(loop)
		ast.Inspect(loop.Body, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.FuncLit, *ast.ForStmt, *ast.RangeStmt:
				return false // A nested loop is checked separately.
			}
			assign, isAssign := n.(*ast.AssignStmt)
			if !isAssign || len(assign.Rhs) != 1 {
				return true
			}
			call, isCall := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
			if !isCall || !isFunc(origin(callee(p.pass.TypesInfo, call)), workflowPath, "Select") {
				return true
			}
			won, isIdent := assign.Lhs[0].(*ast.Ident)
			if !isIdent {
				return true
			}
			for _, arg := range call.Args[1:] {
				if p.isTimer(arg, made) && p.staysWithout(loop, p.pass.TypesInfo.ObjectOf(won), made) {
					p.report("rearm", arg.Pos(), arg.End(), "advice: this timer starts over in every turn of the loop, so that messages put it off: if it is a deadline, make it in front of the loop")
				}
			}
			return true
		})
	})
}

// timersOf returns the variables that the loop body declares as timers.
func (p *packagePass) timersOf(loop *ast.ForStmt) map[types.Object]bool {
	made := make(map[types.Object]bool)
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		assign, isAssign := n.(*ast.AssignStmt)
		if !isAssign || len(assign.Lhs) != len(assign.Rhs) {
			return true
		}
		for i, right := range assign.Rhs {
			if id, isIdent := assign.Lhs[i].(*ast.Ident); isIdent && p.isAfter(right) {
				made[p.pass.TypesInfo.ObjectOf(id)] = true
			}
		}
		return true
	})
	return made
}

func (p *packagePass) isAfter(e ast.Expr) bool {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	return isCall && isFunc(origin(callee(p.pass.TypesInfo, call)), workflowPath, "After")
}

func (p *packagePass) isTimer(e ast.Expr, made map[types.Object]bool) bool {
	if p.isAfter(e) {
		return true
	}
	id, isIdent := ast.Unparen(e).(*ast.Ident)
	return isIdent && made[p.pass.TypesInfo.Uses[id]]
}

// staysWithout reports whether the loop ends when one of the timers in made wins the Select. Such a
// timer is not a mistake, because it is a deadline for each iteration.
func (p *packagePass) staysWithout(loop *ast.ForStmt, won types.Object, made map[types.Object]bool) bool {
	info, met := p.pass.TypesInfo, false
	is := func(e ast.Expr, obj func(types.Object) bool) bool {
		id, isIdent := ast.Unparen(e).(*ast.Ident)
		return isIdent && obj(info.Uses[id])
	}
	isWon := func(o types.Object) bool { return o == won }
	isMade := func(o types.Object) bool { return made[o] }
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			if n.Tag == nil || !is(n.Tag, isWon) {
				return true
			}
			for _, stmt := range n.Body.List {
				clause := stmt.(*ast.CaseClause)
				for _, e := range clause.List {
					met = met || is(e, isMade) && returns(clause.Body)
				}
			}
		case *ast.IfStmt:
			cond, isBinary := n.Cond.(*ast.BinaryExpr)
			if isBinary && (is(cond.X, isWon) && is(cond.Y, isMade) || is(cond.Y, isWon) && is(cond.X, isMade)) && cond.Op.String() == "==" {
				met = met || returns(n.Body.List)
			}
		}
		return true
	})
	return met
}

// returns reports whether statements end with a return.
func returns(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	_, isReturn := list[len(list)-1].(*ast.ReturnStmt)
	return isReturn
}
