package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// A unit is a body that is judged separately. It is the body of a function or method, or of a
// literal that takes a [workflow.Context] or is passed to [workflow.Record]. Two other kinds of
// literals are separate units: a literal that takes a context.Context, because it runs elsewhere,
// and a literal passed to a sync.Once, because it is initialization code. All other literals belong
// to the unit around them.
type unit struct {
	fn       *types.Func // function or method; nil for a literal
	lit      *ast.FuncLit
	sig      *types.Signature
	body     *ast.BlockStmt
	file     *ast.File
	cursor   inspector.Cursor // position of the FuncDecl or FuncLit
	ctx      *types.Var       // parameter of type workflow.Context; nil if there is none
	parent   *unit            // unit around a literal; nil for a declaration
	isFlow   bool             // the unit is workflow code
	isRecord bool             // the literal is passed to workflow.Record
	ignored  bool             // the literal runs elsewhere
	isOnce   bool             // the literal is passed to a sync.Once
	isInit   bool             // the unit is an init function

	prims []prim
	calls []call
}

// A prim is a use of an operation that a rule forbids.
type prim struct {
	rule     Rule
	what     string
	pos, end token.Pos
	node     ast.Node
	fn       *types.Func // called or mentioned function; nil if there is none
}

// A call is a call of a function whose effects solve computes. A function that is passed to another
// function, which calls it before returning, counts as called.
type call struct {
	fn       *types.Func
	pos, end token.Pos
	node     ast.Node
}

// collect divides the files of the package into units.
func (p *packagePass) collect() {
	p.recorded, p.own = make(map[ast.Node]bool), make(map[ast.Node]bool)
	p.once = make(map[ast.Node]bool)
	for fileCursor := range p.root.Children() {
		file, isFile := fileCursor.Node().(*ast.File)
		if !isFile {
			continue
		}
		for c := range fileCursor.Children() {
			switch d := c.Node().(type) {
			case *ast.FuncDecl:
				fn, _ := p.pass.TypesInfo.Defs[d.Name].(*types.Func)
				if d.Body == nil || fn == nil {
					continue
				}
				sig := fn.Signature()
				u := &unit{
					fn: fn, sig: sig, body: d.Body, file: file, cursor: c,
					ctx: takes(sig, isFlowContext), isInit: d.Recv == nil && d.Name.Name == "init",
				}
				u.isFlow = u.ctx != nil
				p.add(u)
			case *ast.GenDecl:
				u := &unit{file: file, cursor: c, ignored: true}
				p.scan(u, c)
			}
		}
	}
}

// add scans a unit and adds it to p.units.
func (p *packagePass) add(u *unit) {
	if !u.ignored {
		p.units = append(p.units, u)
	}
	body, ok := u.cursor.FindNode(u.body)
	if ok {
		p.scan(u, body)
	}
}

// literal returns a new unit for a literal, or nil if the literal belongs to the unit around it.
func (p *packagePass) literal(around *unit, c inspector.Cursor, lit *ast.FuncLit) *unit {
	sig, ok := p.pass.TypesInfo.TypeOf(lit).(*types.Signature)
	if !ok {
		return nil
	}
	u := &unit{lit: lit, sig: sig, body: lit.Body, file: around.file, cursor: c, parent: around}
	u.ctx = takes(sig, isFlowContext)
	switch {
	case u.ctx != nil:
		u.isFlow = true
	case p.once[lit]:
		u.ignored, u.isOnce = true, true
	case takes(sig, isContext) != nil:
		u.ignored, u.isOnce = true, around.isOnce
	case p.recorded[lit]:
		u.isRecord = true
	default:
		return nil
	}
	return u
}

// scan records the operations and calls of the code under c.
func (p *packagePass) scan(u *unit, c inspector.Cursor) {
	c.Inspect(nil, func(c inspector.Cursor) bool {
		if lit, isLit := c.Node().(*ast.FuncLit); isLit {
			if own := p.literal(u, c, lit); own != nil {
				p.own[lit] = true
				p.add(own)
				return false
			}
			return true
		}
		p.look(u, c)
		return true
	})
}

// note records a forbidden operation at n.
func (u *unit) note(rule Rule, what string, n ast.Node, fn *types.Func) {
	u.prims = append(u.prims, prim{rule: rule, what: what, pos: n.Pos(), end: n.End(), node: n, fn: fn})
}

// contains reports whether pos is inside the unit.
func (u *unit) contains(pos token.Pos) bool {
	return u.cursor.Node().Pos() <= pos && pos < u.cursor.Node().End()
}

// outermost returns the unit of the declaration in which u is contained.
func (u *unit) outermost() *unit {
	for u.parent != nil {
		u = u.parent
	}
	return u
}

// inspect calls f for each node of a unit. It omits the nodes of nested units.
func (p *packagePass) inspect(u *unit, f func(ast.Node)) {
	ast.Inspect(u.body, func(n ast.Node) bool {
		if n == nil || p.own[n] {
			return false
		}
		f(n)
		return true
	})
}
