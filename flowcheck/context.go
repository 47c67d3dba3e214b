package flowcheck

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
)

var contextRule = rule{
	name: "context",
	does: "makes a context.Context, which ends by what is not in the log",
	mend: "use the workflow.Context, and leave context.Context to steps",
}

// checkContext finds contexts in workflow code that were created outside of the workflow.
func checkContext(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	flow := u
	for flow.parent != nil && flow.parent.isFlow {
		flow = flow.parent
	}
	p.inspect(u, func(n ast.Node) {
		id, isIdent := n.(*ast.Ident)
		if !isIdent {
			return
		}
		v, isVar := p.pass.TypesInfo.Uses[id].(*types.Var)
		if isVar && isContext(v.Type()) && !(flow.contains(v.Pos()) && v.Pkg() == p.pass.Pkg) {
			p.report("context", id.Pos(), id.End(),
				id.Name+" is a context.Context from outside, which ends by what is not in the log: use the workflow.Context, or do it in a step")
		}
	})
}

var branchRule = rule{name: "branch"}

// makesBranch reports whether fn executes its function arguments in separate branches.
func makesBranch(fn *types.Func) bool {
	return isFunc(fn, workflowPath, "Go", "GoErr", "Map", "MapSettled", "ForEach", "Compensate") ||
		isFunc(fn, graphPath, "AddNode", "AddEach") ||
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

var cleanupRule = rule{name: "cleanup", advice: true}

// checkCleanup finds deferred steps that use the context of the function. When the step is called,
// this context may be canceled.
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
