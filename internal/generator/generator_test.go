package generator_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

func build(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

func TestGEN1_FirstRunWritesAndSecondChangesNothing(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	want := []generator.Change{{File: "orders/flow_gen.go", Action: generator.Wrote}}
	if d := cmp.Diff(want, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes of the first run (-want +got):\n%s", d)
	}
	build(t, dir)
	if d := cmp.Diff([]generator.Change{}, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes of the second run (-want +got):\n%s", d)
	}
}

func TestGEN1_FollowsAChangedSignature(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	mustRun(t, dir)
	changed := strings.NewReplacer("order Order) (int", "order *Order, cents int64) (int", "Charge(ctx, order)", "Charge(ctx, &order, 5)").Replace(orders)
	changed = strings.Replace(changed, "func fulfil(ctx workflow.Context, order *Order, cents int64)", "func fulfil(ctx workflow.Context, order Order)", 1)
	usermodule.Write(t, dir, "orders/orders.go", changed)
	mustRun(t, dir)
	build(t, dir)
}

// The test proves that the package does not compile with a stale generated file after a signature
// was changed.
func TestGEN2_ChangedSignatureDoesNotCompileBeforeRegeneration(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	mustRun(t, dir)
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(orders, "charge(ctx context.Context, order Order)", "charge(ctx context.Context, order *Order)", 1))
	cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "flow_gen.go") {
		t.Errorf("go build with a stale file: %v\n%s", err, out)
	}
}

// ownOrders replaces the package names in a text, so that several cases can share a module.
func ownOrders(i int, text string) string {
	return strings.NewReplacer("orders", fmt.Sprint("orders", i), "shop", fmt.Sprint("shop", i)).Replace(text)
}

func TestGEN1_MendsWhateverFlowGenHolds(t *testing.T) {
	files := map[string]string{"orders/orders.go": orders, "shop/shop.go": `package shop

import (
	"context"

	"example.com/user/orders"
)

//flow:step
func sell(ctx context.Context, order orders.Order) error { return nil }
`}
	replaced := func(old, text string) func(string) string {
		return func(want string) string { return strings.ReplaceAll(want, old, text) }
	}
	mended(t, files, "orders/flow_gen.go", map[string]func(want string) string{
		"conflict at the top": func(want string) string { return "<<<<<<< HEAD\n" + want + "=======\n" + want + ">>>>>>> branch\n" },
		"conflict in the imports": func(want string) string {
			at := strings.Index(want, "\t\"github.com")
			return want[:at] + "<<<<<<< HEAD\n=======\n\t\"os\"\n>>>>>>> branch\n" + want[at:]
		},
		"conflict in a declaration": func(want string) string {
			return want + "<<<<<<< HEAD\nfunc A() {}\n=======\nfunc B() {}\n>>>>>>> branch\n"
		},
		"nothing but the header": func(want string) string { return want[:strings.Index(want, "\n")+1] },
		"nothing at all":         func(string) string { return "" },
		"an empty line":          func(string) string { return "\n" },
		"half a file":            func(want string) string { return want[:len(want)/2] },
		"another package name":   replaced("package orders", "package before"),
		"an import that is gone": replaced("\"context\"", "\"context\"\n\t_ \"example.com/user/gone\""),
		"edited by hand":         replaced("chargeArgs{order}", "chargeArgs{Order{}}"),
		"an old signature":       replaced("order Order", "order string"),
	})
	mended(t, files, "orders/flow_gen.go", map[string]func(want string) string{
		"an import cycle": replaced("\"context\"", "\"context\"\n\t_ \"example.com/user/shop0\""),
	})
}

// mended checks that the generator restores the generated file in each case. A case is a function
// that damages the file. Each case has its own packages, such as orders0, so that all cases are
// loaded together. make test executes a sample of them.
func mended(t *testing.T, files map[string]string, generated string, cases map[string]func(want string) string) {
	t.Helper()
	dir := usermodule.New(t, nil)
	names := depth.Sample(slices.Sorted(maps.Keys(cases)), 3)
	for i := range names {
		for file, text := range files {
			usermodule.Write(t, dir, ownOrders(i, file), ownOrders(i, text))
		}
	}
	mustRun(t, dir)
	wants := make([]string, len(names))
	for i, name := range names {
		file := ownOrders(i, generated)
		wants[i] = read(t, dir, file)
		text := cases[name](wants[i])
		if text == wants[i] {
			t.Fatalf("case %q does not change the file", name)
		}
		usermodule.Write(t, dir, file, text)
	}
	mustRun(t, dir)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(wants[i], read(t, dir, ownOrders(i, generated))); d != "" {
				t.Errorf("%s (-want +got):\n%s", generated, d)
			}
		})
	}
}

// The test proves that the generator reads a dependency whose code is generated later or elsewhere.
func TestGEN1_ReadsADependencyThatIsNotGeneratedYet(t *testing.T) {
	for name, generated := range map[string]string{
		"missing":    "",
		"conflicted": "<<<<<<< HEAD\n// Code generated by flowgen. DO NOT EDIT.\n=======\n>>>>>>> branch\npackage orders\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "shop/shop.go": `package shop

import (
	"example.com/user/orders"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// total has the type of what a generated function returns.
var total, _ = orders.Charge(workflow.Context{}, orders.Order{})

//flow:workflow
func sell(ctx workflow.Context, order orders.Order) (orders.Order, error) {
	_, err := orders.Charge(ctx, order)
	return order, err
}
`})
			if generated != "" {
				usermodule.Write(t, dir, "orders/flow_gen.go", generated)
			}
			report, err := generator.Run(t.Context(), generator.Config{Dir: filepath.Join(dir, "shop")})
			if err != nil {
				t.Fatal(err)
			}
			want := &generator.Report{Changes: []generator.Change{{File: "flow_gen.go", Action: generator.Wrote}}, Annotated: 1}
			want.Diagnostics, want.Warnings, want.Notes = report.Diagnostics[:0], report.Warnings[:0], report.Notes[:0]
			if d := cmp.Diff(want, report); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
		})
	}
}

func TestGEN1_IgnoresMistakesThatAreNotItsOwn(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"orders/orders.go":      orders + "\nfunc broken() { return undefinedThing + 5 }\n",
		"orders/orders_test.go": "package orders\n\nimport \"testing\"\n\nfunc TestSteps(t *testing.T) { _ = Steps.Charge; _ = alsoUndefined }\n",
		"other/other.go":        "package other\n\nfunc (\n",
	})
	want := []generator.Change{{File: "orders/flow_gen.go", Action: generator.Wrote}}
	if d := cmp.Diff(want, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestRun_ReportsSyntaxErrorsOfAnnotatedPackages(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders + "\nfunc (\n"})
	report := run(t, dir)
	if len(report.Diagnostics) == 0 || report.Diagnostics[0].Line != 18 || report.Diagnostics[0].File != "orders/orders.go" {
		t.Errorf("diagnostics are %v, want some at orders/orders.go:18", report.Diagnostics)
	}
}

func TestRun_LeavesAPackageWithMistakesAloneButNotTheOthers(t *testing.T) {
	bad := strings.Replace(orders, "//flow:step", "//flow:step retries=x", 1)
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "shop/shop.go": strings.Replace(orders, "package orders", "package shop", 1)})
	mustRun(t, dir)
	before := read(t, dir, "orders/flow_gen.go")
	usermodule.Write(t, dir, "orders/orders.go", bad)
	usermodule.Write(t, dir, "shop/flow_gen.go", strings.Replace(before, "package orders", "package shop", 1))
	report := run(t, dir)
	if len(report.Diagnostics) != 1 {
		t.Errorf("diagnostics are %v, want one", report.Diagnostics)
	}
	if d := cmp.Diff([]generator.Change{{File: "shop/flow_gen.go", Action: generator.Wrote}}, report.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if d := cmp.Diff(before, read(t, dir, "orders/flow_gen.go")); d != "" {
		t.Errorf("flow_gen.go of the package with a mistake (-before +after):\n%s", d)
	}
}

func TestRun_RemovesTheFileOfAPackageWithoutDirectives(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	mustRun(t, dir)
	usermodule.Write(t, dir, "orders/orders.go", "package orders\n")
	if d := cmp.Diff([]generator.Change{{File: "orders/flow_gen.go", Action: generator.Leftover}}, check(t, dir).Changes); d != "" {
		t.Errorf("changes under Check (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]generator.Change{{File: "orders/flow_gen.go", Action: generator.Removed}}, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(dir, "orders", "flow_gen.go")); !os.IsNotExist(err) {
		t.Errorf("flow_gen.go is still there (%v)", err)
	}
}

func TestRun_NeverTouchesAFileThatItDidNotGenerate(t *testing.T) {
	const own = "package orders\n\n// Mine is written by hand.\nfunc Mine() {}\n"
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "orders/flow_gen.go": own, "plain/flow_gen.go": strings.Replace(own, "orders", "plain", 1)})
	report := run(t, dir)
	if len(report.Diagnostics) != 1 || report.Diagnostics[0].File != "orders/flow_gen.go" {
		t.Errorf("diagnostics are %v, want one about orders/flow_gen.go", report.Diagnostics)
	}
	if got := read(t, dir, "orders/flow_gen.go"); got != own {
		t.Errorf("flow_gen.go became\n%s", got)
	}
}

func TestGEN2_CheckWritesNothing(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	if d := cmp.Diff([]generator.Change{{File: "orders/flow_gen.go", Action: generator.Missing}}, check(t, dir).Changes); d != "" {
		t.Errorf("changes of a missing file (-want +got):\n%s", d)
	}
	mustRun(t, dir)
	stale := strings.Replace(read(t, dir, "orders/flow_gen.go"), "orders.charge", "orders.old", 1)
	usermodule.Write(t, dir, "orders/flow_gen.go", stale)
	changes := check(t, dir).Changes
	if len(changes) != 1 || changes[0].Action != generator.Stale {
		t.Fatalf("changes of a stale file are %v", changes)
	}
	for _, line := range []string{"-var chargeStep = shim.NewStep(\"orders.old\"", "+var chargeStep = shim.NewStep(\"orders.charge\""} {
		if !strings.Contains(changes[0].Diff, line) {
			t.Errorf("the difference lacks %q:\n%s", line, changes[0].Diff)
		}
	}
	if got := read(t, dir, "orders/flow_gen.go"); got != stale {
		t.Error("Check wrote the file")
	}
}

func TestRun_UnknownPackageIsAMistake(t *testing.T) {
	dir := usermodule.New(t, nil)
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Diagnostics) != 1 || !strings.Contains(report.Diagnostics[0].What, "nowhere") {
		t.Errorf("diagnostics are %v, want one that names the directory", report.Diagnostics)
	}
}

func TestRun_StoredNamesAreUniqueOverAllPackages(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"a/orders/orders.go": orders, "b/orders/orders.go": orders})
	report := run(t, dir)
	if len(report.Diagnostics) != 2 || report.Diagnostics[0].File != "b/orders/orders.go" {
		t.Errorf("diagnostics are %v, want two in b/orders", report.Diagnostics)
	}
	if d := cmp.Diff([]generator.Change{{File: "a/orders/flow_gen.go", Action: generator.Wrote}}, report.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

// The test proves that Run returns errors of the go command itself, such as an invalid flag.
func TestRun_FailsWithoutAGoModule(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=nonsense")
	if _, err := generator.Run(t.Context(), generator.Config{Dir: usermodule.New(t, nil)}); err == nil {
		t.Error("Run succeeded with a go command that cannot list packages")
	}
}

// The test proves that code that is appended to a file for type-checking does not become part of
// the last comment of the file.
func TestRun_DirectiveAtTheEndOfAFileIsAboveNothing(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders + "\n//flow:step"})
	report := run(t, dir)
	if len(report.Diagnostics) != 1 || report.Diagnostics[0].Line != 18 || report.Diagnostics[0].What != "//flow:step is above no declaration" {
		t.Errorf("diagnostics are %v, want one at line 18", report.Diagnostics)
	}
}
