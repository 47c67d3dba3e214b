package flowcheck

import (
	"go/ast"
	"go/constant"
	"time"
)

var sleepRule = rule{name: "sleep"}

// checkSleep finds sleeps that are shorter than the resolution of the store's clock.
func checkSleep(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || len(call.Args) != 2 || !isFunc(origin(callee(p.pass.TypesInfo, call)), workflowPath, "Sleep") {
			return
		}
		value := p.pass.TypesInfo.Types[call.Args[1]].Value
		if value == nil || value.Kind() != constant.Int {
			return
		}
		if d, exact := constant.Int64Val(value); exact && d > 0 && d < int64(time.Millisecond) {
			p.report("sleep", call.Args[1].Pos(), call.Args[1].End(), "this sleeps for "+time.Duration(d).String()+", and times are kept to the millisecond: write a unit, as in 5*time.Second")
		}
	})
}
