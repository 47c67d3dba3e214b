package layers_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

// public contains the packages that users import, and package shim, which generated code imports.
var public = []string{
	"runtime/codec", "runtime/event", "runtime/store", "runtime/store/protocol", "runtime/store/notify", "runtime/store/fsck", "runtime/store/storetest",
	"runtime/workflow", "runtime/workflow/graph", "runtime/schedule", "runtime/ops", "runtime/step", "runtime/step/sqlstep", "runtime/shim", "runtime/worker", "runtime/health", "runtime/health/systemd", "runtime/workflowtest",
	"memstore", "sqlitestore", "redisstore", "admin", "admin/api", "admin/console", "admin/hooks", "admin/httpauth", "admin/remote",
}

// TestSurface_MentionsNoInternalType proves that the public packages mention no type of an internal
// package. Users could not name such a type.
func TestSurface_MentionsNoInternalType(t *testing.T) {
	patterns := make([]string, len(public))
	for i, p := range public {
		patterns[i] = module + "/" + p
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports, Dir: "../..",
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) != len(public) {
		t.Errorf("loaded %d packages, want %d", len(loaded), len(public))
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Errorf("load %s: %v", p.PkgPath, e)
		}
		found, exported := internalMentions(p.Types)
		for _, f := range found {
			t.Error(f)
		}
		t.Logf("%s exports %d identifiers", strings.TrimPrefix(p.PkgPath, module+"/"), exported)
	}
}

// mostInWorkflow is the maximum number of exported names in package workflow, including methods.
// Operations of operators belong in package ops.
const mostInWorkflow = 330

func TestSurface_OfWorkflowStaysSmall(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports, Dir: "../..",
	}, module+"/runtime/workflow")
	if err != nil {
		t.Fatal(err)
	}
	scope, n := loaded[0].Types.Scope(), 0
	for _, name := range scope.Names() {
		o := scope.Lookup(name)
		if !o.Exported() {
			continue
		}
		n++
		if named, ok := o.Type().(*types.Named); ok && named.Obj() == o {
			for m := range named.Methods() {
				if m.Exported() {
					n++
				}
			}
		}
	}
	if n > mostInWorkflow {
		t.Errorf("package workflow exports %d names, want at most %d", n, mostInWorkflow)
	}
}

func TestSurface_NamesWhatMentionsAnInternalType(t *testing.T) {
	const below = `package below
		type Key struct{}
		type Number int`
	const above = `package above
		import "example.com/m/internal/below"
		type Alias = below.Key
		type Open struct { Field map[string]*below.Key; hidden below.Key }
		func (Open) Method(f func(below.Number)) {}
		func (Open) hide(below.Key) {}
		type Face interface { Call() (below.Key, error) }
		type Option func(*below.Key)
		type hidden struct { Field below.Key }
		func Make[T interface{ Do(below.Key) }](T) {}
		func Good(a Alias, h *hidden) (Open, error) { return Open{}, nil }
		func hide(below.Key) {}
		var Value = below.Number(1)
		const Limit below.Number = 2`
	fset, conf := token.NewFileSet(), types.Config{Importer: importer.Default()}
	inner := checked(t, fset, conf, "example.com/m/internal/below", below)
	conf.Importer = only{inner}
	found, exported := internalMentions(checked(t, fset, conf, "example.com/m/above", above))
	var got []string
	for _, f := range found {
		name, _, _ := strings.Cut(f, " ")
		got = append(got, name)
	}
	want := []string{"above.Face.Call", "above.Limit", "above.Make", "above.Open.Field", "above.Open.Method", "above.Option", "above.Value"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if want := 11; exported != want { // eight names in the package, one field and two methods
		t.Errorf("exported identifiers: got %d, want %d", exported, want)
	}
}

type only struct{ p *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.p, nil }

func checked(t *testing.T, fset *token.FileSet, conf types.Config, path, text string) *types.Package {
	t.Helper()
	file, err := parser.ParseFile(fset, path+".go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := conf.Check(path, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// internalMentions returns a line for each exported identifier whose declaration refers to a type
// of an internal package, sorted. A public alias of an internal type is allowed, because users can
// name it. exported is the number of exported identifiers, including fields and methods.
func internalMentions(p *types.Package) (found []string, exported int) {
	check := func(name string, t types.Type) {
		exported++
		if m := mention(t); m != "" {
			found = append(found, fmt.Sprintf("%s.%s mentions %s", p.Name(), name, m))
		}
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		declared, ok := o.(*types.TypeName)
		if !ok {
			check(name, o.Type())
			continue
		}
		if declared.IsAlias() {
			exported++
			continue
		}
		named := o.Type().(*types.Named)
		switch under := named.Underlying().(type) {
		case *types.Struct:
			exported++
			for f := range under.Fields() {
				if f.Exported() {
					check(name+"."+f.Name(), f.Type())
				}
			}
		case *types.Interface:
			exported++
			for m := range under.ExplicitMethods() {
				if m.Exported() {
					check(name+"."+m.Name(), m.Type())
				}
			}
		default:
			check(name, under)
		}
		for m := range named.Methods() {
			if m.Exported() {
				check(name+"."+m.Name(), m.Type())
			}
		}
	}
	slices.Sort(found)
	return found, exported
}

// mention returns the first internal type in t, or "" if there is none.
func mention(t types.Type) string {
	switch t := t.(type) {
	case *types.Alias:
		if m := internalName(t.Obj()); m != "" {
			return m
		}
		return mentionOf(t.TypeArgs())
	case *types.Named:
		if m := internalName(t.Obj()); m != "" {
			return m
		}
		return mentionOf(t.TypeArgs())
	case *types.Signature:
		for p := range t.TypeParams().TypeParams() {
			if m := mention(p.Constraint()); m != "" {
				return m
			}
		}
		return first(mention(t.Params()), mention(t.Results()))
	case *types.Tuple:
		for v := range t.Variables() {
			if m := mention(v.Type()); m != "" {
				return m
			}
		}
	case *types.Map:
		return first(mention(t.Key()), mention(t.Elem()))
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel
		return mention(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if m := mention(f.Type()); m != "" {
				return m
			}
		}
	case *types.Interface:
		for f := range t.Methods() {
			if m := mention(f.Type()); m != "" {
				return m
			}
		}
	}
	return ""
}

func mentionOf(args *types.TypeList) string {
	for t := range args.Types() {
		if m := mention(t); m != "" {
			return m
		}
	}
	return ""
}

func internalName(o *types.TypeName) string {
	if o.Pkg() == nil || !strings.Contains("/"+o.Pkg().Path()+"/", "/internal/") {
		return ""
	}
	return o.Pkg().Path() + "." + o.Name()
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
