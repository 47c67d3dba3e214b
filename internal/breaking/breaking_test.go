package breaking_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/breaking"
	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

const orders = `package orders

import (
	"context"

	"example.com/user/pay"
	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
func ship(ctx context.Context, id string) error { return nil }

//flow:workflow
func fulfil(ctx workflow.Context, id string) error {
	if err := pay.Everything(ctx, id); err != nil {
		return err
	}
	return Ship(ctx, id)
}
`

const pay = `package pay

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
func charge(ctx context.Context, id string) error { return nil }

// Everything is a helper in another package.
func Everything(ctx workflow.Context, id string) error { return Charge(ctx, id) }
`

// generated contains the generated files of the module that repository creates, after the first
// call.
var generated = map[string]string{}

// repository creates a module in a git repository with one commit. Its code is generated once.
func repository(t *testing.T) string {
	t.Helper()
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "pay/pay.go": pay})
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	for name, text := range generated {
		usermodule.Write(t, dir, name, text)
	}
	if len(generated) == 0 {
		generate(t, dir, false)
		for _, name := range []string{"orders/flow_gen.go", "pay/flow_gen.go"} {
			generated[name] = read(t, dir, name)
		}
	}
	git(t, dir, "init", "-q", "-b", "main")
	commit(t, dir)
	return dir
}

func generate(t *testing.T, dir string, manifests bool) {
	t.Helper()
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}, Manifest: manifests})
	if err != nil || len(report.Diagnostics) > 0 {
		t.Fatalf("generate: %v, %v", err, report)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "change")
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func run(t *testing.T, dir, against string) *breaking.Report {
	t.Helper()
	report, err := breaking.Run(t.Context(), breaking.Config{Dir: dir, Patterns: []string{"./..."}, Against: against})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// lines returns the changes of a report as text.
func lines(changes []breaking.Change) []string {
	all := []string{}
	for _, c := range changes {
		all = append(all, c.String())
	}
	return all
}

// The test proves that changes since the default branch are found in the sources. A helper in
// another package gains a step in a new file, and another file is removed.
func TestVER4_ChangesSinceTheDefaultBranchAreFoundInTheSources(t *testing.T) {
	dir := repository(t)
	if got := lines(run(t, dir, "").Changes); len(got) > 0 {
		t.Fatalf("nothing was changed, and there are %q", got)
	}
	git(t, dir, "checkout", "-q", "-b", "change")
	usermodule.Write(t, dir, "pay/pay.go", strings.Replace(pay, "{ return Charge(ctx, id) }", "{\n\tif err := Reserve(ctx, id); err != nil {\n\t\treturn err\n\t}\n\treturn Charge(ctx, id)\n}", 1))
	usermodule.Write(t, dir, "pay/reserve.go", "package pay\n\nimport \"context\"\n\n//flow:step\nfunc reserve(ctx context.Context, id string) error { return nil }\n")
	want := []string{"pay/pay.go:14: breaks: orders.fulfil: step pay.reserve was added before others: call it under workflow.Version"}
	for _, state := range []string{"not committed", "committed"} {
		report := run(t, dir, "")
		if d := cmp.Diff(want, lines(report.Changes)); d != "" {
			t.Errorf("%s (-want +got):\n%s", state, d)
		}
		if report.Workflows != 1 || !report.Breaks(false) {
			t.Errorf("%s: the report is %+v", state, report)
		}
		if state == "not committed" {
			generate(t, dir, false)
			commit(t, dir)
		}
	}
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the tree was changed: %s", got)
	}
}

// The test proves that the workflows of a removed package are read from the revision.
func TestVER4_AWorkflowThatIsGoneIsFound(t *testing.T) {
	dir := repository(t)
	if err := os.RemoveAll(filepath.Join(dir, "orders")); err != nil {
		t.Fatal(err)
	}
	got := lines(run(t, dir, "main").Changes)
	if !slices.ContainsFunc(got, func(s string) bool {
		return strings.Contains(s, "breaks: orders.fulfil: no workflow has this stored name any more")
	}) {
		t.Errorf("got %q", got)
	}
}

// The test proves that the manifests of a revision take precedence over its sources: it stores
// wrong manifests and expects the comparison to use them.
func TestVER4_ManifestsOfTheRevisionAreCompared(t *testing.T) {
	dir := repository(t)
	generate(t, dir, true)
	file := "orders/flow.manifest.json"
	good := read(t, dir, file)
	if lie := strings.Replace(strings.ReplaceAll(good, "pay.charge", "pay.debit"), `"`+manifest.CodeAlgorithm+`:`, `"`+manifest.CodeAlgorithm+`:0`, 1); lie != good {
		usermodule.Write(t, dir, file, lie)
	}
	commit(t, dir)
	usermodule.Write(t, dir, file, good)
	want := []string{
		"orders/orders.go:14: breaks: orders.fulfil: step pay.debit is no longer called: keep it for old runs, by workflow.Version",
		"pay/pay.go:13: breaks: orders.fulfil: step pay.charge was added before others: call it under workflow.Version",
	}
	if d := cmp.Diff(want, lines(run(t, dir, "HEAD").Changes)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	git(t, dir, "rm", "-q", "-f", "pay/flow.manifest.json")
	commit(t, dir)
	if got := lines(run(t, dir, "HEAD").Changes); len(got) > 0 {
		t.Errorf("one package has no manifest, and there are %q", got)
	}
}

func TestVER4_TheStateBeforeMayBeADirectoryOrAFile(t *testing.T) {
	dir := repository(t)
	generate(t, dir, true)
	kept := filepath.Join(t.TempDir(), "kept.json")
	usermodule.Write(t, filepath.Dir(kept), "kept.json", read(t, dir, "orders/flow.manifest.json"))
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(orders, "return Ship(ctx, id)\n", "return nil\n", 1))
	want := []string{"orders/orders.go:14: breaks: orders.fulfil: step orders.ship is no longer called: keep it for old runs, by workflow.Version"}
	for _, against := range []string{old, filepath.Join(old, "orders"), kept} {
		if d := cmp.Diff(want, lines(run(t, dir, against).Changes)); d != "" {
			t.Errorf("against %s (-want +got):\n%s", against, d)
		}
	}
}

func TestVER4_AnAcceptedChangeIsNotReported(t *testing.T) {
	dir := repository(t)
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(orders, "return Ship(ctx, id)\n", "return nil\n", 1))
	report := run(t, dir, "")
	if len(report.Changes) != 1 {
		t.Fatalf("got %q", lines(report.Changes))
	}
	line := report.Changes[0].AcceptLine()
	usermodule.Write(t, dir, breaking.AcceptFile, "# no run is left\n\n"+strings.Replace(line, " reason", " all runs have ended", 1)+"\n")
	report = run(t, dir, "")
	if len(report.Changes) != 0 || len(report.Accepted) != 1 || report.Breaks(true) {
		t.Errorf("it is accepted, and the report is %+v", report)
	}
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(orders, "return Ship(ctx, id)\n", "return Ship(ctx, \"x\")\n", 1))
	if report = run(t, dir, ""); len(report.Changes) == 0 {
		t.Error("another change is accepted by the line")
	}
	for text, want := range map[string]string{
		strings.TrimSuffix(line, " reason"): "has no reason",
		"orders.fulfil because":             "no subject with two fingerprints",
	} {
		usermodule.Write(t, dir, breaking.AcceptFile, text+"\n")
		if _, err := breaking.Run(t.Context(), breaking.Config{Dir: dir, Patterns: []string{"./..."}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("flow.accept with %q: %v", text, err)
		}
	}
}

func TestVER4_AStateBeforeThatIsNotThereIsAnError(t *testing.T) {
	dir := repository(t)
	usermodule.Write(t, dir, "orders/doc.go", "// Package orders is about orders.\npackage orders\n")
	commit(t, dir)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, dir, "clone", "-q", "--depth=1", "file://"+dir, shallow)
	first := git(t, dir, "rev-parse", "HEAD~1")
	for _, test := range depth.Sample([]struct{ dir, against, want string }{
		{dir, "nowhere", "find revision nowhere"},
		{dir, "-x", "begins with a hyphen"},
		{shallow, first, "git fetch --unshallow"},
		{dir, "orders", "has neither a go.mod nor a flow.manifest.json"},
		{dir, "orders/orders.go", "read manifest"},
	}, 2) {
		_, err := breaking.Run(t.Context(), breaking.Config{Dir: test.dir, Patterns: []string{"./..."}, Against: test.against})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("against %s: got %v, want %q", test.against, err, test.want)
		}
	}
}
