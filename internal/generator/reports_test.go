package generator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

// anotherMistake is a package with one diagnostic.
var anotherMistake = strings.Replace(strings.Replace(orders, "package orders", "package shop", 1), "//flow:step", "//flow:step retries=x", 1)

// wants checks that the report has one diagnostic with each of the given prefixes.
func wants(t *testing.T, report *generator.Report, want ...string) {
	t.Helper()
	if len(report.Diagnostics) != len(want) {
		t.Fatalf("diagnostics are %v, want %d", report.Diagnostics, len(want))
	}
	for i, d := range report.Diagnostics {
		if !strings.HasPrefix(d.String(), want[i]) {
			t.Errorf("diagnostic %d is %q, want %q…", i, d, want[i])
		}
	}
}

func TestRun_AFileThatCannotBeWrittenHidesNothing(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"orders/orders.go": orders, "shop/shop.go": anotherMistake,
		"zoo/zoo.go": strings.Replace(orders, "package orders", "package zoo", 1),
	})
	// The file name is so long that a temporary file cannot have an additional suffix.
	long := filepath.Join(dir, strings.Repeat("x", 250))
	if err := os.WriteFile(long, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(long, filepath.Join(dir, "orders", "flow_gen.go")); err != nil {
		t.Fatal(err)
	}
	report := run(t, dir)
	wants(t, report, "orders/flow_gen.go: the file cannot be written: ", "shop/shop.go:12:21: retries=x")
	if d := cmp.Diff([]generator.Change{{File: "zoo/flow_gen.go", Action: generator.Wrote}}, report.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestRun_AFileThatCannotBeReadHidesNothing(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "orders/flow_gen.go/file": "", "shop/shop.go": anotherMistake})
	report := run(t, dir)
	wants(t, report, "orders: the package cannot be read: read generated file: ", "shop/shop.go:12:21: retries=x")
}

// dependency writes a module with an annotated package for which no code was generated.
func dependency(t *testing.T, dir, at string) {
	t.Helper()
	usermodule.Write(t, dir, at+"/go.mod", strings.Replace(read(t, dir, "go.mod"), "module example.com/user", "module example.com/dep", 1))
	usermodule.Write(t, dir, at+"/orders/orders.go", orders)
}

func TestRun_WritesToNoOtherModule(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"use/use.go": "package use\n\nimport _ \"example.com/dep/orders\"\n"})
	dependency(t, dir, "dep")
	usermodule.Write(t, dir, "go.mod", read(t, dir, "go.mod")+"\nrequire example.com/dep v0.0.0\n\nreplace example.com/dep => ./dep\n")
	for _, pattern := range []string{"example.com/dep/...", "example.com/dep/orders"} {
		report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{pattern}})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, report, "dep/orders: package example.com/dep/orders is part of module example.com/dep")
	}
	if _, err := os.Stat(filepath.Join(dir, "dep", "orders", "flow_gen.go")); !os.IsNotExist(err) {
		t.Errorf("flow_gen.go was written into the other module (%v)", err)
	}
}

func TestRun_WritesToNoVendorDirectory(t *testing.T) {
	dir := t.TempDir()
	usermodule.Write(t, dir, "go.mod", "module example.com/user\n\ngo 1.26\n\nrequire example.com/dep v1.0.0\n")
	usermodule.Write(t, dir, "use.go", "package user\n\nimport _ \"example.com/dep/orders\"\n")
	usermodule.Write(t, dir, "vendor/modules.txt", "# example.com/dep v1.0.0\n## explicit; go 1.26\nexample.com/dep/orders\n")
	usermodule.Write(t, dir, "vendor/example.com/dep/orders/orders.go",
		"package orders\n\nimport \"context\"\n\n//flow:step\nfunc charge(ctx context.Context) error { return nil }\n")
	for _, pattern := range []string{"example.com/dep/...", "./vendor/example.com/dep/orders"} {
		report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{pattern}})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Diagnostics) == 0 || len(report.Changes) != 0 {
			t.Errorf("%s: report is %+v, want a diagnostic and no change", pattern, report)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "vendor/example.com/dep/orders/flow_gen.go")); !os.IsNotExist(err) {
		t.Errorf("flow_gen.go was written into the vendor directory (%v)", err)
	}
}

// The test proves that generated files with the line endings that git writes on Windows are up to
// date.
func TestGEN2_LineEndsOfWindowsAreNotStale(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	mustRun(t, dir)
	text := read(t, dir, "orders/flow_gen.go")
	windows := strings.ReplaceAll(text, "\n", "\r\n")
	usermodule.Write(t, dir, "orders/flow_gen.go", windows)
	if d := cmp.Diff([]generator.Change{}, check(t, dir).Changes); d != "" {
		t.Errorf("changes under Check (-want +got):\n%s", d)
	}
	mustRun(t, dir)
	if got := read(t, dir, "orders/flow_gen.go"); got != windows {
		t.Error("the file was written anew")
	}
	usermodule.Write(t, dir, "orders/flow_gen.go", strings.Replace(windows, "orders.charge", "orders.old", 1))
	changes := check(t, dir).Changes
	if len(changes) != 1 || strings.Count(changes[0].Diff, "\n-") != 1 || strings.Contains(changes[0].Diff, "\r") {
		t.Errorf("changes of a stale file with such line ends are %+v, want a difference of one line", changes)
	}
}

// The test proves that a missing file of a go:embed line causes no diagnostic, because another
// generator may create it later.
func TestRun_AMissingEmbeddedFileDoesNotMatter(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "orders/text.go": "package orders\n\nimport _ \"embed\"\n\n//go:embed missing.txt\nvar text string\n"})
	if d := cmp.Diff([]generator.Change{{File: "orders/flow_gen.go", Action: generator.Wrote}}, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestRun_NamesTheModuleThatIsNotRequired(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	mod := read(t, dir, "go.mod")
	usermodule.Write(t, dir, "go.mod", mod[:strings.LastIndex(mod, "\nrequire github.com/flowgen/flowgen ")])
	wants(t, run(t, dir), "orders/orders.go:6:2: no required module provides package github.com/flowgen/flowgen/runtime/workflow: "+
		"run go get github.com/flowgen/flowgen/runtime/workflow")
}

// The test proves that the generator names the missing module. A package that contains only steps
// does not import the runtime, but its generated file does.
func TestRun_NamesTheModuleThatThePackageWithStepsOnlyLacks(t *testing.T) {
	const steps = "package pay\n\nimport \"context\"\n\n// charge charges.\n//\n//flow:step\nfunc charge(ctx context.Context, cents int64) error { return nil }\n"
	dir := usermodule.New(t, map[string]string{
		"pay/pay.go":     steps,
		"pay/refund.go":  "package pay\n\nimport \"context\"\n\n//flow:step\nfunc refund(ctx context.Context, cents int64) error { return nil }\n",
		"ship/ship.go":   strings.Replace(steps, "package pay", "package ship", 1),
		"plain/plain.go": "package plain\n",
	})
	mod := read(t, dir, "go.mod")
	usermodule.Write(t, dir, "go.mod", mod[:strings.LastIndex(mod, "\nrequire github.com/flowgen/flowgen ")])
	const what = ": no required module provides what the generated code imports: run go get github.com/flowgen/flowgen"
	wants(t, run(t, dir), "pay/pay.go:7:1"+what, "ship/ship.go:7:1"+what)
	if _, err := os.Stat(filepath.Join(dir, "pay", "flow_gen.go")); err == nil {
		t.Error("a file was written that cannot be compiled")
	}
	usermodule.Write(t, dir, "go.mod", mod)
	mustRun(t, dir)
	// Existing generated files do not suppress the diagnostic.
	usermodule.Write(t, dir, "go.mod", mod[:strings.LastIndex(mod, "\nrequire github.com/flowgen/flowgen ")])
	wants(t, check(t, dir), "pay/pay.go:7:1"+what, "ship/ship.go:7:1"+what)
}

// The test proves that a vendor directory may lack packages that only the generated file will
// import.
func TestRun_AVendoredRuntimeNeedNotBeImportedYet(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"pay/pay.go": "package pay\n\nimport \"context\"\n\n//flow:step\nfunc charge(ctx context.Context, cents int64) error { return nil }\n",
	})
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	goLine := read(t, dir, "go.mod")
	goLine = goLine[strings.Index(goLine, "\ngo "):]
	goLine, _, _ = strings.Cut(goLine[1:], "\n")
	usermodule.Write(t, dir, "go.mod", "module example.com/user\n\n"+goLine+"\n\nrequire github.com/flowgen/flowgen v0.0.0\n\nreplace github.com/flowgen/flowgen => "+root+"\n")
	usermodule.Write(t, dir, "vendor/modules.txt", "# github.com/flowgen/flowgen v0.0.0 => "+root+"\n## explicit; "+goLine+"\n# github.com/flowgen/flowgen => "+root+"\n")
	mustRun(t, dir)
}
