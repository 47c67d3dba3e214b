package manifest

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

func (x *walker) exprStmt(s *ast.ExprStmt) (ends bool) {
	call, ok := ast.Unparen(s.X).(*ast.CallExpr)
	if !ok {
		x.expr(s.X)
		return false
	}
	if x.logs(call) {
		for _, a := range call.Args {
			x.expr(a) // The argument may contain operations.
		}
		return false
	}
	before := x.size
	v := x.call(call)
	if id, isIdent := ast.Unparen(call.Fun).(*ast.Ident); isIdent && id.Name == "panic" {
		x.emit(&Op{Op: "return", Text: v.text}, s.Pos())
		return true
	}
	if x.size == before && v.text != "" {
		x.emit(&Op{Op: "do", Text: v.text}, s.Pos())
		x.touch(call, v.text)
	}
	return false
}

// touch records that a call may have modified the values to which its arguments refer. The text by
// identifies the call.
func (x *walker) touch(call *ast.CallExpr, by string) {
	operands := slices.Clone(call.Args)
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		operands = append(operands, sel.X)
	}
	for _, e := range operands {
		if obj := x.root(e); obj != nil && refers(obj.Type()) {
			x.env[obj] = text("after(" + x.env[obj].text + ", " + by + ")")
		}
	}
}

// refers reports whether a function that receives a value of type t can modify data that other code
// can access.
func refers(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Struct:
		return contextOf(t) == ""
	}
	return false
}

// root returns the local variable of which e is a part, or nil.
func (x *walker) root(e ast.Expr) types.Object {
	for {
		switch inner := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, ok := x.pkg.Info.ObjectOf(inner).(*types.Var)
			if !ok || v.Pkg() == nil || v.Parent() == v.Pkg().Scope() {
				return nil
			}
			return v
		case *ast.SelectorExpr:
			e = inner.X
		case *ast.IndexExpr:
			e = inner.X
		case *ast.SliceExpr:
			e = inner.X
		case *ast.StarExpr:
			e = inner.X
		case *ast.UnaryExpr:
			e = inner.X
		default:
			return nil
		}
	}
}

func (x *walker) assign(s *ast.AssignStmt) {
	if len(s.Lhs) > 1 && len(s.Rhs) == 1 {
		v := x.expr(s.Rhs[0])
		for i, l := range s.Lhs {
			x.store(l, v.part(i))
		}
		return
	}
	values := make([]value, len(s.Rhs))
	for i, r := range s.Rhs {
		values[i] = x.expr(r)
		if s.Tok != token.ASSIGN && s.Tok != token.DEFINE {
			op := strings.TrimSuffix(s.Tok.String(), "=")
			values[i] = text("(" + x.expr(s.Lhs[i]).text + " " + op + " " + values[i].text + ")")
		}
	}
	for i, l := range s.Lhs {
		x.store(l, values[i])
	}
}

func (x *walker) declare(s *ast.DeclStmt) {
	gen, ok := s.Decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range gen.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		var all value
		if len(v.Values) == 1 && len(v.Names) > 1 {
			all = x.expr(v.Values[0])
		}
		for i, id := range v.Names {
			switch {
			case len(v.Values) == 0:
				x.store(id, x.zero(x.typeOf(id)))
			case len(v.Values) == len(v.Names):
				x.store(id, x.expr(v.Values[i]))
			default:
				x.store(id, all.part(i))
			}
		}
	}
}

// zero returns the zero value of a type.
func (x *walker) zero(t types.Type) value {
	v := value{text: "zero", zero: true}
	if t == nil {
		return v
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Interface, *types.Slice, *types.Map, *types.Signature:
		v.text = "nil"
	}
	return v
}

// store assigns v to the variable or element that the expression l denotes.
func (x *walker) store(l ast.Expr, v value) {
	l = ast.Unparen(l)
	if id, ok := l.(*ast.Ident); ok {
		if id.Name == "_" {
			return
		}
		obj := x.pkg.Info.ObjectOf(id)
		local, isVar := obj.(*types.Var)
		switch {
		case !isVar:
		case local.Pkg() != nil && local.Parent() == local.Pkg().Scope():
			x.emit(&Op{Op: "do", Text: id.Name + " = " + v.text}, l.Pos())
		case x.frame.shared[obj] && v.ctx == nil && v.fn == nil:
			x.let(obj, v, l.Pos())
		default:
			x.env[obj] = v
		}
		return
	}
	place := x.place(l)
	if obj := x.root(l); obj != nil {
		x.env[obj] = text("with(" + x.env[obj].text + ", " + place + " = " + v.text + ")")
		if _, isStruct := obj.Type().Underlying().(*types.Struct); isStruct && !hasIndirection(l, x.pkg.Info) {
			return
		}
	}
	x.emit(&Op{Op: "do", Text: place + " = " + v.text}, l.Pos())
}

// hasIndirection reports whether l accesses a pointer, slice or map.
func hasIndirection(l ast.Expr, info *types.Info) bool {
	for {
		switch e := ast.Unparen(l).(type) {
		case *ast.SelectorExpr:
			if _, isStruct := typeIn(info, e.X).Underlying().(*types.Struct); !isStruct {
				return true
			}
			l = e.X
		case *ast.Ident:
			return false
		default:
			return true
		}
	}
}

// place returns the text of the target l of an assignment.
func (x *walker) place(l ast.Expr) string {
	switch l := l.(type) {
	case *ast.SelectorExpr:
		return x.expr(l.X).text + "." + l.Sel.Name
	case *ast.IndexExpr:
		return x.expr(l.X).text + "[" + x.expr(l.Index).text + "]"
	case *ast.StarExpr:
		return "*" + x.expr(l.X).text
	}
	return x.expr(l).text
}

// let assigns a value to a shared variable. The first assignment also assigns a number to the
// variable.
func (x *walker) let(obj types.Object, v value, pos token.Pos) {
	now, ok := x.env[obj]
	if !ok || !strings.HasPrefix(now.text, varMark) || strings.Count(now.text, varMark) != 2 || !strings.HasSuffix(now.text, varMark) {
		x.vars++
		now = text(varMark + strconv.Itoa(x.vars) + varMark)
	}
	now.fn, now.ctx = v.fn, v.ctx
	x.env[obj] = now
	x.emit(&Op{Op: "let", Name: now.text, Text: v.text}, pos)
}
