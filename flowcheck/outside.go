package flowcheck

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var ioRule = rule{
	name: "io",
	does: "reaches out of the process, again in every replay",
	mend: "do it in a step",
}

var exitRule = rule{
	name: "exit",
	does: "ends the worker with all of its runs, again in every replay",
	mend: "return an error",
	of:   map[string]string{"runtime.Goexit": "ends the branch behind the back of the engine: return an error"},
}

var logRule = rule{
	name: "log",
	does: "writes again in every replay",
	mend: "use workflow.Logger, which is silent in replays",
}

// fixLog replaces package functions of log/slog by the methods of workflow.Logger with the same
// name.
func fixLog(p *packagePass, u *unit, pr prim) []analysis.SuggestedFix {
	call, isCall := pr.node.(*ast.CallExpr)
	ctx, flow := p.ctxName(u, pr.pos), p.importName(u.file, workflowPath)
	if !isCall || ctx == "" || flow == "" {
		return nil
	}
	switch pr.what {
	case "slog.Debug", "slog.Info", "slog.Warn", "slog.Error":
		text := flow + ".Logger(" + ctx + ")." + pr.fn.Name()
		return suggest("Use "+flow+".Logger", analysis.TextEdit{Pos: call.Fun.Pos(), End: call.Fun.End(), NewText: []byte(text)})
	case "slog.Default":
		return p.replace(pr, "Use "+flow+".Logger", flow+".Logger("+ctx+")")
	}
	return nil
}

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
