package flowcheck

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

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
