package flowcheck

import (
	"go/ast"
	"go/types"
)

var rearmRule = rule{name: "rearm", advice: true}

// checkRearm finds timers that a loop creates in each iteration before its Select, so that each
// time another case wins the timer starts from zero.
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
				return false // a nested loop is checked on its own
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

// staysWithout reports whether the loop ends when one of its own timers wins the Select. Such a
// timer is an intended deadline for each iteration.
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
