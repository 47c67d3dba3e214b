package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
)

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
