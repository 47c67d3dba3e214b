package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

const (
	modulePath   = "github.com/flowgen/flowgen"
	workflowPath = modulePath + "/runtime/workflow"
	graphPath    = workflowPath + "/graph"
	shimPath     = modulePath + "/runtime/shim"
	stepPath     = modulePath + "/runtime/step"
)

// isEngine reports whether a package is part of the runtime. Such packages are not analyzed,
// because their effects in workflow code are durable or harmless.
func isEngine(path string) bool {
	path, _, _ = strings.Cut(path, " [") // Remove the suffix of a package variant for tests.
	rest, ok := strings.CutPrefix(path, modulePath+"/runtime/")
	return ok && !strings.HasPrefix(rest, "promises/")
}

// isFrom reports whether obj is one of the named package-level objects of the package at path.
func isFrom(obj types.Object, path string, names ...string) bool {
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == path && slices.Contains(names, obj.Name())
}

// isNamed reports whether t is the named type path.name. A pointer to it does not count.
func isNamed(t types.Type, path string, names ...string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && isFrom(named.Obj(), path, names...)
}

func isFlowContext(t types.Type) bool { return isNamed(t, workflowPath, "Context") }

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

// takes returns the first parameter whose type satisfies is, or nil if there is none.
func takes(sig *types.Signature, is func(types.Type) bool) *types.Var {
	for v := range sig.Params().Variables() {
		if is(v.Type()) {
			return v
		}
	}
	return nil
}

// methodOf returns the name of the receiver type of fn. It returns "" unless fn is a method in the
// package at path.
func methodOf(fn *types.Func, path string) string {
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != path || fn.Signature().Recv() == nil {
		return ""
	}
	return typeName(fn.Signature().Recv().Type())
}

// isFunc reports whether fn is one of the named functions of the package at path.
func isFunc(fn *types.Func, path string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() == nil && isFrom(fn, path, names...)
}

// isMethod reports whether fn is one of the named methods of type t in the package at path.
func isMethod(fn *types.Func, path, t string, names ...string) bool {
	return methodOf(fn, path) == t && slices.Contains(names, fn.Name())
}

// callee returns the function or interface method that a call names, or nil.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(info, call).(*types.Func)
	return fn
}

// mentioned returns the function or method that an expression names, or nil.
func mentioned(info *types.Info, e ast.Expr) *types.Func {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		fn, _ := info.Uses[e].(*types.Func)
		return origin(fn)
	case *ast.SelectorExpr:
		fn, _ := info.Uses[e.Sel].(*types.Func)
		return origin(fn)
	case *ast.IndexExpr:
		return mentioned(info, e.X)
	case *ast.IndexListExpr:
		return mentioned(info, e.X)
	}
	return nil
}

func origin(fn *types.Func) *types.Func {
	if fn == nil {
		return nil
	}
	return fn.Origin()
}

// rootVar returns the variable x of the expression x, x.f, x[i] or *x, or nil.
func rootVar(info *types.Info, e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, _ := info.ObjectOf(x).(*types.Var)
			return v
		case *ast.SelectorExpr:
			if v, isVar := info.Uses[x.Sel].(*types.Var); isVar && !v.IsField() {
				return v // The variable belongs to another package.
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isPackageVar reports whether v is a package-level variable.
func isPackageVar(v *types.Var) bool {
	return v != nil && !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}

func isTestFile(fset *token.FileSet, f *ast.File) bool {
	return strings.HasSuffix(fset.File(f.FileStart).Name(), "_test.go")
}

// at returns a position in the form used in reports.
func at(fset *token.FileSet, pos token.Pos) string {
	p := fset.Position(pos)
	p.Filename = filepath.Base(p.Filename)
	p.Column = 0
	return p.String()
}

// isErrorType reports whether t is error.
func isErrorType(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// isMap reports whether t is a map or a type parameter whose terms are all maps.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	return eachTerm(t, func(t types.Type) bool {
		_, ok := t.Underlying().(*types.Map)
		return ok
	})
}

// eachTerm reports whether is(t) is true. For a type parameter, it reports whether is is true for
// each term of its constraint.
func eachTerm(t types.Type, is func(types.Type) bool) bool {
	p, isParam := types.Unalias(t).(*types.TypeParam)
	if !isParam {
		return is(t)
	}
	iface, ok := p.Constraint().Underlying().(*types.Interface)
	if !ok || iface.NumEmbeddeds() != 1 {
		return false
	}
	union, ok := iface.EmbeddedType(0).(*types.Union)
	if !ok {
		return is(iface.EmbeddedType(0))
	}
	for term := range union.Terms() {
		if !is(term.Type()) {
			return false
		}
	}
	return union.Len() > 0
}

func isChan(t types.Type) bool {
	if t == nil {
		return false
	}
	return eachTerm(t, func(t types.Type) bool {
		_, ok := t.Underlying().(*types.Chan)
		return ok
	})
}
