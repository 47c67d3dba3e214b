package flowcheck

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
)

var branchRule = rule{name: "branch"}

// makesBranch reports whether a function runs its function arguments in branches of their own.
func makesBranch(fn *types.Func) bool {
	return isFunc(fn, workflowPath, "Go", "GoErr", "Map", "MapSettled", "ForEach", "Compensate", "AddNode", "AddEach") ||
		isMethod(fn, workflowPath, "Ask", "Handle")
}

// checkBranch finds branch functions that use the context of another branch.
func checkBranch(p *packagePass, u *unit) {
	if u.lit == nil || !u.isFlow || u.cursor.ParentEdgeKind() != edge.CallExpr_Args {
		return
	}
	call, _ := u.cursor.Parent().Node().(*ast.CallExpr)
	fn := origin(callee(p.pass.TypesInfo, call))
	if !makesBranch(fn) {
		return
	}
	p.inspect(u, func(n ast.Node) {
		id, isIdent := n.(*ast.Ident)
		if !isIdent {
			return
		}
		v, isVar := p.pass.TypesInfo.Uses[id].(*types.Var)
		if !isVar || v.IsField() || !isFlowContext(v.Type()) || u.contains(v.Pos()) {
			return
		}
		text := id.Name + " is the context of another branch than that of this function, which " + display(fn) + " gives one of its own: use that"
		var fix []analysis.SuggestedFix
		if own := p.ctxName(u, id.Pos()); own != "" {
			fix = suggest("Use "+own, analysis.TextEdit{Pos: id.Pos(), End: id.End(), NewText: []byte(own)})
		}
		p.report("branch", id.Pos(), id.End(), text, fix...)
	})
}
