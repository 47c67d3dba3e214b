package manifest

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// under evaluates a block under the condition cond. It returns the operations of the block and the
// known values after it.
func (x *walker) under(cond string, env map[types.Object]value, f func() bool) (ops []*Op, after map[types.Object]value, ends bool) {
	outer := x.env
	x.env = maps.Clone(env)
	if cond != "" {
		x.frame.path = append(x.frame.path, cond)
	}
	ops = x.nested(func() { ends = f() })
	if cond != "" {
		x.frame.path = x.frame.path[:len(x.frame.path)-1]
	}
	after, x.env = x.env, outer
	return ops, after, ends
}

func (x *walker) ifStmt(s *ast.IfStmt) (ends bool) {
	if s.Init != nil {
		x.stmt(s.Init)
	}
	cond := x.expr(s.Cond)
	body, yes, yesEnds := x.under(cond.text, x.where(cond.text), func() bool { return x.block(s.Body.List) })
	otherwise, no, noEnds := x.under("", x.env, func() bool { return s.Else != nil && x.stmt(s.Else) })
	if g := cond.guard; g != nil && !g.number {
		x.guarded(g, s.Pos(), func(version int) []*Op {
			if g.holds(version) {
				return body
			}
			return otherwise
		})
	} else if len(body)+len(otherwise) > 0 {
		x.emit(&Op{Op: "if", Text: cond.text, Body: body, Else: otherwise}, s.Pos())
	}
	x.join(cond.text, yes, no, yesEnds, noEnds)
	return yesEnds && noEnds
}

// where returns the known values of variables under the condition cond.
func (x *walker) where(cond string) map[types.Object]value {
	if strings.Contains(cond, varMark) {
		return x.env // The condition may have another value later.
	}
	env := maps.Clone(x.env)
	for obj, v := range env {
		env[obj] = v.with(cond)
	}
	return env
}

// guarded records the operations that runs execute for each version of a change.
func (x *walker) guarded(g *guard, pos token.Pos, way func(version int) []*Op) {
	o := &Op{Op: "guard", Name: g.change, Latest: g.latest, Least: g.least}
	for version := range g.latest + 1 {
		o.Ways = append(o.Ways, settled(way(version), g.change, version))
	}
	x.emit(o, pos)
}

// settled replaces each guard of a change by its branch for one version.
func settled(ops []*Op, change string, version int) []*Op {
	var out []*Op
	for _, o := range ops {
		if o.Op == "guard" && o.Name == change && version < len(o.Ways) {
			out = append(out, settled(o.Ways[version], change, version)...)
			continue
		}
		out = append(out, o)
	}
	return out
}

// join combines the known values at the ends of two branches.
func (x *walker) join(cond string, yes, no map[types.Object]value, yesEnds, noEnds bool) {
	switch {
	case yesEnds && noEnds:
	case yesEnds:
		x.env = no
		if strings.Contains(cond, varMark) {
			return // The condition may have another value later.
		}
		for obj, v := range x.env {
			x.env[obj] = v.without(cond)
		}
	case noEnds:
		x.env = yes
	default:
		for obj := range x.env {
			x.env[obj] = merged(cond, yes[obj], no[obj])
		}
	}
}

// merged returns the value of a variable after two branches that depend on cond.
func merged(cond string, yes, no value) value {
	switch {
	case yes.ctx != nil && no.ctx != nil:
		s := *yes.ctx
		if s.key != no.ctx.key {
			s.key = choose(cond, text(s.key), text(no.ctx.key)).text
		}
		if s.queue != no.ctx.queue {
			s.queue = choose(cond, text(s.queue), text(no.ctx.queue)).text
		}
		return value{text: "ctx", ctx: &s}
	case yes.text == no.text && yes.fn == no.fn:
		return yes
	case yes.text == no.text: // Both values are function literals.
		return text("(" + cond + " ? " + yes.text + " : another)")
	}
	return choose(cond, yes, no)
}

func (x *walker) switchStmt(s *ast.SwitchStmt) (ends bool) {
	if s.Init != nil {
		x.stmt(s.Init)
	}
	tag := value{text: "true"}
	if s.Tag != nil {
		tag = x.expr(s.Tag)
	}
	if g := tag.guard; g != nil && g.number {
		if ends, ok := x.versionSwitch(s, g); ok {
			return ends
		}
	}
	return x.cases(s.Pos(), tag.text, s.Body.List, nil)
}

// versionSwitch evaluates a switch over the version of a change. ok is false unless all cases are
// constants. ends reports whether control never leaves the switch at its end.
func (x *walker) versionSwitch(s *ast.SwitchStmt, g *guard) (ends, ok bool) {
	bodies := map[int][]ast.Stmt{}
	var fallback []ast.Stmt
	for _, c := range s.Body.List {
		clause, isCase := c.(*ast.CaseClause)
		if !isCase {
			return false, false
		}
		if clause.List == nil {
			fallback = clause.Body
		}
		for _, e := range clause.List {
			n, isInt := intOf(x.expr(e))
			if !isInt {
				return false, false
			}
			bodies[n] = clause.Body
		}
	}
	before, after := x.env, map[types.Object]value(nil)
	ends = true
	x.guarded(g, s.Pos(), func(version int) []*Op {
		body, listed := bodies[version]
		if !listed {
			body = fallback
		}
		cond := "version(" + g.change + ") == " + strconv.Itoa(version)
		ops, env, wayEnds := x.under(cond, before, func() bool { return x.around(func() bool { return x.block(body) }) })
		if n := len(ops); n > 0 && ops[n-1].Op == "leave" && strings.HasPrefix(ops[n-1].Text, "break") {
			ops, wayEnds = ops[:n-1], false
		}
		switch {
		case wayEnds:
		case after == nil:
			after, ends = env, false
		default:
			for obj := range before {
				after[obj] = merged(cond, env[obj], after[obj])
			}
		}
		return ops
	})
	if after != nil {
		x.env = after
	}
	return ends, true
}

func (x *walker) typeSwitch(s *ast.TypeSwitchStmt) (ends bool) {
	if s.Init != nil {
		x.stmt(s.Init)
	}
	var subject ast.Expr
	switch a := s.Assign.(type) {
	case *ast.ExprStmt:
		subject = a.X
	case *ast.AssignStmt:
		subject = a.Rhs[0]
	}
	v := text("")
	if assert, ok := subject.(*ast.TypeAssertExpr); ok {
		v = x.expr(assert.X)
	}
	return x.cases(s.Pos(), "type of "+v.text, s.Body.List, func(c *ast.CaseClause) {
		if obj := x.pkg.Info.Implicits[c]; obj != nil {
			x.env[obj] = v
		}
	})
}

// cases evaluates the clauses of a switch. It calls enter before it evaluates a clause.
func (x *walker) cases(pos token.Pos, tag string, list []ast.Stmt, enter func(*ast.CaseClause)) (ends bool) {
	o := &Op{Op: "switch", Text: tag}
	ends = true
	after := map[types.Object]value{}
	before := maps.Clone(x.env)
	hasDefault, open := false, false
	for _, c := range list {
		clause, ok := c.(*ast.CaseClause)
		if !ok {
			continue
		}
		label := "default"
		if clause.List != nil {
			var texts []string
			for _, e := range clause.List {
				texts = append(texts, x.expr(e).text)
			}
			label = strings.Join(texts, " | ")
		} else {
			hasDefault = true
		}
		cond := tag + " is " + label
		ops, env, clauseEnds := x.under(cond, before, func() bool {
			if enter != nil {
				enter(clause)
			}
			return x.around(func() bool { return x.block(clause.Body) })
		})
		if n := len(ops); n > 0 && ops[n-1].Op == "leave" && (ops[n-1].Text == "break" || strings.HasPrefix(ops[n-1].Text, "break with ")) {
			ops, clauseEnds = ops[:n-1], false
		}
		o.Body = append(o.Body, &Op{Op: "case", Text: label, Body: ops})
		if !clauseEnds {
			ends = false
			for obj := range before {
				now, known := after[obj]
				if !known {
					now = before[obj]
				}
				after[obj] = merged(cond, env[obj], now)
			}
			open = true
		}
	}
	if open {
		maps.Copy(x.env, after)
	}
	if slices.ContainsFunc(o.Body, func(c *Op) bool { return len(c.Body) > 0 }) {
		x.emit(o, pos)
	}
	return ends && hasDefault
}
