package flowcheck

import (
	"go/ast"
	"go/constant"
)

var versionRule = rule{name: "version"}

// checkVersion finds change names that are not constant. It also finds functions that name two
// different latest versions of the same change.
func checkVersion(p *packagePass, u *unit) {
	if !u.isFlow || u.parent != nil && u.parent.isFlow {
		return // The literal is checked together with the unit around it.
	}
	type use struct {
		call   *ast.CallExpr
		latest int64
	}
	uses := make(map[string][]use)
	var order []string
	ast.Inspect(u.body, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || !isFunc(origin(callee(p.pass.TypesInfo, call)), workflowPath, "Version") || len(call.Args) < 3 {
			return true
		}
		change, latest := p.pass.TypesInfo.Types[call.Args[1]].Value, p.pass.TypesInfo.Types[call.Args[2]].Value
		switch {
		case change == nil && !p.hasEffect(u, call.Args[1]):
			p.report("version", call.Args[1].Pos(), call.Args[1].End(), "the name of a change is no constant: write it out, so that the code says which changes there are")
		case change != nil && latest == nil:
			p.report("version", call.Args[2].Pos(), call.Args[2].End(), "the latest version of a change is no constant: write it out, so that the code says which ways it has")
		case change != nil:
			name := constant.StringVal(change)
			number, _ := constant.Int64Val(constant.ToInt(latest))
			if uses[name] == nil {
				order = append(order, name)
			}
			uses[name] = append(uses[name], use{call, number})
		}
		return true
	})
	for _, name := range order {
		most := int64(0)
		for _, use := range uses[name] {
			most = max(most, use.latest)
		}
		for _, use := range uses[name] {
			if use.latest < most {
				p.report("version", use.call.Pos(), use.call.End(), "the change "+name+" has another latest version in this function: write the same in all calls")
			}
		}
	}
}

// hasEffect reports whether an effect that a key must not have influences an expression.
func (p *packagePass) hasEffect(u *unit, e ast.Expr) bool {
	for _, pr := range u.prims {
		if e.Pos() <= pr.pos && pr.end <= e.End() {
			return true
		}
	}
	for _, c := range u.calls {
		if e.Pos() <= c.pos && c.end <= e.End() && len(p.effectsOf(c.fn)) > 0 {
			return true
		}
	}
	return false
}
