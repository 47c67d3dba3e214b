package manifest

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
)

// hashOf returns a hash of the body of f and of the bodies of all functions that it calls. f is a
// function of the module that contains no operations.
func (w *World) hashOf(f *types.Func) string { return w.hashNamed(f.Origin().FullName()) }

func (w *World) hashNamed(full string) string {
	if h, known := w.hashes[full]; known {
		return h
	}
	if name, isVar := strings.CutPrefix(full, "var "); isVar {
		w.hashes[full] = w.shown(full) // The name is the preliminary hash of a variable that refers to itself.
		h := w.shown(full)
		if init, ok := w.inits[name]; ok {
			h = digest(w.canonical(init.pkg, init.expr))
		}
		w.hashes[full] = h
		return h
	}
	b, ok := w.bodies[full]
	if !ok {
		return full
	}
	w.hashes[full] = "again"
	h := digest(w.canonical(b.pkg, b.decl.Type) + w.canonical(b.pkg, b.decl.Body))
	w.hashes[full] = h
	return h
}

// canonical returns the text of a part of the source without irrelevant details. It omits
// positions, comments, names of variables and functions, and log calls.
func (w *World) canonical(p *load.Package, n ast.Node) string {
	c := canonizer{world: w, pkg: p, locals: map[types.Object]int{}}
	c.node(n)
	return c.text.String()
}

type canonizer struct {
	world  *World
	pkg    *load.Package
	locals map[types.Object]int
	text   strings.Builder
}

func (c *canonizer) node(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil:
			c.text.WriteByte(')')
		case *ast.CommentGroup, *ast.Comment:
			return false
		case *ast.Ident:
			c.ident(n)
			return false
		case *ast.BasicLit:
			c.text.WriteString(n.Value + " ")
			return false
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok && logs(c.pkg.Info, call) {
				return false
			}
			c.open(n)
		case ast.Expr:
			if tv := c.pkg.Info.Types[n]; tv.Value != nil {
				c.text.WriteString(tv.Value.ExactString() + " ")
				return false
			}
			c.open(n)
		default:
			c.open(n)
		}
		return true
	})
}

// open writes the kind and the operators of a node.
func (c *canonizer) open(n ast.Node) {
	fmt.Fprintf(&c.text, "(%s", strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast."))
	switch n := n.(type) {
	case *ast.BinaryExpr:
		c.text.WriteString(n.Op.String())
	case *ast.UnaryExpr:
		c.text.WriteString(n.Op.String())
	case *ast.AssignStmt:
		c.text.WriteString(n.Tok.String())
	case *ast.IncDecStmt:
		c.text.WriteString(n.Tok.String())
	case *ast.BranchStmt:
		c.text.WriteString(n.Tok.String())
	}
	c.text.WriteByte(' ')
}

func (c *canonizer) ident(id *ast.Ident) {
	out := id.Name
	switch obj := c.pkg.Info.ObjectOf(id).(type) {
	case *types.Var:
		switch {
		case obj.IsField():
		case obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope():
			out = c.world.hashNamed("var " + obj.Pkg().Path() + "." + obj.Name())
		default:
			if c.locals[obj] == 0 {
				c.locals[obj] = len(c.locals) + 1
			}
			out = fmt.Sprint("v", c.locals[obj])
		}
	case *types.Func:
		full := obj.Origin().FullName()
		if _, ok := c.world.bodies[full]; ok {
			out = c.world.hashNamed(full)
		} else if obj.Pkg() != nil {
			out = full
		}
	case *types.TypeName:
		out = types.TypeString(obj.Type(), qualifier)
	}
	c.text.WriteString(out + " ")
}

// logs reports whether a call writes a log line. Such a call does not influence operations.
func logs(info *types.Info, call *ast.CallExpr) bool {
	f := calleeOf(info, call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() {
	case "log", "log/slog":
		return f.Name() != "Fatal" && f.Name() != "Fatalf" && f.Name() != "Panic" && f.Name() != "Panicf"
	case "fmt":
		return strings.HasPrefix(f.Name(), "Print") || strings.HasPrefix(f.Name(), "Fprint")
	}
	return false
}

func (x *walker) logs(call *ast.CallExpr) bool { return logs(x.pkg.Info, call) }

// calleeOf returns the function that a call names, or nil if the function is not known statically.
func calleeOf(info *types.Info, call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return nil
	}
	f, _ := info.Uses[id].(*types.Func)
	return f
}

// contextOf returns "workflow" if t is a workflow.Context, otherwise "".
func contextOf(t types.Type) string {
	named, ok := types.Unalias(t).(*types.Named)
	if ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == workflowPath && named.Obj().Name() == "Context" {
		return "workflow"
	}
	return ""
}

// shown returns ops with readable short names, as the manifest file contains them.
func (x *walker) shown(ops []*Op) []*Op {
	return rewritten(ops, func(s string) string { return unmark(s, nameMark, x.world.shown) })
}

// unnamed returns ops without the names of functions and variables, because renaming must not
// change a hash.
func unnamed(ops []*Op) []*Op {
	return rewritten(ops, func(s string) string { return unmark(s, nameMark, func(string) string { return "" }) })
}

// hashed returns ops in which hashes replace the names of functions and variables.
func (x *walker) hashed(ops []*Op) []*Op {
	return rewritten(ops, func(s string) string { return unmark(s, nameMark, x.world.hashNamed) })
}

// decides returns the hashes of the functions and variables that ops mention, by their names in the
// manifest file.
func (x *walker) decides(ops []*Op) map[string]string {
	all := map[string]string{}
	rewritten(ops, func(s string) string {
		return unmark(s, nameMark, func(full string) string {
			if h := x.world.hashNamed(full); h != full {
				all[x.world.shown(full)] = h
			}
			return ""
		})
	})
	return all
}

// rewritten returns a copy of ops in which all texts were replaced by means of by.
func rewritten(ops []*Op, by func(string) string) []*Op {
	out := make([]*Op, len(ops))
	for i, o := range ops {
		c := *o
		c.Name, c.Key, c.Queue, c.Text, c.Limit, c.Least = by(o.Name), by(o.Key), by(o.Queue), by(o.Text), by(o.Limit), by(o.Least)
		c.Args = make([]string, len(o.Args))
		for j, a := range o.Args {
			c.Args[j] = by(a)
		}
		c.Body, c.Else, c.Ways = rewritten(o.Body, by), rewritten(o.Else, by), nil
		for _, w := range o.Ways {
			c.Ways = append(c.Ways, rewritten(w, by))
		}
		out[i] = &c
	}
	return out
}

// sliced removes variables on which nothing depends, and ops that are empty without them.
func sliced(ops []*Op) []*Op {
	for {
		used := map[string]bool{}
		Walk(ops, func(o *Op) {
			for _, s := range append([]string{o.Key, o.Queue, o.Text, o.Limit, o.Least}, o.Args...) {
				parts := strings.Split(s, varMark)
				for i := 1; i < len(parts); i += 2 {
					if name := varMark + parts[i] + varMark; o.Op != "let" || o.Name != name {
						used[name] = true
					}
				}
			}
		})
		out, dropped := drop(ops, used)
		if ops = out; !dropped {
			return ops
		}
	}
}

func drop(ops []*Op, used map[string]bool) (out []*Op, dropped bool) {
	for _, o := range ops {
		if o.Op == "let" && !used[o.Name] {
			dropped = true
			continue
		}
		blocks := len(o.Body) + len(o.Else)
		var inner bool
		for _, b := range []*[]*Op{&o.Body, &o.Else} {
			*b, inner = drop(*b, used)
			dropped = dropped || inner
		}
		for i := range o.Ways {
			o.Ways[i], inner = drop(o.Ways[i], used)
			dropped = dropped || inner
		}
		if blocks > 0 && len(o.Body)+len(o.Else) == 0 && !carries([]*Op{o}) {
			dropped = true
			continue
		}
		out = append(out, o)
	}
	return out, dropped
}

// renumbered numbers the variables in the order in which ops mention them.
func renumbered(ops []*Op) []*Op {
	numbers := map[string]string{}
	return rewritten(ops, func(s string) string {
		return unmark(s, varMark, func(old string) string {
			if numbers[old] == "" {
				numbers[old] = fmt.Sprint("x", len(numbers)+1)
			}
			return numbers[old]
		})
	})
}
