package load_test

import (
	"fmt"
	"go/types"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

// one loads a golden package of the generator.
func one(t *testing.T, name string) (*load.Set, *load.Package) {
	t.Helper()
	set, err := load.Load(t.Context(), filepath.Join("..", "..", "generated", name), []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Packages) != 1 {
		t.Fatalf("loaded %d packages, want one", len(set.Packages))
	}
	return set, set.Packages[0]
}

// The test proves that dependencies are loaded from export data. If they were parsed, the generator
// would be slower by an order of magnitude.
func TestGEN6_ReadsNoSyntaxOfDependencies(t *testing.T) {
	set, p := one(t, "payloads")
	if !imports(p.Types, "net/netip") || !imports(p.Types, "github.com/flowgen/flowgen/runtime/workflow") {
		t.Fatalf("package %s lost the dependencies that this test is about", p.Path)
	}
	var got []string
	for _, path := range set.Parsed {
		if filepath.Dir(path) != p.Dir {
			t.Errorf("the syntax of %s was read", path)
		}
		got = append(got, filepath.Base(path))
	}
	if d := cmp.Diff([]string{"flow_gen.go", "payloads.go"}, got); d != "" {
		t.Errorf("files read (-want +got):\n%s", d)
	}
}

// The test proves that a changed package is only type-checked by the loader, and not compiled by
// the go command.
func TestGEN6_AChangedPackageIsNotCompiled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tool that counts is a shell script")
	}
	const text = "package a\n\nimport \"fmt\"\n\nfunc A() { fmt.Println(1) }\n"
	dir := usermodule.New(t, map[string]string{"a/a.go": text})
	load := func() *load.Package {
		t.Helper()
		set, err := load.Load(t.Context(), dir, []string{"./..."})
		if err != nil {
			t.Fatal(err)
		}
		return set.Packages[0]
	}
	load()
	log := filepath.Join(t.TempDir(), "log")
	tool := filepath.Join(t.TempDir(), "tool")
	script := "#!/bin/sh\ncase \"$*\" in *-V=full*) ;; *) echo \"$@\" >> " + log + " ;; esac\nexec \"$@\"\n"
	if err := os.WriteFile(tool, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	usermodule.Write(t, dir, "a/a.go", strings.Replace(text, "Println(1) }", "Println(2) }\n\nfunc B() {}", 1))
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -toolexec="+tool)
	if p := load(); p.Types.Scope().Lookup("B") == nil || len(p.TypeErrors(0, math.MaxInt)) > 0 {
		t.Errorf("the package declares %v, with mistakes %v; want what the file has now", p.Types.Scope().Names(), p.TypeErrors(0, math.MaxInt))
	}
	if compiled, err := os.ReadFile(log); err == nil {
		t.Errorf("the go command compiled after the change:\n%s", compiled)
	}
}

// The test proves that a package in the import chain between two loaded packages is compiled with
// its imports.
func TestGEN6_PackagesBetweenThoseThatAreReadAreCompiledAsTheyAre(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"money/money.go":   "package money\n\ntype Cents int\n",
		"pay/pay.go":       "package pay\n\nimport \"example.com/user/money\"\n\nvar Price money.Cents\n",
		"orders/orders.go": "package orders\n\nimport \"example.com/user/pay\"\n\nvar Total = pay.Price + 1\n",
	})
	set, err := load.Load(t.Context(), dir, []string{"./money", "./orders"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Packages {
		if ds := append(p.Diagnostics(), p.TypeErrors(0, math.MaxInt)...); len(ds) > 0 {
			t.Errorf("package %s: %v", p.Path, ds)
		}
	}
}

// The test proves that overlay files are read instead of the files on disk, and that dependencies
// still come from export data.
func TestGEN6_ReadsNoSyntaxOfDependenciesUnderAnOverlay(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"a/a.go": "package a\n\nvar New int\n"})
	file := filepath.Join(dir, "a", "a.go")
	const old = "package a\n\nimport \"github.com/flowgen/flowgen/runtime/workflow\"\n\n//flow:workflow\nfunc old(ctx workflow.Context) error { return nil }\n"
	set, _, err := load.Module(t.Context(), dir, []string{"./..."}, map[string][]byte{file: []byte(old)})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{file}, set.Parsed); d != "" {
		t.Errorf("files read (-want +got):\n%s", d)
	}
	p := set.Packages[0]
	if ds := p.TypeErrors(0, math.MaxInt); p.Types.Scope().Lookup("old") == nil || p.Types.Scope().Lookup("New") != nil || len(ds) > 0 {
		t.Errorf("the package declares %v, with mistakes %v; want what the overlay does", p.Types.Scope().Names(), ds)
	}
}

// The test proves that Compiles does not run the go command if the imports of a text were loaded
// with the package.
func TestGEN6_CompilesWithWhatWasRead(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"a/a.go": "package a\n\nimport \"time\"\n\n// A lasts.\nvar A time.Duration\n"})
	set, err := load.Load(t.Context(), dir, []string{"./a"})
	if err != nil || len(set.Packages) != 1 {
		t.Fatalf("load: %v, %v", set, err)
	}
	path, compiles := filepath.Join(dir, "b", "b.go"), "package b\n\nimport \"time\"\n\nvar B time.Duration = 1\n"
	t.Setenv("PATH", "")
	if err := load.Compiles(t.Context(), set.Packages[0], path, []byte(compiles)); err != nil {
		t.Errorf("without a go command: %v", err)
	}
	if err := load.Compiles(t.Context(), set.Packages[0], path, []byte(strings.Replace(compiles, "= 1", "= true", 1))); err == nil {
		t.Error("a text with a mistake compiles")
	}
}

func imports(p *types.Package, path string) bool {
	for _, imported := range p.Imports() {
		if imported.Path() == path {
			return true
		}
	}
	return false
}

// The test proves that the declarations of a missing flow_gen.go exist with the correct types.
func TestLoad_DeclaresWhatWillBeGenerated(t *testing.T) {
	_, p := one(t, "workflows")
	qualifier := func(pkg *types.Package) string {
		if pkg == p.Types {
			return ""
		}
		return pkg.Name()
	}
	for name, want := range map[string]string{
		"Fulfil":        "var Fulfil workflow.Definition[Order, time.Time]",
		"Nightly":       "var Nightly workflow.Definition[workflow.None, workflow.None]",
		"Transfer":      "var Transfer workflow.Definition[TransferInput, int64]",
		"TransferInput": "type TransferInput struct{From string; To string; Cents int64; Cents2 bool; In Order}",
	} {
		obj := p.Types.Scope().Lookup(name)
		if obj == nil {
			t.Errorf("%s is not declared", name)
			continue
		}
		if got := types.ObjectString(obj, qualifier); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := p.TypeErrors(0, 1<<40); len(got) > 0 {
		t.Errorf("the package has type errors: %v", got)
	}
}

// The test proves that positions in the user's text do not change, and that all later text counts
// as appended.
func TestLoad_KeepsPositions(t *testing.T) {
	_, p := one(t, "workflows")
	if len(p.Files) != 2 || filepath.Base(p.Files[1].Path) != "workflows.go" {
		t.Fatalf("there are %d files, want schedules.go and workflows.go", len(p.Files))
	}
	f := p.Files[1]
	order := p.Position(p.Types.Scope().Lookup("Order").Pos())
	if order.Line != 12 || !strings.HasSuffix(order.Filename, "workflows.go") {
		t.Errorf("Order is at %v, want line 12 of workflows.go", order)
	}
	if pos := p.Types.Scope().Lookup("Fulfil").Pos(); pos <= f.End {
		t.Errorf("Fulfil is at %d, within the user's text that ends at %d", pos, f.End)
	}
}

func TestLoad_TellsWhyAFileIsNotCompiled(t *testing.T) {
	set, err := load.Load(t.Context(), filepath.Join("..", "generator", "testdata", "mistakes"), []string{"./constrained", "./cgo"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]load.Reason)
	for _, p := range set.Packages {
		for _, f := range append(p.Files, p.Others...) {
			got[filepath.Base(p.Dir)+"/"+filepath.Base(f.Path)] = f.Why
		}
	}
	want := map[string]load.Reason{
		"cgo/x.go":                 load.Cgo,
		"cgo/other.go":             load.Compiled,
		"constrained/a_windows.go": load.Constrained,
		"constrained/b.go":         load.Constrained,
		"constrained/c.go":         load.Constrained,
		"constrained/d.go":         load.Compiled,
		"constrained/e_test.go":    load.Test,
		"constrained/f_test.go":    load.Test,
		"constrained/g.go":         load.Constrained,
		"constrained/x.go":         load.Compiled,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
}

// The test proves that Compiles returns the same result from export data as from source.
func TestGEN5_CompilesSaysWhatTheCompilerWould(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"orders/orders.go": "package orders\n\nimport \"github.com/flowgen/flowgen/runtime/workflow\"\n\n//flow:workflow\nfunc fulfil(ctx workflow.Context, id string) error { return nil }\n",
		"kinds/kinds.go":   "package kinds\n\n// Kind is one.\ntype Kind string\n",
		"cycle/cycle.go":   "package cycle\n\nimport _ \"example.com/user/orders/client\"\n",
	})
	set, err := load.Load(t.Context(), dir, []string{"./orders"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"nothing imported":             {"var A = 1", ""},
		"the standard library":         {"import \"time\"\n\nvar A time.Duration = time.Second", ""},
		"a dependency":                 {"import \"github.com/flowgen/flowgen/runtime/workflow\"\n\nvar A workflow.RunID", ""},
		"its own module":               {"import \"example.com/user/kinds\"\n\nvar A kinds.Kind = \"a\"", ""},
		"something undefined":          {"import \"time\"\n\nvar A = time.Secnd", "undefined: time.Secnd"},
		"another type":                 {"var A int = \"a\"", "cannot use \"a\""},
		"an import that is unused":     {"import \"time\"", "imported and not used"},
		"an import of nothing":         {"import \"example.com/nobody\"\n\nvar _ = nobody.A", "example.com/nobody"},
		"an import of what imports it": {"import _ \"example.com/user/cycle\"", "import cycle"},
		"no Go":                        {"var var", "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			err := load.Compiles(t.Context(), set.Packages[0], filepath.Join(dir, "orders", "client", "client.go"), []byte("package client\n\n"+tt.text+"\n"))
			if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(got, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
