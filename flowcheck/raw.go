package flowcheck

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var rawRule = rule{
	name: "raw",
	does: "is an implementation, and its call is not recorded: it is executed again in every replay",
	mend: "call the counterpart that was generated for it",
}

// fixRaw replaces the direct call of a step by a call of its generated counterpart.
func fixRaw(p *packagePass, u *unit, pr prim) []analysis.SuggestedFix {
	call, isCall := pr.node.(*ast.CallExpr)
	ctx := p.ctxName(u, pr.pos)
	a := p.annotation(pr.fn)
	if !isCall || ctx == "" || a == nil || a.Kind != "step" || a.Counterpart == "" || len(call.Args) == 0 {
		return nil
	}
	name := a.Counterpart
	if pr.fn.Pkg() != p.pass.Pkg {
		pkg := p.importName(u.file, pr.fn.Pkg().Path())
		if pkg == "" {
			return nil
		}
		name = pkg + "." + name
	} else if obj := p.lookup(pr.pos, name); obj == nil || obj.Parent() != p.pass.Pkg.Scope() {
		return nil
	}
	return suggest("Call "+name,
		analysis.TextEdit{Pos: call.Fun.Pos(), End: call.Fun.End(), NewText: []byte(name)},
		analysis.TextEdit{Pos: call.Args[0].Pos(), End: call.Args[0].End(), NewText: []byte(ctx)})
}
