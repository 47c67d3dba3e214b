package manifest

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// maxOps is the maximum number of ops of a workflow after inlining.
const maxOps = 10_000

// walker evaluates the body of a workflow symbolically in execution order. It inlines helpers and
// records the operations of the workflow.
type walker struct {
	world *World
	pkg   *load.Package
	uses  map[string]string

	out   *[]*Op
	env   map[types.Object]value
	frame *frame
	stack []string       // functions that are being inlined
	tail  *ast.CallExpr  // call whose results the current function returns unchanged
	count map[string]int // number of operations by name
	vars  int
	depth int // nesting depth of loops
	// outside contains the known values at the start of each enclosing loop and switch.
	outside []map[types.Object]value
	size    int
}

// frame is the evaluation of a function body: the workflow, or a call of an inlined function.
type frame struct {
	inlined bool // the caller uses the results
	path    []string
	returns []returned
	results []types.Object // named results of the function
	shared  map[types.Object]bool
}

// returned contains the results of a function at one return, and the condition under which it is
// reached.
type returned struct {
	cond   string
	values []value
}

func newWalker(w *World, p *load.Package) *walker {
	return &walker{world: w, pkg: p, env: map[types.Object]value{}, count: map[string]int{}}
}

// workflow returns the operations of the workflow f that decl declares.
func (x *walker) workflow(decl *ast.FuncDecl, f *model.Workflow) []*Op {
	var ops []*Op
	if decl == nil {
		return ops
	}
	x.out = &ops
	wire := map[types.Object]string{}
	for _, p := range f.Params {
		wire[p.Var] = p.Wire
	}
	for _, obj := range x.params(decl.Type) {
		switch name, isParam := wire[obj]; {
		case isParam:
			x.env[obj] = text("p." + name)
		case obj != nil:
			x.env[obj] = value{text: "ctx", ctx: &scope{}}
		}
	}
	x.body(&frame{}, decl.Type, decl.Body)
	return renumbered(sliced(ops))
}

// params returns the objects of the parameters of t. The object of an unnamed parameter is nil.
func (x *walker) params(t *ast.FuncType) []types.Object {
	var all []types.Object
	for _, field := range t.Params.List {
		if len(field.Names) == 0 {
			all = append(all, nil)
		}
		for _, id := range field.Names {
			all = append(all, x.pkg.Info.Defs[id])
		}
	}
	return all
}

// body evaluates the body of a function in frame f.
func (x *walker) body(f *frame, t *ast.FuncType, b *ast.BlockStmt) {
	outer := x.frame
	defer func() { x.frame = outer }()
	x.frame = f
	f.shared = sharedVariables(x.pkg.Info, b)
	if outer != nil {
		maps.Copy(f.shared, outer.shared)
	}
	x.share(b.Pos())
	if t.Results != nil {
		for _, field := range t.Results.List {
			for _, id := range field.Names {
				if obj := x.pkg.Info.Defs[id]; obj != nil {
					x.env[obj] = value{text: "zero", zero: true}
					f.results = append(f.results, obj)
				}
			}
		}
	}
	x.block(b.List)
}

// share assigns numbers to the parameters whose modifications cannot be followed.
func (x *walker) share(pos token.Pos) {
	var shared []types.Object
	for obj := range x.frame.shared {
		if v, known := x.env[obj]; known && v.ctx == nil && v.fn == nil {
			shared = append(shared, obj)
		}
	}
	slices.SortFunc(shared, func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
	for _, obj := range shared {
		if v := x.env[obj]; !strings.HasPrefix(v.text, varMark) {
			x.let(obj, v, pos)
		}
	}
}

// sharedVariables returns the captured variables to which function literals assign, and the
// variables whose address is taken. The time of their modification is not known.
func sharedVariables(info *types.Info, b *ast.BlockStmt) map[types.Object]bool {
	shared := map[types.Object]bool{}
	var literals []*ast.FuncLit
	note := func(e ast.Expr) {
		id, ok := ast.Unparen(e).(*ast.Ident)
		if !ok {
			return
		}
		obj := info.ObjectOf(id)
		if v, ok := obj.(*types.Var); ok && len(literals) > 0 {
			if lit := literals[len(literals)-1]; v.Pos() < lit.Pos() || v.Pos() >= lit.End() {
				shared[obj] = true
			}
		}
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			literals = append(literals, n)
			ast.Inspect(n.Body, visit)
			literals = literals[:len(literals)-1]
			return false
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				note(l)
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if id, ok := ast.Unparen(n.X).(*ast.Ident); ok && n.Op == token.AND {
				if v, ok := info.ObjectOf(id).(*types.Var); ok {
					shared[v] = true
				}
			}
		}
		return true
	}
	ast.Inspect(b, visit)
	return shared
}

func (x *walker) emit(o *Op, pos token.Pos) {
	o.Position = x.pkg.Position(pos)
	if x.size++; x.size <= maxOps {
		*x.out = append(*x.out, o)
	}
}

// nested evaluates code that belongs to an inner block, and returns the ops of the block.
func (x *walker) nested(f func()) []*Op {
	var ops []*Op
	outer := x.out
	x.out = &ops
	f()
	x.out = outer
	return ops
}

// block evaluates statements and reports whether control never reaches the end of list.
func (x *walker) block(list []ast.Stmt) (ends bool) {
	return slices.ContainsFunc(list, x.stmt)
}

func (x *walker) stmt(s ast.Stmt) (ends bool) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		return x.block(s.List)
	case *ast.LabeledStmt:
		return x.stmt(s.Stmt)
	case *ast.ExprStmt:
		return x.exprStmt(s)
	case *ast.AssignStmt:
		x.assign(s)
	case *ast.IncDecStmt:
		old := x.expr(s.X)
		x.store(s.X, text("("+old.text+" "+s.Tok.String()[:1]+" 1)"))
	case *ast.DeclStmt:
		x.declare(s)
	case *ast.ReturnStmt:
		x.leave(s)
		return true
	case *ast.IfStmt:
		return x.ifStmt(s)
	case *ast.SwitchStmt:
		return x.switchStmt(s)
	case *ast.TypeSwitchStmt:
		return x.typeSwitch(s)
	case *ast.ForStmt:
		x.forStmt(s)
	case *ast.RangeStmt:
		x.rangeStmt(s)
	case *ast.DeferStmt:
		x.deferStmt(s)
	case *ast.BranchStmt:
		label := ""
		if s.Label != nil {
			label = " label"
		}
		x.emit(&Op{Op: "leave", Text: s.Tok.String() + label + x.changed()}, s.Pos())
		return true
	case *ast.GoStmt:
		x.emit(&Op{Op: "do", Text: "go " + x.expr(s.Call.Fun).text}, s.Pos())
	case *ast.SendStmt:
		x.emit(&Op{Op: "do", Text: x.expr(s.Chan).text + " <- " + x.expr(s.Value).text}, s.Pos())
	case *ast.SelectStmt:
		x.emit(&Op{Op: "do", Text: "select " + x.world.canonical(x.pkg, s)}, s.Pos())
	}
	return false
}

// changed returns the values of the variables that have changed since the start of the innermost
// loop or switch. A statement that leaves it records them, because they are not known after it.
func (x *walker) changed() string {
	if len(x.outside) == 0 {
		return ""
	}
	var texts []string
	for obj, before := range x.outside[len(x.outside)-1] {
		if now, known := x.env[obj]; known && now.text != before.text {
			texts = append(texts, now.text)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	slices.Sort(texts)
	return " with " + strings.Join(texts, ", ")
}

// around evaluates the body of a loop or switch. It returns the result of f.
func (x *walker) around(f func() bool) bool {
	x.outside = append(x.outside, maps.Clone(x.env))
	ends := f()
	x.outside = x.outside[:len(x.outside)-1]
	return ends
}

// leave evaluates a return statement.
func (x *walker) leave(s *ast.ReturnStmt) {
	var values []value
	switch {
	case len(s.Results) == 0:
		for _, obj := range x.frame.results {
			values = append(values, x.env[obj])
		}
	case len(s.Results) == 1:
		outer := x.tail
		x.tail, _ = ast.Unparen(s.Results[0]).(*ast.CallExpr)
		v := x.expr(s.Results[0])
		x.tail = outer
		if v.returned {
			return
		}
		values = []value{v}
		if len(v.parts) > 0 {
			values = v.parts
		}
	default:
		for _, r := range s.Results {
			values = append(values, x.expr(r))
		}
	}
	if x.frame.inlined {
		x.frame.returns = append(x.frame.returns, returned{strings.Join(x.frame.path, " && "), values})
		x.emit(&Op{Op: "leave"}, s.Pos())
		return
	}
	x.giveBack(values, s.Pos(), 0)
}

// maxWays is the maximum number of conditions in the returned values for which a return gets
// separate branches.
const maxWays = 6

// giveBack records a return. If a value depends on a condition, it records a branch with a return
// for each case, because an inlined helper has the same form.
func (x *walker) giveBack(values []value, pos token.Pos, depth int) {
	for _, v := range values {
		if depth == maxWays || v.choice == nil || strings.Contains(v.choice.cond, varMark) {
			continue
		}
		cond := v.choice.cond
		yes, no := make([]value, len(values)), make([]value, len(values))
		for i, v := range values {
			yes[i], no[i] = v.with(cond), v.without(cond)
		}
		body := x.nested(func() { x.giveBack(yes, pos, depth+1) })
		x.emit(&Op{Op: "if", Text: cond, Body: body}, pos)
		x.giveBack(no, pos, depth+1)
		return
	}
	x.emit(&Op{Op: "return", Text: strings.Join(textsOf(values), ", ")}, pos)
}

func (x *walker) deferStmt(s *ast.DeferStmt) {
	ops, _, _ := x.under("deferred", x.env, func() bool {
		return x.exprStmt(&ast.ExprStmt{X: s.Call})
	})
	ops = slices.DeleteFunc(ops, func(o *Op) bool { return o.Op == "do" && o.Text == "end scope()" || o.Op == "leave" })
	if len(ops) > 0 {
		x.emit(&Op{Op: "defer", Body: ops}, s.Pos())
	}
}
