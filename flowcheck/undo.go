package flowcheck

import (
	"go/ast"
	"go/types"
)

var undoRule = rule{name: "undo", advice: true}

// checkUndo finds undo functions that are registered only after further operations. If one of these
// operations fails, the operation to undo is not undone.
func checkUndo(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		block, isBlock := n.(*ast.BlockStmt)
		if !isBlock {
			return
		}
		for i, stmt := range block.List {
			undo := p.compensates(stmt)
			if undo == nil {
				continue
			}
			made, between := p.madeBefore(block.List[:i], undo)
			if made == nil || between == nil {
				continue
			}
			p.report("undo", undo.Pos(), undo.Fun.End(), "advice: if "+p.calleeName(between)+" fails, what "+p.calleeName(made)+" did is not undone: register the undo right behind it")
		}
	})
}

// compensates returns the call if stmt calls Compensate with a function literal. Otherwise it
// returns nil.
func (p *packagePass) compensates(stmt ast.Stmt) *ast.CallExpr {
	var call *ast.CallExpr
	switch stmt := stmt.(type) {
	case *ast.ExprStmt:
		call, _ = stmt.X.(*ast.CallExpr)
	case *ast.AssignStmt:
		if len(stmt.Rhs) == 1 {
			call, _ = stmt.Rhs[0].(*ast.CallExpr)
		}
	}
	if call == nil || len(call.Args) != 2 || !isFunc(origin(callee(p.pass.TypesInfo, call)), workflowPath, "Compensate") {
		return nil
	}
	if _, isLit := call.Args[1].(*ast.FuncLit); !isLit {
		return nil
	}
	return call
}

// madeBefore returns the last durable operation before an undo whose result the undo uses, and an
// operation between the two that may fail. It returns nil if there is none.
func (p *packagePass) madeBefore(list []ast.Stmt, undo *ast.CallExpr) (made, between *ast.CallExpr) {
	for i := len(list) - 1; i >= 0; i-- {
		if p.compensates(list[i]) != nil {
			continue
		}
		assign, isAssign := list[i].(*ast.AssignStmt)
		if isAssign && len(assign.Rhs) == 1 {
			call, isCall := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
			if isCall && p.isDurableCall(call) {
				for _, left := range assign.Lhs {
					id, isIdent := left.(*ast.Ident)
					if !isIdent || id.Name == "_" {
						continue
					}
					if v, isVar := p.pass.TypesInfo.ObjectOf(id).(*types.Var); isVar && !isErrorType(v.Type()) && p.mentions(undo.Args[1:], v) {
						return call, between
					}
				}
			}
		}
		if call := p.hasDurable(list[i]); call != nil && returnsError(callee(p.pass.TypesInfo, call)) {
			between = call
		}
	}
	return nil, nil
}

func returnsError(fn *types.Func) bool {
	if fn == nil {
		return false
	}
	results := fn.Signature().Results()
	return results.Len() > 0 && isErrorType(results.At(results.Len()-1).Type())
}
