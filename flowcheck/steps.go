package flowcheck

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

var twiceRule = rule{name: "twice"}

const sqlstepPath = stepPath + "/sqlstep"

// checkTwice finds steps that begin a second transaction of package sqlstep after a first one has
// been committed.
func checkTwice(p *packagePass, u *unit) {
	if u.fn == nil || p.annotated[u.fn] == nil || p.annotated[u.fn].Kind != "step" {
		return
	}
	var calls []inspector.Cursor
	for c := range u.cursor.Preorder((*ast.CallExpr)(nil)) {
		call, _ := c.Node().(*ast.CallExpr)
		if isFunc(origin(callee(p.pass.TypesInfo, call)), sqlstepPath, "Do") {
			calls = append(calls, c)
		}
	}
	for _, second := range calls {
		for _, first := range calls {
			if first.Node().Pos() < second.Node().Pos() && follows(first, second) {
				call, _ := second.Node().(*ast.CallExpr)
				p.report("twice", call.Pos(), call.Fun.End(), "a step has one transaction, and this is a second one behind it, which fails the step: do both in one, or make two steps")
				break
			}
		}
	}
}

// follows reports whether the code certainly reaches second after first has succeeded. This is the
// case if both are in the same statement list, second is unconditional, and there are only returns
// of errors between them.
func follows(first, second inspector.Cursor) bool {
	a, aList := statement(first)
	b, bList := statement(second)
	if a == nil || b == nil || aList != bList || a == b {
		return false
	}
	if _, isReturn := a.(*ast.ReturnStmt); isReturn {
		return false
	}
	return true
}

// statement returns the statement that contains a call and the block that contains the statement.
// It returns nil if the call is in a conditional part of the statement, in a loop or in a literal.
func statement(c inspector.Cursor) (stmt, block ast.Node) {
	for {
		switch c.ParentEdgeKind() {
		case edge.BlockStmt_List:
			return c.Node(), c.Parent().Node()
		case edge.AssignStmt_Rhs, edge.ExprStmt_X, edge.ParenExpr_X, edge.IfStmt_Init, edge.ReturnStmt_Results:
			c = c.Parent()
		default:
			return nil, nil
		}
	}
}

var mixedRule = rule{name: "mixed", advice: true}

// writes contains the functions of the standard library that certainly modify an external system.
// The value is the kind of the system.
var writes = map[string]string{
	"sql.DB.Exec": "a database", "sql.DB.ExecContext": "a database", "sql.Tx.Commit": "a database", "sql.Stmt.Exec": "a database", "sql.Stmt.ExecContext": "a database",
	"http.Post": "a server", "http.PostForm": "a server", "http.Client.Post": "a server", "http.Client.PostForm": "a server",
	"os.WriteFile": "a file", "os.Create": "a file", "os.Rename": "a file", "os.Remove": "a file",
	"smtp.SendMail": "a mail server",
}

// checkMixed finds steps that write to two independent systems.
func checkMixed(p *packagePass, u *unit) {
	if u.fn == nil || p.annotated[u.fn] == nil || p.annotated[u.fn].Kind != "step" {
		return
	}
	first := ""
	for _, pr := range u.prims {
		to := writes[pr.what]
		if pr.rule != "io" || to == "" || to == first {
			continue
		}
		if first == "" {
			first = to
			continue
		}
		p.report("mixed", pr.pos, pr.end, "advice: this step writes to "+first+" and to "+to+": if "+strings.TrimPrefix(pr.what, "sql.")+" fails, a retry repeats the other: make two steps of it")
		return
	}
}
