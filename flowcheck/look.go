package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// look records the operations of the single node at c.
func (p *packagePass) look(u *unit, c inspector.Cursor) {
	switch n := c.Node().(type) {
	case *ast.CallExpr:
		p.lookCall(u, n)
	case *ast.GoStmt:
		u.note("goroutine", "go", n, nil)
	case *ast.SelectStmt:
		u.note("channel", "select", n, nil)
	case *ast.SendStmt:
		if !isComm(c) {
			u.note("channel", "a send", n, nil)
		}
	case *ast.UnaryExpr:
		if n.Op == token.ARROW && !isComm(c) && !p.isClockCall(n.X) {
			u.note("channel", "a receive", n, nil)
		}
	case *ast.RangeStmt:
		p.lookRange(u, n)
	case *ast.Ident:
		p.lookIdent(u, c, n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				p.lookWrite(u, left, n)
			}
		}
	case *ast.IncDecStmt:
		p.lookWrite(u, n.X, n)
	}
}

// isComm reports whether a send or receive is the communication of a select case. The operation
// itself is not reported then, because the select statement is reported.
func isComm(c inspector.Cursor) bool {
	for ; ; c = c.Parent() {
		switch c.ParentEdgeKind() {
		case edge.CommClause_Comm:
			return true
		case edge.ExprStmt_X, edge.AssignStmt_Rhs, edge.ParenExpr_X:
			continue
		default:
			return false
		}
	}
}

// isClockCall reports whether e is a call of a function such as time.After. The clock rule reports
// the call.
func (p *packagePass) isClockCall(e ast.Expr) bool {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	if !isCall {
		return false
	}
	fn := callee(p.pass.TypesInfo, call)
	return fn != nil && standard().rule(fn) == "clock"
}

func (p *packagePass) lookRange(u *unit, n *ast.RangeStmt) {
	if isChan(p.pass.TypesInfo.TypeOf(n.X)) && !p.isClockCall(n.X) {
		u.note("channel", "a range over a channel", n, nil)
	}
	if n.Tok == token.ASSIGN {
		p.lookWrite(u, n.Key, n)
		p.lookWrite(u, n.Value, n)
	}
}

// lookWrite records writes of package variables.
func (p *packagePass) lookWrite(u *unit, left ast.Expr, stmt ast.Node) {
	if left == nil {
		return
	}
	if v := rootVar(p.pass.TypesInfo, left); isPackageVar(v) {
		u.note("global", displayVar(v), left, nil)
		p.written[left.Pos()] = true
		p.mutate(u, v, stmt)
	}
}

// mutate records that the variable v of this package is written at where. A written variable is not
// constant.
func (p *packagePass) mutate(u *unit, v *types.Var, where ast.Node) {
	outer := u.outermost()
	if v.Pkg() != p.pass.Pkg || outer.isInit || u.isOnce || ownAffair(v.Type()) || p.ignores.cut(where.Pos(), "global") {
		return
	}
	by := "a function value"
	if outer.fn != nil {
		by = display(outer.fn)
	}
	if old, ok := p.mutated[v]; !ok || by < old.By {
		p.mutated[v] = &Mutated{By: by, Module: p.module}
	}
}

// ownAffair reports whether variables of type t are safe for concurrent use, or other rules cover
// them. This applies to the types of packages sync and sync/atomic.
func ownAffair(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && slices.Contains([]string{"sync", "sync/atomic"}, named.Obj().Pkg().Path())
}

// displayVar returns the name of a variable in the form used in reports.
func displayVar(v *types.Var) string {
	if v.Pkg() == nil {
		return v.Name()
	}
	return v.Pkg().Name() + "." + v.Name()
}

// lookIdent records uses of package variables.
func (p *packagePass) lookIdent(u *unit, c inspector.Cursor, n *ast.Ident) {
	v, isVar := p.pass.TypesInfo.Uses[n].(*types.Var)
	if !isVar || !isPackageVar(v) {
		return
	}
	var whole ast.Expr = n
	if sel, isSel := c.Parent().Node().(*ast.SelectorExpr); isSel && sel.Sel == n {
		whole = sel
	}
	if rule := standard().rule(v); rule != "" && rule != pure {
		u.note(rule, displayVar(v), whole, nil)
		return
	}
	if c.Parent().Node() != nil {
		if addr, isAddr := addressed(c); isAddr {
			p.mutate(u, v, addr)
		}
	}
	if !p.written[whole.Pos()] {
		p.reads = append(p.reads, read{u, v, whole})
	}
}

// addressed reports whether code takes the address of a variable or of one of its fields. The
// address of an element does not count, because it is commonly used to read large tables.
func addressed(c inspector.Cursor) (ast.Node, bool) {
	for {
		switch c.ParentEdgeKind() {
		case edge.SelectorExpr_X, edge.SelectorExpr_Sel, edge.ParenExpr_X:
			c = c.Parent()
		case edge.UnaryExpr_X:
			n, _ := c.Parent().Node().(*ast.UnaryExpr)
			return n, n.Op == token.AND
		default:
			return nil, false
		}
	}
}

// A read is a use of a package variable. It is judged when all writes in the package are known.
type read struct {
	u     *unit
	v     *types.Var
	where ast.Expr
}

// judgeReads records the reads of variables that are not constant as violations of the rule global.
func (p *packagePass) judgeReads() {
	for _, r := range p.reads {
		m := p.mutated[r.v]
		if m == nil && r.v.Pkg() != p.pass.Pkg {
			var fact Mutated
			if !p.pass.ImportObjectFact(r.v, &fact) || fact.Module != p.module {
				continue
			}
			m = &fact
		}
		if m != nil {
			r.u.note("global", readOf(displayVar(r.v), m.By), r.where, nil)
		}
	}
}

// callsAtOnce lists the packages whose functions call their function arguments before they return.
var callsAtOnce = []string{"slices", "sort", "strings", "bytes", "maps", "iter", workflowPath, graphPath}

func (p *packagePass) lookCall(u *unit, n *ast.CallExpr) {
	info := p.pass.TypesInfo
	if tv := info.Types[n.Fun]; tv.IsBuiltin() {
		p.lookBuiltin(u, n)
		return
	}
	fn := callee(info, n)
	if fn == nil || fn.Pkg() == nil {
		return
	}
	fn = fn.Origin()
	p.use(u, fn, n)
	switch {
	case isMethod(fn, "sync", "Once", "Do"), isFunc(fn, "sync", "OnceFunc", "OnceValue", "OnceValues"):
		for _, arg := range n.Args {
			p.once[ast.Unparen(arg)] = true
		}
	case isFunc(fn, workflowPath, "Record"):
		p.recorded[ast.Unparen(n.Args[len(n.Args)-1])] = true
	case slices.Contains(callsAtOnce, fn.Pkg().Path()):
		for _, arg := range n.Args {
			if f := mentioned(info, arg); f != nil && f.Pkg() != nil {
				p.use(u, f, arg)
			}
		}
	}
}

// use records a use of the function fn at n.
func (p *packagePass) use(u *unit, fn *types.Func, n ast.Node) {
	path := fn.Pkg().Path()
	if standard().has(path) {
		if rule := standard().rule(fn); rule != pure {
			u.note(rule, display(fn), n, fn)
		}
		return
	}
	if isEngine(path) {
		if isDurable(fn) {
			u.note(durable, display(fn), n, fn)
		}
		return
	}
	if a := p.annotation(fn); a != nil {
		u.note("raw", display(fn), n, fn)
		return
	}
	if types.IsInterface(recvType(fn)) {
		return
	}
	u.calls = append(u.calls, call{fn: fn, pos: n.Pos(), end: n.End(), node: n})
}

func recvType(fn *types.Func) types.Type {
	if recv := fn.Signature().Recv(); recv != nil {
		return recv.Type()
	}
	return types.Typ[types.Invalid]
}

func (p *packagePass) lookBuiltin(u *unit, n *ast.CallExpr) {
	id, isIdent := ast.Unparen(n.Fun).(*ast.Ident)
	if !isIdent || len(n.Args) == 0 {
		return
	}
	switch id.Name {
	case "print", "println":
		u.note("log", id.Name, n, nil)
	case "close":
		u.note("channel", "close", n, nil)
	case "delete", "clear", "copy":
		p.lookWrite(u, n.Args[0], n)
	}
}
