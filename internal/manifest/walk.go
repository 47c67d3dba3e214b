package manifest

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// maxOps bounds how much a workflow may grow when helpers are put in place.
const maxOps = 10_000

// walker follows the body of a workflow in the order of its evaluation, with helpers
// put in place, and writes down its operations.
type walker struct {
	world *World
	pkg   *load.Package
	uses  map[string]string

	out   *[]*Op
	env   map[types.Object]value
	frame *frame
	stack []string       // functions that are being put in place
	count map[string]int // of operations by name
	vars  int
	depth int // of loops
	// outside holds, for each loop and switch around, what was known when it began.
	outside []map[types.Object]value
	size    int
}

// frame is a call of a function that is put in place.
type frame struct {
	inlined bool // its results are used where it is called
	path    []string
	returns []returned
	results []types.Object // with names
	shared  map[types.Object]bool
}

// returned is what a function gives back where a condition holds.
type returned struct {
	cond   string
	values []value
}

func newWalker(w *World, p *load.Package) *walker {
	return &walker{world: w, pkg: p, env: map[types.Object]value{}, count: map[string]int{}}
}

// workflow returns what a workflow does.
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

// params returns the objects of parameters, nil for those without a name.
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

// body follows a function's body in a frame of its own.
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

// share gives numbers to the parameters whose changes cannot be followed.
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

// sharedVariables returns the variables that a function literal assigns which does not
// declare them, and those whose address is taken: when they change is not known.
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

func (x *walker) emit(o *Op, pos token.Pos) *Op {
	o.Position = x.pkg.Position(pos)
	if x.size++; x.size <= maxOps {
		*x.out = append(*x.out, o)
	}
	return o
}

// nested follows what is in a block of its own and returns its ops.
func (x *walker) nested(f func()) []*Op {
	var ops []*Op
	outer := x.out
	x.out = &ops
	f()
	x.out = outer
	return ops
}

// block follows statements and reports whether control cannot leave at their end.
func (x *walker) block(list []ast.Stmt) (ends bool) {
	for _, s := range list {
		if x.stmt(s) {
			return true
		}
	}
	return false
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

// changed returns the values of variables that are others than when the loop or switch began
// that is left: where it goes on, they are not known.
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

// around follows what is in a loop or switch.
func (x *walker) around(f func() bool) bool {
	x.outside = append(x.outside, maps.Clone(x.env))
	ends := f()
	x.outside = x.outside[:len(x.outside)-1]
	return ends
}

func (x *walker) exprStmt(s *ast.ExprStmt) (ends bool) {
	call, ok := ast.Unparen(s.X).(*ast.CallExpr)
	if !ok {
		x.expr(s.X)
		return false
	}
	if x.logs(call) {
		for _, a := range call.Args {
			x.expr(a) // may hold operations
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

// touch notes that a call may have changed what its arguments refer to.
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

// refers reports whether a function that gets a value of t can change what others see.
func refers(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Struct:
		return contextOf(t) == ""
	}
	return false
}

// root returns the local variable that an expression is a part of.
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

// store assigns a value to what the expression l stands for.
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

// hasIndirection reports whether l is reached by a pointer, slice or map.
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

// place is the text of what is assigned to.
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

// let gives a variable that others may see a value, and a number at first.
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

// leave follows a return.
func (x *walker) leave(s *ast.ReturnStmt) {
	var values []value
	switch {
	case len(s.Results) == 0:
		for _, obj := range x.frame.results {
			values = append(values, x.env[obj])
		}
	case len(s.Results) == 1:
		v := x.expr(s.Results[0])
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

// maxWays is how many conditions of a value make ways of their own.
const maxWays = 6

// giveBack writes down a return: where a value depends on a condition, as if the code asked
// for it and returned in each of its ways, for a helper that is put in place does so.
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

// under follows a block where a condition holds, and returns what is known after it.
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

// where returns what is known of variables where a condition holds.
func (x *walker) where(cond string) map[types.Object]value {
	if strings.Contains(cond, varMark) {
		return x.env // it may be another condition later
	}
	env := maps.Clone(x.env)
	for obj, v := range env {
		env[obj] = v.with(cond)
	}
	return env
}

// guarded writes down what happens by the version of a change.
func (x *walker) guarded(g *guard, pos token.Pos, way func(version int) []*Op) {
	o := &Op{Op: "guard", Name: g.change, Latest: g.latest, Least: g.least}
	for version := range g.latest + 1 {
		o.Ways = append(o.Ways, settled(way(version), g.change, version))
	}
	x.emit(o, pos)
}

// settled replaces guards of a change by the way of one version.
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

// join brings together what is known after two ways.
func (x *walker) join(cond string, yes, no map[types.Object]value, yesEnds, noEnds bool) {
	switch {
	case yesEnds && noEnds:
	case yesEnds:
		x.env = no
		if strings.Contains(cond, varMark) {
			return // it may be another condition later
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

// merged is what is known of a variable after two ways.
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
	case yes.text == no.text: // two functions without names
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

// versionSwitch follows a switch over the version of a change, if all cases are constants.
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

// cases follows the clauses of a switch.
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

func (x *walker) forStmt(s *ast.ForStmt) {
	if s.Init != nil {
		x.stmt(s.Init)
	}
	carried := x.carried(s)
	x.loop(s.Pos(), carried, func() string {
		if s.Cond == nil {
			return ""
		}
		return x.expr(s.Cond).text
	}, func() {
		if !x.block(s.Body.List) && s.Post != nil {
			x.stmt(s.Post)
		}
	})
}

func (x *walker) rangeStmt(s *ast.RangeStmt) {
	over := x.expr(s.X)
	carried := x.carried(s)
	name := func(base string) value {
		if x.depth > 1 {
			base += strconv.Itoa(x.depth)
		}
		return text(base)
	}
	x.loop(s.Pos(), carried, func() string { return "range " + over.text }, func() {
		if s.Key != nil {
			x.store(s.Key, name("index"))
		}
		if s.Value != nil {
			x.store(s.Value, name("item"))
		}
		x.block(s.Body.List)
	})
}

// carried returns the variables that a loop changes and that exist outside of it, in
// the order in which they are declared.
func (x *walker) carried(loop ast.Stmt) []types.Object {
	seen := map[types.Object]bool{}
	note := func(e ast.Expr) {
		if obj := x.root(e); obj != nil {
			if v, ok := x.env[obj]; ok && v.ctx == nil && v.fn == nil && !x.frame.shared[obj] {
				seen[obj] = true
			}
		}
	}
	ast.Inspect(loop, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				note(l)
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok {
				for _, a := range call.Args {
					if obj := x.root(a); obj != nil && refers(obj.Type()) {
						note(a)
					}
				}
			}
		}
		return true
	})
	return slices.SortedFunc(maps.Keys(seen), func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
}

// loop follows a loop: variables that it changes have a number, for their values differ
// by turn.
func (x *walker) loop(pos token.Pos, carried []types.Object, cond func() string, body func()) {
	names := map[types.Object]value{}
	for _, obj := range carried {
		before := x.env[obj]
		delete(x.env, obj)
		x.let(obj, before, pos)
		names[obj] = x.env[obj]
	}
	x.depth++
	head := cond()
	ops, after, _ := x.under("in "+head, x.env, func() bool { return x.around(func() bool { body(); return false }) })
	x.depth--
	for _, obj := range carried {
		if after[obj].text != names[obj].text {
			ops = append(ops, &Op{Op: "let", Name: names[obj].text, Text: after[obj].text, Position: x.pkg.Position(pos)})
		}
		x.env[obj] = names[obj]
	}
	if len(ops) > 0 {
		x.emit(&Op{Op: "loop", Text: head, Body: ops}, pos)
	}
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
