package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// A unit is a body that is judged by itself: of a function or method, or of a literal
// that takes a [workflow.Context] or is given to [workflow.Record]. Other literals belong
// to the unit around them, but for those that take a context.Context, which run
// elsewhere, and those of a sync.Once, which are the initialization of something.
type unit struct {
	fn       *types.Func // nil for a literal
	lit      *ast.FuncLit
	sig      *types.Signature
	body     *ast.BlockStmt
	file     *ast.File
	cursor   inspector.Cursor // of the FuncDecl or FuncLit
	ctx      *types.Var       // the workflow.Context that it takes, or nil
	parent   *unit            // around a literal, or nil
	isFlow   bool             // it is workflow code
	isRecord bool             // it is given to workflow.Record
	ignored  bool             // it runs elsewhere
	isOnce   bool             // it is the function of a sync.Once
	isInit   bool             // func init

	prims []prim
	calls []call
}

// A prim is a place where code itself does what a rule is about.
type prim struct {
	rule     Rule
	what     string
	pos, end token.Pos
	node     ast.Node
	fn       *types.Func // that is called or mentioned, or nil
}

// A call is a call of a function whose effects are found by solving, or the mention of
// one as the argument of a function that calls it at once.
type call struct {
	fn       *types.Func
	pos, end token.Pos
	node     ast.Node
}

// collect cuts the files of the package into units.
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

// add scans a unit and keeps it.
func (p *packagePass) add(u *unit) {
	if !u.ignored {
		p.units = append(p.units, u)
	}
	body, ok := u.cursor.FindNode(u.body)
	if ok {
		p.scan(u, body)
	}
}

// literal returns the unit that a literal is, or nil if it belongs to the one around.
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

// scan notes what the code under c does and calls.
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

// note keeps a primitive.
func (u *unit) note(rule Rule, what string, n ast.Node, fn *types.Func) {
	u.prims = append(u.prims, prim{rule: rule, what: what, pos: n.Pos(), end: n.End(), node: n, fn: fn})
}

// contains reports whether pos is inside of the unit.
func (u *unit) contains(pos token.Pos) bool {
	return u.cursor.Node().Pos() <= pos && pos < u.cursor.Node().End()
}

// outermost returns the unit of the declaration that u is in.
func (u *unit) outermost() *unit {
	for u.parent != nil {
		u = u.parent
	}
	return u
}

// inspect calls f for each node of a unit, without those of the units inside.
func (p *packagePass) inspect(u *unit, f func(ast.Node)) {
	ast.Inspect(u.body, func(n ast.Node) bool {
		if n == nil || p.own[n] {
			return false
		}
		f(n)
		return true
	})
}
