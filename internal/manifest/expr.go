package manifest

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// expr evaluates an expression and returns its value. It records the operations of the expression
// in the order of evaluation.
func (x *walker) expr(e ast.Expr) value {
	e = ast.Unparen(e)
	tv := x.pkg.Info.Types[e]
	switch {
	case tv.Value != nil:
		return constantOf(tv.Value)
	case tv.IsType():
		return text(types.TypeString(tv.Type, qualifier))
	case tv.IsNil():
		return value{text: "nil", zero: true, known: true}
	}
	switch e := e.(type) {
	case *ast.Ident:
		return x.ident(e)
	case *ast.SelectorExpr:
		return x.selector(e)
	case *ast.CallExpr:
		return x.call(e)
	case *ast.CompositeLit:
		return x.composite(e)
	case *ast.FuncLit:
		return value{text: marked("lit"), fn: &function{lit: e, pkg: x.pkg}, nonNil: true}
	case *ast.UnaryExpr:
		v := x.expr(e.X)
		if e.Op == token.NOT && v.guard != nil && !v.guard.number {
			g := *v.guard
			holds := g.holds
			g.holds = func(n int) bool { return !holds(n) }
			return value{text: "!" + v.text, guard: &g}
		}
		return value{text: e.Op.String() + v.text, nonNil: e.Op == token.AND}
	case *ast.BinaryExpr:
		return x.binary(e)
	case *ast.StarExpr:
		return text("*" + x.expr(e.X).text)
	case *ast.IndexExpr:
		if x.pkg.Info.Types[e.Index].IsType() {
			return x.expr(e.X)
		}
		return text(x.expr(e.X).text + "[" + x.expr(e.Index).text + "]")
	case *ast.IndexListExpr:
		return x.expr(e.X)
	case *ast.SliceExpr:
		parts := []string{x.expr(e.X).text}
		for _, i := range []ast.Expr{e.Low, e.High, e.Max} {
			if i == nil {
				parts = append(parts, "")
			} else {
				parts = append(parts, x.expr(i).text)
			}
		}
		return text(parts[0] + "[" + strings.Join(parts[1:], ":") + "]")
	case *ast.TypeAssertExpr:
		v := x.expr(e.X)
		t := text(v.text + ".(" + types.TypeString(x.typeOf(e), qualifier) + ")")
		return t
	case *ast.KeyValueExpr:
		return text(x.expr(e.Key).text + ": " + x.expr(e.Value).text)
	}
	return text(x.world.canonical(x.pkg, e))
}

func constantOf(c constant.Value) value {
	v := value{text: c.ExactString(), constant: c, known: true}
	switch c.Kind() {
	case constant.Bool:
		v.zero = !constant.BoolVal(c)
	case constant.String:
		v.zero = constant.StringVal(c) == ""
	case constant.Int, constant.Float:
		v.zero = constant.Sign(c) == 0
	}
	return v
}

func intOf(v value) (int, bool) {
	if v.constant == nil {
		return 0, false
	}
	n, ok := constant.Int64Val(constant.ToInt(v.constant))
	return int(n), ok
}

func (x *walker) ident(e *ast.Ident) value {
	switch obj := x.pkg.Info.ObjectOf(e).(type) {
	case *types.Var:
		if obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope() {
			return x.global(obj)
		}
		if v, ok := x.env[obj]; ok {
			return v
		}
		x.vars++ // The variable is declared in code that was not evaluated.
		x.env[obj] = text(fmt.Sprint(varMark, x.vars, varMark))
		return x.env[obj]
	case *types.Func:
		return x.functionValue(obj)
	}
	return text(e.Name)
}

// global returns the value of a package variable.
func (x *walker) global(v *types.Var) value {
	key := v.Pkg().Path() + "." + v.Name()
	if t, ok := x.world.targets[key]; ok {
		return value{text: t.stored, fn: &function{target: &t}}
	}
	if d, ok := x.world.declared[key]; ok {
		return text(d.kind + " " + d.name)
	}
	x.use(v.Pkg())
	return value{text: marked("var " + key), nonNil: strings.HasPrefix(v.Name(), "Err")}
}

// use records the module version of a package whose code influences operations.
func (x *walker) use(p *types.Package) {
	if p == nil {
		return
	}
	if version, foreign := x.world.versions[p.Path()]; foreign {
		module, v, _ := strings.Cut(version, "@")
		if strings.HasPrefix(workflowPath, module+"/") {
			return
		}
		if x.uses == nil {
			x.uses = map[string]string{}
		}
		x.uses[module] = v
	}
}

func (x *walker) functionValue(f *types.Func) value {
	f = f.Origin()
	if f.Pkg() != nil && f.Signature().Recv() == nil {
		if t, ok := x.world.targets[f.Pkg().Path()+"."+f.Name()]; ok && t.kind == "step" {
			return value{text: t.stored, fn: &function{target: &t}, nonNil: true}
		}
	}
	full := f.FullName()
	v := value{text: marked(full), nonNil: true}
	if b, ok := x.world.bodies[full]; ok {
		v.fn = &function{decl: b.decl, name: full, pkg: b.pkg}
	} else {
		x.use(f.Pkg())
		v.text = shortName(full)
		if f.Pkg() != nil && f.Signature().Recv() == nil {
			v.text = f.Pkg().Name() + "." + f.Name()
		}
	}
	return v
}

func (x *walker) selector(e *ast.SelectorExpr) value {
	sel := x.pkg.Info.Selections[e]
	if sel == nil { // The expression is a package-qualified name.
		return x.ident(e.Sel)
	}
	recv := x.expr(e.X)
	switch sel.Kind() {
	case types.MethodVal:
		f, ok := sel.Obj().(*types.Func)
		if !ok {
			break
		}
		if recv.fn != nil && recv.fn.target != nil && (f.Name() == "Child" || f.Name() == "StartChild" || f.Name() == "ContinueAsNew") {
			return value{text: recv.text + "." + f.Name(), fn: &function{target: recv.fn.target, method: f.Name()}, nonNil: true}
		}
		v := x.functionValue(f)
		v.text = recv.text + "." + v.text
		return v
	case types.FieldVal:
		return text(recv.text + "." + e.Sel.Name)
	}
	return text(recv.text + "." + e.Sel.Name)
}

func (x *walker) binary(e *ast.BinaryExpr) value {
	l := x.expr(e.X)
	var r value
	if e.Op == token.LAND || e.Op == token.LOR { // The right side is evaluated only under a condition.
		ops := x.nested(func() { r = x.expr(e.Y) })
		if cond := l.text; len(ops) > 0 {
			if e.Op == token.LOR {
				cond = "!" + cond
			}
			x.emit(&Op{Op: "if", Text: cond, Body: ops}, e.Pos())
		}
	} else {
		r = x.expr(e.Y)
	}
	if e.Op == token.EQL || e.Op == token.NEQ {
		if l.text == "nil" {
			l, r = r, l
		}
		if r.text == "nil" {
			return l.isNil(e.Op == token.NEQ)
		}
	}
	v := text("(" + l.text + " " + e.Op.String() + " " + r.text + ")")
	v.guard = guardOf(e.Op, l, r)
	return v
}

// guardOf returns the condition on a version that a comparison represents. It returns nil if
// neither operand is a version.
func guardOf(op token.Token, l, r value) *guard {
	if l.guard != nil && r.guard != nil && !l.guard.number && !r.guard.number && l.guard.change == r.guard.change {
		g := *l.guard
		a, b := l.guard.holds, r.guard.holds
		switch op {
		case token.LAND:
			g.holds = func(n int) bool { return a(n) && b(n) }
			return &g
		case token.LOR:
			g.holds = func(n int) bool { return a(n) || b(n) }
			return &g
		}
		return nil
	}
	if r.guard != nil && r.guard.number {
		l, r = r, l
		op = mirrored[op]
	}
	n, isInt := intOf(r)
	if l.guard == nil || !l.guard.number || !isInt {
		return nil
	}
	g := *l.guard
	g.number = false
	g.holds = func(v int) bool {
		return constant.Compare(constant.MakeInt64(int64(v)), op, constant.MakeInt64(int64(n)))
	}
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return &g
	}
	return nil
}

var mirrored = map[token.Token]token.Token{
	token.EQL: token.EQL, token.NEQ: token.NEQ, token.LSS: token.GTR, token.LEQ: token.GEQ, token.GTR: token.LSS, token.GEQ: token.LEQ,
}

func (x *walker) composite(e *ast.CompositeLit) value {
	t := x.typeOf(e)
	name := types.TypeString(t, qualifier)
	st, isStruct := t.Underlying().(*types.Struct)
	v := value{zero: true, nonNil: true, known: true}
	var parts []string
	for i, elt := range e.Elts {
		kv, keyed := elt.(*ast.KeyValueExpr)
		if !isStruct {
			v.zero = false
			part := value{known: true}
			if keyed {
				part = x.expr(kv.Key)
				part.text += ": "
				elt = kv.Value
			}
			inner := x.expr(elt)
			v.known = v.known && part.known && inner.known
			parts = append(parts, part.text+inner.text)
			continue
		}
		field, inner := st.Field(i).Name(), elt
		if keyed {
			inner = kv.Value
			if id, ok := kv.Key.(*ast.Ident); ok {
				field = id.Name
			}
		}
		f := x.expr(inner)
		v.zero = v.zero && f.zero
		v.known = v.known && f.known
		if !f.zero {
			parts = append(parts, field+": "+f.text)
		}
	}
	if isStruct {
		slices.Sort(parts)
	} else {
		v.zero = false // An empty composite value is not nil.
	}
	v.text = name + "{" + strings.Join(parts, ", ") + "}"
	return v
}

func (x *walker) typeOf(e ast.Expr) types.Type { return typeIn(x.pkg.Info, e) }

// typeIn returns the type of an expression. It returns an invalid type if the code does not
// compile.
func typeIn(info *types.Info, e ast.Expr) types.Type {
	if t := info.TypeOf(e); t != nil {
		return t
	}
	return types.Typ[types.Invalid]
}
