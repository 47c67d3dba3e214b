package layers_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

// TestWiring_UsesNoFunctionVariables proves that packages call each other's functions directly. A
// function variable that another package sets hides the caller from the reader of the function, and
// the function from the reader of the call.
func TestWiring_UsesNoFunctionVariables(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedExportFile | packages.NeedImports, Dir: "../..",
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Errorf("load %s: %v", p.PkgPath, e)
		}
		name, _ := local(p.PkgPath)
		seen[name] = true
		for _, v := range functionVariables(p.Fset, p.Types, p.Syntax, p.TypesInfo) {
			t.Error(v)
		}
	}
	for _, name := range []string{"runtime/internal/flow", "runtime/workflow", "runtime/worker", "memstore", "admin"} {
		if !seen[name] {
			t.Errorf("package %s was not looked at", name)
		}
	}
}

func TestWiring_NamesEachFunctionVariable(t *testing.T) {
	const low, high = module + "/runtime/internal/low", module + "/high"
	fset := token.NewFileSet()
	imports := map[string]*types.Package{}
	find := func(path, text string) []string {
		t.Helper()
		file, err := parser.ParseFile(fset, path+".go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		conf := types.Config{Importer: known(imports)}
		p, err := conf.Check(path, fset, []*ast.File{file}, info)
		if err != nil {
			t.Fatal(err)
		}
		imports[path] = p
		return functionVariables(fset, p, []*ast.File{file}, info)
	}
	got := find(low, `package low
		type Call func()
		var Hidden Call
		var Value any
		var Limit int
		var Table = map[string]func(){}
		var set func(int)
		func init() { Limit = 1; set = func(int) {} }
		func use() { set = nil; Hidden() }`)
	got = append(got, find(high, `package high
		import (
			"flag"
			"`+low+`"
		)
		var Exported func()
		func init() {
			low.Hidden = func() {}
			low.Value, low.Limit = func() {}, 2
			low.Table["x"] = func() {}
		}
		func use() { low.Limit++; p := &low.Hidden; *p = nil; flag.Usage = use; low.Hidden() }`)...)
	want := []string{
		"runtime/internal/low/low.go:3: exports the function variable Hidden",
		"runtime/internal/low/low.go:8: init sets the function variable set",
		"high/high.go:8: sets the variable Hidden of package runtime/internal/low",
		"high/high.go:9: sets the variable Value of package runtime/internal/low",
		"high/high.go:9: sets the variable Limit of package runtime/internal/low",
		"high/high.go:12: sets the variable Limit of package runtime/internal/low",
		"high/high.go:12: sets the variable Hidden of package runtime/internal/low",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// known imports packages that were checked before, and packages of the standard library.
type known map[string]*types.Package

func (k known) Import(path string) (*types.Package, error) {
	if p := k[path]; p != nil {
		return p, nil
	}
	return importer.Default().Import(path)
}

// functionVariables returns a line for each function variable that a shipped package below
// runtime/internal exports, for each function variable that an init function sets, and for each
// variable of another package of this module that the package sets or takes the address of.
func functionVariables(fset *token.FileSet, p *types.Package, files []*ast.File, info *types.Info) (found []string) {
	path, _ := local(p.Path())
	report := func(at token.Pos, format string, args ...any) {
		line := fset.Position(at)
		found = append(found, fmt.Sprintf("%s/%s:%d: %s", path, filepath.Base(line.Filename), line.Line, fmt.Sprintf(format, args...)))
	}
	if r, _ := ruleOf(path); matches("runtime/internal/...", path) && !r.helper {
		for _, name := range p.Scope().Names() {
			if v, ok := p.Scope().Lookup(name).(*types.Var); ok && v.Exported() && isFunction(v) {
				report(v.Pos(), "exports the function variable %s", name)
			}
		}
	}
	set := func(e ast.Expr, inInit bool) {
		v := packageVariable(e, info)
		if v == nil {
			return
		}
		other, ours := local(v.Pkg().Path())
		switch {
		case v.Pkg() != p && ours:
			report(e.Pos(), "sets the variable %s of package %s", v.Name(), other)
		case v.Pkg() == p && inInit && isFunction(v):
			report(e.Pos(), "init sets the function variable %s", v.Name())
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			inInit := ok && fn.Recv == nil && fn.Name.Name == "init"
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, e := range n.Lhs {
						set(e, inInit)
					}
				case *ast.IncDecStmt:
					set(n.X, inInit)
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						set(n.X, inInit)
					}
				}
				return true
			})
		}
	}
	return found
}

func isFunction(v *types.Var) bool {
	_, is := v.Type().Underlying().(*types.Signature)
	return is
}

// packageVariable returns the package variable that e denotes, or nil.
func packageVariable(e ast.Expr, info *types.Info) *types.Var {
	e = ast.Unparen(e)
	if s, ok := e.(*ast.SelectorExpr); ok {
		e = s.Sel
	}
	name, ok := e.(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := info.Uses[name].(*types.Var)
	if !ok || v.Pkg() == nil || v.Parent() != v.Pkg().Scope() {
		return nil
	}
	return v
}
