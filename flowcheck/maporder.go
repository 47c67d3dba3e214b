package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var mapOrderRule = rule{name: "maporder"}

const mapOrderMend = "in another order in every replay: range over slices.Sorted(maps.Keys(…))"

// checkMapOrder finds durable operations whose order depends on the iteration order of a map.
func checkMapOrder(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if !isMap(p.pass.TypesInfo.TypeOf(n.X)) && !p.isUnsorted(n.X) && !p.isCollected(n.X) {
				return
			}
			if call := p.hasDurable(n.Body); call != nil {
				p.report("maporder", n.Pos(), n.X.End(), "the body of this range over a map calls "+p.calleeName(call)+", "+mapOrderMend, p.fixMapOrder(u, n)...)
				return
			}
			for _, v := range p.gathered(n) {
				if p.getsUnsorted(u, v, n.End()) {
					p.report("maporder", n.Pos(), n.X.End(), "this range over a map fills "+v.Name()+", which a durable operation gets, "+mapOrderMend, p.fixMapOrder(u, n)...)
					return
				}
			}
		case *ast.AssignStmt:
			if len(n.Lhs) != 1 || len(n.Rhs) != 1 || !p.isCollected(n.Rhs[0]) && !p.isFirst(n.Rhs[0]) {
				return
			}
			if v := rootVar(p.pass.TypesInfo, n.Lhs[0]); v != nil && p.getsUnsorted(u, v, n.End()) {
				p.report("maporder", n.Pos(), n.End(), v.Name()+" has the entries of a map, and a durable operation gets it, "+mapOrderMend)
			}
		case *ast.CallExpr:
			if !p.isDurableCall(n) {
				return
			}
			for _, arg := range n.Args {
				if p.isCollected(arg) || p.isFirst(arg) {
					p.report("maporder", arg.Pos(), arg.End(), "a durable operation gets the entries of a map, "+mapOrderMend)
				}
			}
		}
	})
}

func (p *packagePass) calleeName(call *ast.CallExpr) string {
	return display(origin(callee(p.pass.TypesInfo, call)))
}

// isUnsorted reports whether e is an iterator over a map or over the result of such an iterator.
func (p *packagePass) isUnsorted(e ast.Expr) bool {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	if !isCall {
		return false
	}
	fn := origin(callee(p.pass.TypesInfo, call))
	return isFunc(fn, "maps", "Keys", "Values", "All") ||
		isFunc(fn, "slices", "Values", "All") && len(call.Args) == 1 && p.isCollected(call.Args[0])
}

// isCollected reports whether e is a slice or text that was built from an iterator over a map.
func (p *packagePass) isCollected(e ast.Expr) bool {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	if !isCall {
		return false
	}
	switch fn := origin(callee(p.pass.TypesInfo, call)); {
	case isFunc(fn, "slices", "Collect"):
		return p.isUnsorted(call.Args[0])
	case isFunc(fn, "slices", "AppendSeq"):
		return p.isUnsorted(call.Args[1])
	case isFunc(fn, "strings", "Join"):
		return p.isCollected(call.Args[0])
	default:
		u := p.unsortedResult(fn)
		return u != nil && !u.First
	}
}

// isFirst reports whether e is a call of a function that returns the first entry that an iteration
// over a map yields.
func (p *packagePass) isFirst(e ast.Expr) bool {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	if !isCall {
		return false
	}
	u := p.unsortedResult(origin(callee(p.pass.TypesInfo, call)))
	return u != nil && u.First
}

// gathered returns the slices to which the body of a loop appends and that are declared outside of
// the loop.
func (p *packagePass) gathered(loop *ast.RangeStmt) []*types.Var {
	var list []*types.Var
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		assign, isAssign := n.(*ast.AssignStmt)
		if !isAssign || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
			return true
		}
		if v := p.joined(loop, assign); v != nil {
			list = append(list, v)
			return true
		}
		call, isCall := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		if !isCall {
			return true
		}
		id, isIdent := ast.Unparen(call.Fun).(*ast.Ident)
		left, isName := assign.Lhs[0].(*ast.Ident)
		if !isIdent || !isName || id.Name != "append" || !p.pass.TypesInfo.Types[call.Fun].IsBuiltin() {
			return true
		}
		if v, isVar := p.pass.TypesInfo.ObjectOf(left).(*types.Var); isVar && (v.Pos() < loop.Pos() || v.Pos() > loop.End()) {
			list = append(list, v)
		}
		return true
	})
	return list
}

// joined returns the string variable to which an assignment appends an entry of the map. The
// variable must be declared outside of the loop. joined returns nil if there is none.
func (p *packagePass) joined(loop *ast.RangeStmt, assign *ast.AssignStmt) *types.Var {
	left, isName := assign.Lhs[0].(*ast.Ident)
	if !isName || assign.Tok != token.ADD_ASSIGN {
		return nil
	}
	v, isVar := p.pass.TypesInfo.Uses[left].(*types.Var)
	if !isVar || v.Pos() >= loop.Pos() && v.Pos() <= loop.End() {
		return nil
	}
	if basic, isBasic := v.Type().Underlying().(*types.Basic); !isBasic || basic.Info()&types.IsString == 0 {
		return nil
	}
	for _, e := range []ast.Expr{loop.Key, loop.Value} {
		if id, isIdent := e.(*ast.Ident); isIdent && p.mentions(assign.Rhs, p.pass.TypesInfo.ObjectOf(id)) {
			return v
		}
	}
	return nil
}

// getsUnsorted reports whether a durable operation after pos receives the slice v or its elements
// in order. It returns false if code in between may have sorted v.
func (p *packagePass) getsUnsorted(u *unit, v *types.Var, pos token.Pos) bool {
	gets, sorted := false, false
	ast.Inspect(u.body, func(n ast.Node) bool {
		if n == nil || n.End() <= pos || sorted {
			return false
		}
		switch n := n.(type) {
		case *ast.RangeStmt:
			if id, isIdent := ast.Unparen(n.X).(*ast.Ident); isIdent && n.Pos() >= pos && p.pass.TypesInfo.Uses[id] == v {
				gets = gets || p.hasDurable(n.Body) != nil
			}
		case *ast.AssignStmt:
			if text := p.joins(n, v); text != nil && n.Pos() >= pos && text != v {
				gets = gets || p.getsUnsorted(u, text, n.End())
			}
		case *ast.CallExpr:
			if n.Pos() < pos || !p.mentionsOrder(n.Args, v) {
				return true
			}
			switch {
			case p.isDurableCall(n):
				gets = true
			case !p.leavesOrder(n):
				sorted = !gets
			}
		}
		return true
	})
	return gets && !sorted
}

// joins returns the string variable that an assignment builds from the elements of v in their
// order, or nil.
func (p *packagePass) joins(assign *ast.AssignStmt, v *types.Var) *types.Var {
	if len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return nil
	}
	call, isCall := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	left, isName := assign.Lhs[0].(*ast.Ident)
	if !isCall || !isName || len(call.Args) == 0 {
		return nil
	}
	id, isIdent := ast.Unparen(call.Args[0]).(*ast.Ident)
	if !isIdent || p.pass.TypesInfo.Uses[id] != v || !isFunc(origin(callee(p.pass.TypesInfo, call)), "strings", "Join") {
		return nil
	}
	text, _ := p.pass.TypesInfo.ObjectOf(left).(*types.Var)
	return text
}

// mentionsOrder reports whether one of the expressions uses v for more than its length.
func (p *packagePass) mentionsOrder(list []ast.Expr, v types.Object) bool {
	found := false
	for _, e := range list {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				id, isIdent := ast.Unparen(n.Fun).(*ast.Ident)
				if isIdent && (id.Name == "len" || id.Name == "cap") && p.pass.TypesInfo.Types[n.Fun].IsBuiltin() {
					return false
				}
			case *ast.Ident:
				found = found || p.pass.TypesInfo.Uses[n] == v
			}
			return !found
		})
	}
	return found
}

// leavesOrder reports whether a call certainly leaves the order of its arguments unchanged.
func (p *packagePass) leavesOrder(call *ast.CallExpr) bool {
	tv := p.pass.TypesInfo.Types[call.Fun]
	if tv.IsBuiltin() || tv.IsType() {
		return true
	}
	fn := origin(callee(p.pass.TypesInfo, call))
	return fn != nil && fn.Pkg() != nil && (isEngine(fn.Pkg().Path()) || slices.Contains([]string{"fmt", "log/slog", "strings", "errors"}, fn.Pkg().Path())) &&
		!strings.Contains(fn.Name(), "Sort")
}

// mentions reports whether one of the expressions uses v.
func (p *packagePass) mentions(list []ast.Expr, v types.Object) bool {
	found := false
	for _, e := range list {
		ast.Inspect(e, func(n ast.Node) bool {
			if id, isIdent := n.(*ast.Ident); isIdent && p.pass.TypesInfo.Uses[id] == v {
				found = true
			}
			return !found
		})
	}
	return found
}

// fixMapOrder replaces a loop over a map by a loop over its sorted keys.
func (p *packagePass) fixMapOrder(u *unit, n *ast.RangeStmt) []analysis.SuggestedFix {
	m, isMap := p.pass.TypesInfo.TypeOf(n.X).Underlying().(*types.Map)
	id, isIdent := ast.Unparen(n.X).(*ast.Ident)
	if !isMap || !isIdent || n.Tok != token.DEFINE {
		return nil
	}
	key, isBasic := m.Key().Underlying().(*types.Basic)
	if !isBasic || key.Info()&types.IsOrdered == 0 || p.mentions([]ast.Expr{&ast.FuncLit{Type: &ast.FuncType{Params: &ast.FieldList{}}, Body: n.Body}}, p.pass.TypesInfo.Uses[id]) {
		return nil
	}
	keyName, valueName := nameOf(n.Key), nameOf(n.Value)
	if keyName == "" {
		if keyName = "key"; p.lookup(n.Body.Pos(), keyName) != nil {
			return nil
		}
	}
	mapsName, edits, ok := p.addImport(u.file, n.Pos(), "maps")
	slicesName, more, also := p.addImport(u.file, n.Pos(), "slices")
	if !ok || !also {
		return nil
	}
	if len(edits) > 0 && len(more) > 0 { // Combine both edits, because they insert at the same position.
		edits[0].NewText = append(edits[0].NewText, more[0].NewText...)
		more = nil
	}
	head := "for _, " + keyName + " := range " + slicesName + ".Sorted(" + mapsName + ".Keys(" + id.Name + "))"
	edits = append(append(edits, more...), analysis.TextEdit{Pos: n.Pos(), End: n.X.End(), NewText: []byte(head)})
	if valueName != "" {
		edits = append(edits, analysis.TextEdit{Pos: n.Body.Lbrace + 1, End: n.Body.Lbrace + 1, NewText: []byte("\n" + valueName + " := " + id.Name + "[" + keyName + "]")})
	}
	return suggest("Range over the sorted keys", edits...)
}

// nameOf returns the name of the range variable e, or "".
func nameOf(e ast.Expr) string {
	if id, isIdent := e.(*ast.Ident); isIdent && id.Name != "_" {
		return id.Name
	}
	return ""
}
