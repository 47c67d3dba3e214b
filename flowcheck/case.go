package flowcheck

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
)

var caseRule = rule{name: "case"}

// checkCase finds comparisons of the winner of a Select with a newly created case. Such a
// comparison is never true.
func checkCase(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			if n.Tag == nil || !p.isCase(n.Tag) {
				return
			}
			for _, clause := range n.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					p.reportCase(u, n.Tag, e)
				}
			}
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ {
				return
			}
			if p.isCase(n.X) {
				p.reportCase(u, n.X, n.Y)
			}
			if p.isCase(n.Y) {
				p.reportCase(u, n.Y, n.X)
			}
		}
	})
}

func (p *packagePass) isCase(e ast.Expr) bool {
	t := p.pass.TypesInfo.TypeOf(e)
	return t != nil && isNamed(t, workflowPath, "Case")
}

func (p *packagePass) reportCase(u *unit, winner, e ast.Expr) {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	if !isCall {
		return
	}
	fn := origin(callee(p.pass.TypesInfo, call))
	if !isMethod(fn, workflowPath, "Topic", "Case") && !isMethod(fn, workflowPath, "OpenHook", "Case") &&
		!isMethod(fn, workflowPath, "Definition", "StartChild") && !isFunc(fn, workflowPath, "After", "Go", "GoErr") {
		return
	}
	p.report("case", call.Pos(), call.End(), p.source(call)+" makes a new case, which the winner of a Select never equals: keep the case in a variable, and give Select that",
		p.fixCase(u, winner, call)...)
}

// fixCase moves the case to a variable that is declared before the Select.
func (p *packagePass) fixCase(u *unit, winner ast.Expr, call *ast.CallExpr) []analysis.SuggestedFix {
	id, isIdent := ast.Unparen(winner).(*ast.Ident)
	if !isIdent {
		return nil
	}
	winnerVar := p.pass.TypesInfo.ObjectOf(id)
	text := p.source(call)
	name := "late"
	if sel, isSel := call.Fun.(*ast.SelectorExpr); isSel && sel.Sel.Name == "Case" {
		if of, isName := sel.X.(*ast.Ident); isName {
			name = strings.ToLower(of.Name[:1]) + of.Name[1:] + "Case"
		}
	}
	if p.lookup(call.Pos(), name) != nil {
		return nil
	}
	var fix []analysis.SuggestedFix
	for c := range u.cursor.Preorder((*ast.AssignStmt)(nil)) {
		assign, _ := c.Node().(*ast.AssignStmt)
		left, isName := assign.Lhs[0].(*ast.Ident)
		sel, isSelect := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		if !isName || !isSelect || p.pass.TypesInfo.Defs[left] != winnerVar || c.ParentEdgeKind() != edge.BlockStmt_List ||
			!isFunc(callee(p.pass.TypesInfo, sel), workflowPath, "Select") {
			continue
		}
		for _, arg := range sel.Args[1:] {
			if p.source(arg) == text {
				fix = suggest("Keep the case in a variable",
					analysis.TextEdit{Pos: assign.Pos(), End: assign.Pos(), NewText: []byte(name + " := " + text + "\n")},
					analysis.TextEdit{Pos: arg.Pos(), End: arg.End(), NewText: []byte(name)},
					analysis.TextEdit{Pos: call.Pos(), End: call.End(), NewText: []byte(name)})
			}
		}
	}
	return fix
}
