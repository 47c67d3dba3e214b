package flowcheck

import (
	"go/ast"
	"go/token"
)

var goroutineRule = rule{
	name: "goroutine",
	does: "leaves the order of things to the scheduler, and durable operations panic there",
	mend: "use workflow.Go",
}

var channelRule = rule{
	name: "channel",
	does: "is not recorded, and may wait for ever while no other branch runs",
	mend: "use a future, a topic, or a variable: branches take turns",
}

var lockRule = rule{
	name: "lock",
	does: "is not recorded, and may wait for ever while no other branch runs",
	mend: "leave it out, branches take turns; what others share belongs into a step",
}

var goStepRule = rule{name: "gostep", advice: true}

// checkGoStep finds steps that start a goroutine and do not wait for it.
func checkGoStep(p *packagePass, u *unit) {
	if u.fn == nil || p.annotated[u.fn] == nil || p.annotated[u.fn].Kind != "step" {
		return
	}
	var first *ast.GoStmt
	waits := false
	ast.Inspect(u.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if first == nil {
				first = n
			}
			return false
		case *ast.SelectStmt:
			waits = true
		case *ast.RangeStmt:
			waits = waits || isChan(p.pass.TypesInfo.TypeOf(n.X))
		case *ast.UnaryExpr:
			waits = waits || n.Op == token.ARROW
		case *ast.SelectorExpr:
			waits = waits || n.Sel.Name == "Wait"
		}
		return true
	})
	if first != nil && !waits {
		p.report("gostep", first.Pos(), first.Call.Lparen, "advice: the step is recorded as done while this goroutine is at work, and a crash loses that: wait for it")
	}
}
