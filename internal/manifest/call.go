package manifest

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// call evaluates a call. It is an operation, a helper that is inlined, or a computation.
func (x *walker) call(e *ast.CallExpr) value {
	info := x.pkg.Info
	if tv := info.Types[e.Fun]; tv.IsType() {
		v := x.expr(e.Args[0])
		t := types.TypeString(tv.Type, qualifier)
		return value{text: t + "(" + v.text + ")", zero: v.zero, nonNil: v.nonNil}
	}
	f := calleeOf(info, e)
	if f != nil && f.Pkg() != nil && (f.Pkg().Path() == workflowPath || f.Pkg().Path() == graphPath) {
		return x.operation(e, f)
	}
	fun := x.callee(e)
	args := x.args(e)
	if fun.fn != nil {
		if t := fun.fn.target; t != nil {
			return x.target(e, t, fun.fn.method, args)
		}
		if x.durable(fun.fn, args) {
			return x.inline(e, fun.fn, args)
		}
	}
	if fun.fn == nil && slices.ContainsFunc(args, func(v value) bool { return v.ctx != nil }) {
		x.emit(&Op{Op: "unknown", Name: fun.text, Args: textsOf(args)}, e.Pos()) // The function belongs to another module or is not known statically.
		name := x.numbered("unknown")
		return value{text: name, parts: []value{text(name), text(name + ".1"), text(name + ".2")}}
	}
	return x.pure(e, f, fun, args)
}

// callee evaluates the expression that is called.
func (x *walker) callee(e *ast.CallExpr) value {
	if id, ok := ast.Unparen(e.Fun).(*ast.Ident); ok {
		if _, builtin := x.pkg.Info.Uses[id].(*types.Builtin); builtin {
			return text(id.Name)
		}
	}
	return x.expr(e.Fun)
}

func (x *walker) args(e *ast.CallExpr) []value {
	var args []value
	for i, a := range e.Args {
		v := x.expr(a)
		if e.Ellipsis.IsValid() && i == len(e.Args)-1 {
			v.text += "..."
		}
		args = append(args, v)
	}
	if len(e.Args) == 1 && len(args[0].parts) > 0 { // The call has the form f(g()), where g has several results.
		return args[0].parts
	}
	return args
}

// durable reports whether a function can execute operations. This requires that it receives a
// workflow.Context or is a function literal of this workflow.
func (x *walker) durable(f *function, args []value) bool {
	if slices.ContainsFunc(args, func(v value) bool { return v.ctx != nil }) {
		return true
	}
	return f.lit != nil
}

// inline evaluates the body of a called function at the position of the call.
func (x *walker) inline(e *ast.CallExpr, f *function, args []value) value {
	name := f.name
	var typ *ast.FuncType
	var block *ast.BlockStmt
	if f.lit != nil {
		typ, block = f.lit.Type, f.lit.Body
		name = x.pkg.Path + " literal " + strconv.Itoa(int(f.lit.Pos()))
	} else {
		typ, block = f.decl.Type, f.decl.Body
	}
	if slices.Contains(x.stack, name) || x.size > maxOps {
		x.emit(&Op{Op: "again", Name: marked(name), Args: textsOf(args)}, e.Pos())
		return text(x.numbered("again"))
	}
	outer, tail := x.pkg, x.tail == e
	x.stack = append(x.stack, name)
	x.pkg = f.pkg
	defer func() { x.stack, x.pkg = x.stack[:len(x.stack)-1], outer }()
	if f.decl != nil && f.decl.Recv != nil && len(f.decl.Recv.List) == 1 && len(f.decl.Recv.List[0].Names) == 1 {
		if sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok {
			x.pkg = outer
			recv := x.expr(sel.X)
			x.pkg = f.pkg
			x.env[x.pkg.Info.Defs[f.decl.Recv.List[0].Names[0]]] = recv
		}
	}
	x.bind(typ, args)
	if tail {
		x.inTailOf(x.frame, typ, block)
		return value{returned: true}
	}
	frame := &frame{inlined: true}
	start := len(*x.out)
	x.body(frame, typ, block)
	x.trim(start)
	return frame.result()
}

// inTailOf evaluates a function whose results its caller returns unchanged. Returns of the function
// count as returns of the caller.
func (x *walker) inTailOf(f *frame, t *ast.FuncType, b *ast.BlockStmt) {
	inner := &frame{inlined: f.inlined, path: slices.Clone(f.path), returns: f.returns}
	x.body(inner, t, b)
	f.returns = inner.returns
}

// bind assigns the arguments to the parameters.
func (x *walker) bind(t *ast.FuncType, args []value) {
	params := x.params(t)
	for i, obj := range params {
		if obj == nil {
			continue
		}
		switch last := i == len(params)-1; {
		case last && variadic(t) && !(len(args) == len(params) && strings.HasSuffix(args[i].text, "...")):
			x.env[obj] = text("[" + strings.Join(textsOf(args[min(i, len(args)):]), ", ") + "]")
		case i < len(args):
			v := args[i]
			v.text = strings.TrimSuffix(v.text, "...")
			x.env[obj] = v
		}
	}
}

func variadic(t *ast.FuncType) bool {
	n := len(t.Params.List)
	if n == 0 {
		return false
	}
	_, ok := t.Params.List[n-1].Type.(*ast.Ellipsis)
	return ok
}

// trim removes from an inlined function the returns at its end, because they have no effect.
func (x *walker) trim(start int) {
	ops := *x.out
	for len(ops) > start {
		last := ops[len(ops)-1]
		if last.Op == "leave" && last.Text == "" {
			ops = ops[:len(ops)-1]
			continue
		}
		if last.Op != "if" {
			break
		}
		last.Body, last.Else = trimmed(last.Body), trimmed(last.Else)
		if len(last.Body)+len(last.Else) > 0 {
			break
		}
		ops = ops[:len(ops)-1]
	}
	*x.out = ops
}

func trimmed(ops []*Op) []*Op {
	if n := len(ops); n > 0 && ops[n-1].Op == "leave" && ops[n-1].Text == "" {
		return ops[:n-1]
	}
	return ops
}

// result combines the results at all returns of a function into the value of its call.
func (f *frame) result() value {
	n := len(f.returns)
	if n == 0 {
		return value{}
	}
	last := f.returns[n-1].values
	values := slices.Clone(last)
	for i := n - 2; i >= 0; i-- {
		for j := range values {
			if j < len(f.returns[i].values) {
				values[j] = choose(f.returns[i].cond, f.returns[i].values[j], values[j])
			}
		}
	}
	if len(values) == 1 {
		return values[0]
	}
	return value{text: "(" + strings.Join(textsOf(values), ", ") + ")", parts: values}
}

// callback evaluates a function that an operation calls. It returns the operations of the function
// as a separate block.
func (x *walker) callback(e *ast.CallExpr, v value, args []value) []*Op {
	return x.nested(func() {
		env := x.env
		switch f := v.fn; {
		case f == nil:
			x.emit(&Op{Op: "unknown", Text: v.text}, e.Pos())
		case f.target != nil:
			x.target(e, f.target, f.method, args)
		default:
			x.callBody(e, f, args)
		}
		x.env = env
	})
}

// callBody evaluates the body of a function that is called by the runtime and returns to it.
func (x *walker) callBody(e *ast.CallExpr, f *function, args []value) {
	name := f.name
	var typ *ast.FuncType
	var block *ast.BlockStmt
	if f.lit != nil {
		typ, block = f.lit.Type, f.lit.Body
		name = x.pkg.Path + " literal " + strconv.Itoa(int(f.lit.Pos()))
	} else {
		typ, block = f.decl.Type, f.decl.Body
	}
	if slices.Contains(x.stack, name) || x.size > maxOps {
		x.emit(&Op{Op: "again", Name: marked(name), Args: textsOf(args)}, e.Pos())
		return
	}
	outer := x.pkg
	x.stack = append(x.stack, name)
	x.pkg = f.pkg
	defer func() { x.stack, x.pkg = x.stack[:len(x.stack)-1], outer }()
	env := x.env
	x.bind(typ, args)
	x.body(&frame{}, typ, block)
	x.env = env
	if ops := *x.out; len(ops) > 1 && ops[len(ops)-2].Op == "step" {
		last, name := ops[len(ops)-1], ops[len(ops)-2].Name
		name += "#" + strconv.Itoa(x.count[name])
		if last.Op == "return" && (last.Text == name || last.Text == name+".err") {
			*x.out = ops[:len(ops)-1] // The block then has the same form as for the step itself.
		}
	}
}

// textsOf returns the texts of the arguments that are not contexts.
func textsOf(args []value) []string {
	texts := []string{}
	for _, a := range args {
		if a.ctx == nil {
			texts = append(texts, a.text)
		}
	}
	return texts
}

// numbered returns a name for the result of the most recent operation with the given name.
func (x *walker) numbered(name string) string {
	name = x.next(name)
	if ops := *x.out; len(ops) > 0 && ops[len(ops)-1].Result == "" {
		ops[len(ops)-1].Result = name
	}
	return name
}

// next returns the given name with the next unused number.
func (x *walker) next(name string) string {
	x.count[name]++
	return name + "#" + strconv.Itoa(x.count[name])
}

// outcome returns the results of an operation. They are a value and an error, or only an error.
func outcome(name string, results int) value {
	err := text(name + ".err")
	if results == 1 {
		return err
	}
	return value{text: name, parts: []value{text(name), err}}
}

// target evaluates a call of a generated counterpart of a step or workflow.
func (x *walker) target(e *ast.CallExpr, t *target, method string, args []value) value {
	o := &Op{Op: t.kind, Name: t.stored}
	for _, a := range args {
		if a.ctx != nil {
			o.Key, o.Queue = a.ctx.key, a.ctx.queue
			continue
		}
		o.Args = append(o.Args, literalText(a))
	}
	switch method {
	case "ContinueAsNew":
		o.Op = "continue"
		x.emit(o, e.Pos())
		return text("continue " + t.stored)
	case "StartChild":
		if len(o.Args) > 0 {
			o.Args = o.Args[:1] // The other arguments are options.
		}
		x.emit(o, e.Pos())
		return text(x.numbered(t.stored))
	}
	x.emit(o, e.Pos())
	name := x.numbered(t.stored)
	results := 1
	if t.fn.Result != nil {
		results = 2
	}
	if t.kind == "child" {
		x.emit(&Op{Op: "get", Name: name}, e.Pos())
		results = 2 // The results are None and an error.
	}
	return outcome(name, results)
}

// harmless lists packages whose functions do not modify their arguments.
var harmless = map[string]bool{
	"strings": true, "strconv": true, "errors": true, "time": true, "math": true, "path": true, "unicode": true, "unicode/utf8": true, "cmp": true,
	"bytes": true, "regexp": true, "net/url": true, "path/filepath": true,
}

// pure evaluates a call of a function without operations.
func (x *walker) pure(e *ast.CallExpr, f *types.Func, fun value, args []value) value {
	texts := textsOf(args)
	for i, a := range args {
		if a.fn != nil && a.fn.lit != nil && i < len(texts) {
			texts[i] = x.literal(a.fn)
		}
	}
	v := value{text: fun.text + "(" + strings.Join(texts, ", ") + ")"}
	if sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok && x.isRand(sel.X) {
		x.emit(&Op{Op: "draw", Name: v.text}, e.Pos())
		return text(x.numbered("draw"))
	}
	if f != nil && f.Pkg() != nil {
		switch path := f.Pkg().Path(); {
		case path == "fmt" && f.Name() == "Errorf", path == "errors" && f.Name() == "New":
			v.nonNil = true
		case harmless[path], path == "fmt":
		case x.changes(e):
			x.emit(&Op{Op: "do", Text: v.text}, e.Pos())
			x.touch(e, v.text)
		}
	}
	return v
}

// changes reports whether a call may modify a value to which an argument or the receiver refers.
func (x *walker) changes(e *ast.CallExpr) bool {
	for _, a := range e.Args {
		switch x.typeOf(a).Underlying().(type) {
		case *types.Pointer, *types.Slice, *types.Map:
			return true
		}
	}
	sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	s := x.pkg.Info.Selections[sel]
	if s == nil {
		return false
	}
	m, ok := s.Obj().(*types.Func)
	if !ok || m.Signature().Recv() == nil {
		return false
	}
	_, pointer := m.Signature().Recv().Type().(*types.Pointer)
	return pointer
}

func (x *walker) isRand(e ast.Expr) bool {
	return types.TypeString(x.typeOf(e), nil) == "*math/rand/v2.Rand"
}

// literal returns the text of a function literal that is an argument of a computation.
func (x *walker) literal(f *function) string {
	captured := []string{}
	ast.Inspect(f.lit.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if v, known := x.env[f.pkg.Info.ObjectOf(id)]; known && v.ctx == nil {
				captured = append(captured, v.text)
			}
		}
		return true
	})
	return "func " + digest(x.world.canonical(f.pkg, f.lit)) + "(" + strings.Join(captured, ", ") + ")"
}
