package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

// outcome contains the exit code and the output of an execution of the command.
type outcome struct {
	code           int
	stdout, stderr string
}

func execute(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, dir, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// module creates a module with one package. The module requires only the module under test.
func module(t *testing.T, source string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"go.mod": "", "go.sum": "", "orders.go": source}
	for name := range files {
		if own, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			files[name] = string(own)
		}
	}
	const path = "github.com/flowgen/flowgen"
	files["go.mod"] = strings.Replace(files["go.mod"], "module "+path, "module example.com/orders", 1) +
		"\nrequire " + path + " v0.0.0\n\nreplace " + path + " => " + root + "\n"
	dir := usermodule.Directory(t)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const good = `package orders

import "context"

//flow:step
func charge(ctx context.Context, cents int64) error { return nil }
`

func TestRun_WritesAndSaysSo(t *testing.T) {
	dir := module(t, good)
	if d := cmp.Diff(outcome{0, "wrote flow_gen.go\n", ""}, execute(t, dir), cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("first run (-want +got):\n%s", d)
	}
	if d := cmp.Diff(outcome{}, execute(t, dir), cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("second run (-want +got):\n%s", d)
	}
}

func TestRun_WritesAndRemovesAClient(t *testing.T) {
	dir := module(t, "//flow:package client=ordersclient\n"+good)
	for _, step := range []struct {
		source string
		args   []string
		want   outcome
	}{
		{"", nil, outcome{0, "wrote flow_gen.go\nwrote ordersclient/flow_client.go\n", ""}},
		{"", []string{"-check", "-client", "ordersclient"}, outcome{}},
		{"", []string{"-client=api"}, outcome{1, "", "orders.go:1:1: the package has a client in another directory, by client= of //flow:package: leave out -client, or change the directive\n"}},
		{good, []string{"-check", "./..."}, outcome{1, "", "ordersclient/flow_client.go: no package declares this client any more: run flowgen\n"}},
		{good, []string{"./..."}, outcome{0, "removed ordersclient/flow_client.go: no package declares this client any more\n", ""}},
		{good, []string{"-check", "-client=api"}, outcome{1, "", "api/flow_client.go: the file is missing: run flowgen\n"}},
		{good, []string{"-client=api"}, outcome{0, "wrote api/flow_client.go\n", ""}},
		{good, []string{"-check", "./..."}, outcome{}},
	} {
		if step.source != "" {
			if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte(step.source), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(step.want, execute(t, dir, step.args...), cmp.AllowUnexported(outcome{})); d != "" {
			t.Errorf("flowgen %v (-want +got):\n%s", step.args, d)
		}
	}
}

func TestRun_SaysUnderGoGenerateOfWhichPackageTheFileIs(t *testing.T) {
	t.Setenv("GOPACKAGE", "orders")
	dir := module(t, good)
	if d := cmp.Diff(outcome{0, "wrote flow_gen.go of package orders\n", ""}, execute(t, dir), cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRun_MistakesExitWithOne(t *testing.T) {
	dir := module(t, strings.Replace(good, "//flow:step", "//flow:step retries=x", 1))
	want := outcome{1, "", "orders.go:5:21: retries=x is not a number of retries: write a whole number from 0 to 1000000\n"}
	if d := cmp.Diff(want, execute(t, dir, "./..."), cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRun_CheckExitsWithOneUntilGenerated(t *testing.T) {
	dir := module(t, good)
	want := outcome{1, "", "flow_gen.go: the file is missing: run flowgen\n"}
	if d := cmp.Diff(want, execute(t, dir, "-check"), cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("missing (-want +got):\n%s", d)
	}
	execute(t, dir)
	if d := cmp.Diff(outcome{}, execute(t, dir, "-check"), cmp.AllowUnexported(outcome{})); d != "" {
		t.Errorf("generated (-want +got):\n%s", d)
	}
	change := strings.Replace(good, "cents int64", "cents int", 1)
	if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte(change), 0o644); err != nil {
		t.Fatal(err)
	}
	got := execute(t, dir, ".", "-check") // Flags may follow package patterns.
	if got.code != 1 || !strings.Contains(got.stderr, "flow_gen.go: the file is stale: run flowgen\n--- flow_gen.go") {
		t.Errorf("a stale file: %+v", got)
	}
}

func TestRun_JSONIsOneObject(t *testing.T) {
	for name, source := range map[string]string{"good": good, "bad": strings.Replace(good, "flow:step", "flow:stepp", 1)} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, module(t, source), "-json")
			var report generator.Report
			if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
				t.Fatalf("%v in:\n%s", err, got.stdout)
			}
			bad := name == "bad"
			if (got.code == 1) != bad || (len(report.Diagnostics) == 1) != bad || (len(report.Changes) == 1) == bad || got.stderr != "" {
				t.Errorf("got code %d, report %+v, stderr %q", got.code, report, got.stderr)
			}
			if bad && report.Diagnostics[0].Line != 5 {
				t.Errorf("the diagnostic is at line %d, want 5", report.Diagnostics[0].Line)
			}
		})
	}
}

func TestRun_JSONSaysWhatKeptTheGoCommandFromRunning(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=nonsense")
	got := execute(t, module(t, good), "-json")
	var report generator.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, got.stdout)
	}
	if got.code != 1 || len(report.Diagnostics) != 1 || !strings.Contains(report.Diagnostics[0].What, "nonsense") {
		t.Errorf("got code %d, report %+v", got.code, report)
	}
}

func TestRun_UsageExitsWithTwo(t *testing.T) {
	for _, args := range [][]string{{"-frobnicate"}, {"orders.go"}, {"completion"}, {"completion", "cmd"}, {"-check=x"}} {
		got := execute(t, t.TempDir(), args...)
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, "usage: flowgen") {
			t.Errorf("flowgen %v: %+v", args, got)
		}
	}
}

func TestRun_HelpNamesEverything(t *testing.T) {
	for _, args := range [][]string{{"-help"}, {"--help"}, {"-h"}, {"help"}} {
		got := execute(t, t.TempDir(), args...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("flowgen %v: code %d, stderr %q", args, got.code, got.stderr)
		}
		for _, word := range []string{
			"-check", "-since", "-json", "-version", "completion", "go tool flowgen ./...", "//flow:step", "//flow:workflow", "//flow:error",
			"//flow:package", "retries", "backoff", "jitter", "total", "timeout", "fatal", "nonidempotent", "key", "as=", "name=",
			"queue", "wire", "retention", "register", "steps", "Exit codes",
		} {
			if !strings.Contains(got.stdout, word) {
				t.Errorf("flowgen %v does not mention %s", args, word)
			}
		}
	}
}

func TestRun_HelpListsEveryOptionWithItsDirective(t *testing.T) {
	help := execute(t, t.TempDir(), "-help").stdout
	for _, kind := range []directive.Kind{directive.Package, directive.Step, directive.Workflow, directive.Error} {
		_, section, found := strings.Cut(help, "\n  //flow:"+string(kind)+" ")
		if !found {
			t.Errorf("flowgen -help has no section on //flow:%s", kind)
			continue
		}
		section, _, _ = strings.Cut(section, "\n  //flow:")
		words := strings.Fields(section)
		for _, option := range kind.Options() {
			if !slices.ContainsFunc(words, func(w string) bool { return w == option || strings.HasPrefix(w, option+"=") }) {
				t.Errorf("flowgen -help does not list %s of //flow:%s", option, kind)
			}
		}
	}
}

func TestRun_SaysThatThereAreNoDirectives(t *testing.T) {
	dir := module(t, "package orders\n")
	for want, args := range map[string][]string{
		"flowgen: nothing to do: no //flow: directive in this package; to include the packages below it, name ./...\n": nil,
		"flowgen: nothing to do: no //flow: directive in ./...\n":                                                      {"./..."},
	} {
		for _, check := range [][]string{nil, {"-check"}} {
			if d := cmp.Diff(outcome{0, "", want}, execute(t, dir, append(check, args...)...), cmp.AllowUnexported(outcome{})); d != "" {
				t.Errorf("flowgen %v %v (-want +got):\n%s", check, args, d)
			}
		}
	}
}

func TestRun_VersionNamesTheCommand(t *testing.T) {
	got := execute(t, t.TempDir(), "-version")
	if got.code != 0 || !strings.HasPrefix(got.stdout, "flowgen ") || !strings.Contains(got.stdout, " go1.") {
		t.Errorf("flowgen -version: %+v", got)
	}
}

func TestRun_CompletionKnowsEveryFlag(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := execute(t, t.TempDir(), "completion", shell)
		if got.code != 0 {
			t.Errorf("flowgen completion %s: %+v", shell, got)
		}
		for _, flag := range []string{"check", "since", "manifest", "client", "json", "version", "help", "completion"} {
			if !strings.Contains(got.stdout, flag) {
				t.Errorf("the completion for %s does not know %s", shell, flag)
			}
		}
	}
}

// The test proves that flowgen -check with an earlier revision fails if a stored name has changed,
// even though the generated file is up to date. Without -check, flowgen generates the code and
// prints a warning.
func TestRun_CheckSinceARevisionFailsOnAStoredNameThatChanged(t *testing.T) {
	dir := module(t, good)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	execute(t, dir)
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "before")
	if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte(strings.Replace(good, "cents int64", "amount int64", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	const warning = `warning: step charge stored a parameter as "cents", which is gone, and "amount" is new`
	if got := execute(t, dir); got.code != 0 || !strings.Contains(got.stderr, warning) || !strings.Contains(got.stdout, "wrote flow_gen.go") {
		t.Errorf("written: %+v", got)
	}
	if got := execute(t, dir, "-check"); got.code != 0 || got.stderr != "" {
		t.Errorf("-check: %+v", got)
	}
	if got := execute(t, dir, "-check", "-since=HEAD"); got.code != 1 || !strings.Contains(got.stderr, warning) {
		t.Errorf("-check -since: %+v", got)
	}
	if got := execute(t, dir, "-check", "-since=nowhere"); got.code != 1 || !strings.Contains(got.stderr, "find revision nowhere") {
		t.Errorf("-check -since=nowhere: %+v", got)
	}
}
