package flowcheck

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var clockRule = rule{
	name: "clock",
	does: "reads the wall clock, which shows another time in every replay",
	mend: "use workflow.Now, or compute it in a step",
	of: map[string]string{
		"time.Sleep":    "waits by the clock of the process, and begins anew in every replay: use workflow.Sleep",
		"time.After":    timerText,
		"time.Tick":     timerText,
		"time.NewTimer": timerText, "time.NewTicker": timerText, "time.AfterFunc": timerText,
		"time.Timer.Reset": timerText, "time.Ticker.Reset": timerText,
		"context.WithTimeout": limitText, "context.WithTimeoutCause": limitText,
		"context.WithDeadline": limitText, "context.WithDeadlineCause": limitText,
	},
}

const (
	timerText = "waits by the clock of the process, which no replay repeats: use workflow.Sleep, or workflow.After in a Select"
	limitText = "ends by the clock of the process, which no replay repeats: use workflow.WithTimeout, or do it in a step"
)

// fixClock replaces calls for which package workflow has a function with the same result type.
func fixClock(p *packagePass, u *unit, pr prim) []analysis.SuggestedFix {
	call, isCall := pr.node.(*ast.CallExpr)
	ctx, flow := p.ctxName(u, pr.pos), p.importName(u.file, workflowPath)
	if !isCall || ctx == "" || flow == "" {
		return nil
	}
	switch pr.what {
	case "time.Now":
		return p.replace(pr, "Use "+flow+".Now", flow+".Now("+ctx+")")
	case "time.Since":
		return p.replace(pr, "Use "+flow+".Now", flow+".Now("+ctx+").Sub("+p.source(call.Args[0])+")")
	case "time.Until":
		return p.replace(pr, "Use "+flow+".Now", p.operand(call.Args[0])+".Sub("+flow+".Now("+ctx+"))")
	case "time.Sleep":
		if fail := p.returnErr(u, pr); fail != "" {
			return p.replace(pr, "Use "+flow+".Sleep", "if err := "+flow+".Sleep("+ctx+", "+p.source(call.Args[0])+"); err != nil {\n"+fail+"\n}")
		}
	}
	return nil
}
