package flowcheck

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

var argumentRule = rule{name: "argument"}

// checkArgument finds steps that modify the target of a pointer argument and do not use it
// otherwise. The modification is lost, because the step has a copy of the argument.
func checkArgument(p *packagePass, u *unit) {
	if u.fn == nil || p.annotated[u.fn] == nil || p.annotated[u.fn].Kind != "step" {
		return
	}
	for v := range u.sig.Params().Variables() {
		switch types.Unalias(v.Type()).(type) {
		case *types.Pointer, *types.Map:
			p.judgeArgument(u, v)
		}
	}
}

func (p *packagePass) judgeArgument(u *unit, v *types.Var) {
	written, read := make(map[string]ast.Node), make(map[string]bool)
	first := ""
	for c := range u.cursor.Preorder((*ast.Ident)(nil)) {
		if p.pass.TypesInfo.Uses[c.Node().(*ast.Ident)] != v {
			continue
		}
		part, top := partOf(c)
		switch {
		case part == "": // The step uses the variable itself.
			return
		case top.ParentEdgeKind() == edge.AssignStmt_Lhs:
			if written[part] == nil {
				written[part] = top.Node()
			}
			if first == "" {
				first = part
			}
		default:
			read[part] = true
		}
	}
	if first == "" || read["*"] {
		return
	}
	for part := range written {
		if read[part] || part == "*" && len(read) > 0 {
			return
		}
	}
	n := written[first]
	p.report("argument", n.Pos(), n.End(), v.Name()+" is a copy that the step has for itself: the workflow does not see what is written to it: return the value")
}

// partOf returns the part of a variable that an expression uses, and the whole expression. The part
// is the name of a field, "*" for the target of a pointer, "[]" for an element, or "" for the
// variable itself.
func partOf(c inspector.Cursor) (string, inspector.Cursor) {
	part := ""
	for {
		switch c.ParentEdgeKind() {
		case edge.SelectorExpr_X:
			if sel, isSel := c.Parent().Node().(*ast.SelectorExpr); isSel && part == "" {
				part = sel.Sel.Name
			}
		case edge.IndexExpr_X:
			if part == "" {
				part = "[]"
			}
		case edge.StarExpr_X:
			if part == "" {
				part = "*"
			}
		case edge.ParenExpr_X:
		default:
			return part, c
		}
		c = c.Parent()
	}
}
