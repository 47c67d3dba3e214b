package flowcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
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

// fixClock replaces calls for which package workflow contains a function with the same result type.
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

var randomRule = rule{
	name: "random",
	does: "is random, and another value in every replay",
	mend: "use workflow.Rand or workflow.UUID, or draw it in a step",
}

// ofRand maps each function of math/rand to the equivalent method of Rand in math/rand/v2.
var ofRand = map[string]string{
	"Int": "Int", "Intn": "IntN", "Int31": "Int32", "Int31n": "Int32N", "Int63": "Int64", "Int63n": "Int64N",
	"Uint32": "Uint32", "Uint64": "Uint64", "Float32": "Float32", "Float64": "Float64",
	"NormFloat64": "NormFloat64", "ExpFloat64": "ExpFloat64", "Perm": "Perm", "Shuffle": "Shuffle",
}

// fixRandom replaces a package function of math/rand if the equivalent method has the same type.
func fixRandom(p *packagePass, u *unit, pr prim) []analysis.SuggestedFix {
	call, isCall := pr.node.(*ast.CallExpr)
	ctx, flow := p.ctxName(u, pr.pos), p.importName(u.file, workflowPath)
	if !isCall || pr.fn == nil || ctx == "" || flow == "" || !strings.HasPrefix(pr.fn.Pkg().Path(), "math/rand") {
		return nil
	}
	method := ofRand[pr.fn.Name()]
	if pr.fn.Pkg().Path() == "math/rand/v2" && pr.fn.Name() != "N" {
		method = pr.fn.Name()
	}
	if method == "" {
		return nil
	}
	text := flow + ".Rand(" + ctx + ")." + method
	return suggest("Use "+flow+".Rand", analysis.TextEdit{Pos: call.Fun.Pos(), End: call.Fun.End(), NewText: []byte(text)})
}

var envRule = rule{
	name: "env",
	does: "depends on the process or machine, and a replay may be on another one",
	mend: "keep it with workflow.Record, or give it to the workflow as input",
}

// fixEnv wraps the right-hand side of a statement such as x := os.Getenv(…) in workflow.Record.
func fixEnv(p *packagePass, u *unit, pr prim) []analysis.SuggestedFix {
	call, isCall := pr.node.(*ast.CallExpr)
	ctx, flow := p.ctxName(u, pr.pos), p.importName(u.file, workflowPath)
	if !isCall || ctx == "" || flow == "" {
		return nil
	}
	c, ok := u.cursor.FindNode(call)
	if !ok || c.ParentEdgeKind() != edge.AssignStmt_Rhs {
		return nil
	}
	assign, _ := c.Parent().Node().(*ast.AssignStmt)
	kind := c.Parent().ParentEdgeKind()
	result, isOne := p.pass.TypesInfo.TypeOf(call).(*types.Basic)
	fail := p.returnErrOf(u, call)
	if assign.Tok != token.DEFINE || len(assign.Lhs) != 1 || !isOne || fail == "" || kind != edge.BlockStmt_List {
		return nil
	}
	if obj := p.lookup(pr.pos, "err"); obj != nil && !isErrorType(obj.Type()) {
		return nil
	}
	text := p.source(assign.Lhs[0]) + ", err := " + flow + ".Record(" + ctx + ", func() (" + result.Name() + ", error) { return " +
		p.source(call) + ", nil })\nif err != nil {\n" + fail + "\n}"
	return suggest("Use "+flow+".Record", analysis.TextEdit{Pos: assign.Pos(), End: assign.End(), NewText: []byte(text)})
}

var globalRule = rule{
	name: "global",
	does: "belongs to the process: a write is repeated in every replay, and others may see or change it",
	mend: "use a local variable, or keep it in a step",
}

// readOf returns the description of a read of a variable that another function writes.
func readOf(variable, writer string) string { return variable + ", which " + writer + " writes," }

func isRead(what string) bool { return strings.HasSuffix(what, " writes,") }

const readText = "may have another value in a replay: pass it as input, or read it in a step or with workflow.Record"

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
