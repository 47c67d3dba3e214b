package flowcheck

import (
	"go/ast"
	"go/types"
)

var contextRule = rule{
	name: "context",
	does: "makes a context.Context, which ends by what is not in the log",
	mend: "use the workflow.Context, and leave context.Context to steps",
}

// checkContext finds contexts in workflow code that were created outside of it.
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
