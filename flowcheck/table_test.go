package flowcheck

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "write testdata/standard.txt")

// standardPackages returns the packages of the standard library that users can import.
func standardPackages(t *testing.T) []*packages.Package {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "std").Output()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for path := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(path, "vendor/") && !slices.Contains(strings.Split(path, "/"), "internal") {
			paths = append(paths, path)
		}
	}
	// Parse only declarations, because type-checking all function bodies takes a minute.
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		Env:  append(os.Environ(), "CGO_ENABLED=0"), ParseFile: declarations,
	}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// declarations parses a file and removes the bodies of its functions.
func declarations(fset *token.FileSet, path string, src []byte) (*ast.File, error) {
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if file != nil {
		for _, d := range file.Decls {
			if f, isFunc := d.(*ast.FuncDecl); isFunc {
				f.Body = nil
			}
		}
	}
	return file, err
}

// exported returns the functions, methods and variables to which users can refer, by their keys in
// a table.
func exported(pkg *types.Package) map[string]types.Object {
	found := make(map[string]types.Object)
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Func, *types.Var:
			found[name] = obj
		case *types.TypeName:
			named, isNamed := obj.Type().(*types.Named)
			if !isNamed || obj.IsAlias() {
				continue
			}
			for m := range named.Methods() {
				if m.Exported() {
					found["("+name+")."+m.Name()] = m
				}
			}
			if iface, isInterface := named.Underlying().(*types.Interface); isInterface {
				for m := range iface.ExplicitMethods() {
					if m.Exported() {
						found["("+name+")."+m.Name()] = m
					}
				}
			}
		}
	}
	return found
}

// standardFile is a golden file. It contains the classification of each function, except in
// packages whose functions are all pure. After an update to a new release of Go, the difference
// shows the functions to classify.
const standardFile = "testdata/standard.txt"

func TestGEN4_TheTableDecidesAboutTheWholeStandardLibrary(t *testing.T) {
	var lines []string
	used := make(map[string]bool)
	for _, p := range standardPackages(t) {
		if !standard().has(p.PkgPath) {
			t.Errorf("package %s is new: give it a row in rows.go", p.PkgPath)
			continue
		}
		used[p.PkgPath+".*"] = true
		api := exported(p.Types)
		by := make(map[Rule][]string)
		for name, obj := range api {
			rule := standard().rule(obj)
			if _, isVar := obj.(*types.Var); isVar && rule == "" {
				continue
			}
			by[rule] = append(by[rule], name)
			used[p.PkgPath+"."+name] = true
			if of, _, isMethod := strings.Cut(name, ")."); isMethod {
				used[p.PkgPath+"."+of+").*"] = true
			}
		}
		if len(by) == 1 && by[pure] != nil {
			lines = append(lines, p.PkgPath+" pure")
			continue
		}
		for rule, names := range by {
			slices.Sort(names)
			lines = append(lines, fmt.Sprintf("%s %s %s", p.PkgPath, rule, strings.Join(names, " ")))
		}
	}
	for key := range standard().rows {
		if !used[key] && key != "unsafe.*" {
			t.Errorf("the row of %s is about nothing that there is", key)
		}
	}
	slices.Sort(lines)
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(standardFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(standardFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("the standard library has changed: decide in rows.go, then run go test ./flowcheck -run Table -update (-decided +found):\n%s", diff)
	}
}

func TestTable_TheMostSpecialRowHolds(t *testing.T) {
	table, err := parseTable("net io\nnet pure ParseIP (IP).*\nnet log (IP).String\n")
	if err != nil {
		t.Fatal(err)
	}
	pkg := types.NewPackage("net", "net")
	ip := types.NewNamed(types.NewTypeName(0, pkg, "IP", nil), types.Typ[types.String], nil)
	fn := func(name string, recv types.Type) *types.Func {
		var v *types.Var
		if recv != nil {
			v = types.NewVar(0, pkg, "", recv)
		}
		return types.NewFunc(0, pkg, name, types.NewSignatureType(v, nil, nil, nil, nil, false))
	}
	got := []Rule{
		table.rule(fn("Dial", nil)), table.rule(fn("ParseIP", nil)), table.rule(fn("Equal", ip)),
		table.rule(fn("String", types.NewPointer(ip))), table.rule(types.NewVar(0, pkg, "IPv4zero", ip)),
	}
	if diff := cmp.Diff([]Rule{"io", pure, pure, "log", ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseTable_RefusesWhatIsWrong(t *testing.T) {
	for _, rows := range []string{"net\n", "net clocks Dial\n", "net io Dial\nnet pure Dial\n"} {
		if _, err := parseTable(rows); err == nil {
			t.Errorf("the rows %q are taken", rows)
		}
	}
}

func TestDurable_EveryOperationIsDecided(t *testing.T) {
	list, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile}, workflowPath, graphPath)
	if err != nil {
		t.Fatal(err)
	}
	found, all := make(map[string]bool), make(map[string]types.Object)
	for _, p := range list {
		for _, e := range p.Errors {
			t.Errorf("load %s: %v", p.PkgPath, e)
		}
		maps.Copy(all, exported(p.Types))
	}
	for name, obj := range all {
		fn, isFunc := obj.(*types.Func)
		if !isFunc || takes(fn.Signature(), isFlowContext) == nil && !(fn.Signature().Recv() != nil && isFlowContext(fn.Signature().Recv().Type())) {
			continue
		}
		found[name] = true
		if !slices.Contains(durableOps, name) && !slices.Contains(otherOps, name) {
			t.Errorf("%s is new: is it durable? Put it into durable.go", name)
		}
	}
	for _, name := range append(slices.Clone(durableOps), otherOps...) {
		if !found[name] {
			t.Errorf("there is no function %s", name)
		}
	}
}
