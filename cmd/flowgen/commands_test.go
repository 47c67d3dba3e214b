package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/manifest"
)

const flow = `package orders

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
func charge(ctx context.Context, cents int64) error { return nil }

//flow:workflow
func pay(ctx workflow.Context, cents int64) error { return Charge(ctx, cents) }
`

func TestVER4_BreakingAnswersByItsExitCode(t *testing.T) {
	dir := module(t, flow)
	if got := execute(t, dir, "breaking"); got.code != 2 || !strings.Contains(got.stderr, "find the default branch") {
		t.Errorf("without a repository: %+v", got)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "before"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if got := execute(t, dir, "breaking"); got.code != 0 || !strings.Contains(got.stdout, "0 breaks, 0 care, 0 accepted") {
		t.Errorf("without a change: %+v", got)
	}
	change := func(old, now string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte(strings.Replace(flow, old, now, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("Charge(ctx, cents)", "Charge(ctx, cents+1)")
	if got := execute(t, dir, "breaking"); got.code != 0 || !strings.Contains(got.stdout, "orders.go:13: care: orders.pay: ") {
		t.Errorf("with care: %+v", got)
	}
	if got := execute(t, dir, "breaking", "-strict"); got.code != 1 || !strings.Contains(got.stdout, "\torders.pay "+manifest.ShapeAlgorithm+":") {
		t.Errorf("with care, strict: %+v", got)
	}
	change("Charge(ctx, cents) }", "nil }")
	got := execute(t, dir, "breaking", "-json", ".")
	var report struct {
		Changes []struct {
			File, Class, Row, Subject string
			Line                      int
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != 1 || len(report.Changes) != 1 {
		t.Fatalf("a step removed: %+v, %v", got, err)
	}
	if c := report.Changes[0]; c.File != "orders.go" || c.Line != 13 || c.Class != "breaks" || c.Row != "op.removed" || c.Subject != "orders.pay" {
		t.Errorf("a step removed: %+v", c)
	}
	for _, args := range [][]string{{"breaking", "-nonsense"}, {"breaking", "-against=nowhere"}, {"breaking", "orders.go"}} {
		if got := execute(t, dir, args...); got.code != 2 || got.stderr == "" {
			t.Errorf("flowgen %v: %+v", args, got)
		}
	}
}

func TestVER4_TheManifestIsWrittenOnRequestAndThenKept(t *testing.T) {
	dir := module(t, flow)
	if got := execute(t, dir); got.code != 0 || got.stdout != "wrote flow_gen.go\n" {
		t.Errorf("unasked: %+v", got)
	}
	if got := execute(t, dir, "-manifest"); got.code != 0 || got.stdout != "wrote flow.manifest.json\n" {
		t.Errorf("asked: %+v", got)
	}
	written, err := os.ReadFile(filepath.Join(dir, "flow.manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := execute(t, dir, "manifest"); got.code != 0 || got.stdout != string(written) {
		t.Errorf("printed: %+v\nwritten: %s", got, written)
	}
	if got := execute(t, dir, "-check"); got.code != 0 {
		t.Errorf("up to date: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte(strings.Replace(flow, "Charge(ctx, cents) }", "Charge(ctx, 5) }", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, dir, "-check"); got.code != 1 || !strings.Contains(got.stderr, "flow.manifest.json: the file is stale") {
		t.Errorf("stale: %+v", got)
	}
	if got := execute(t, dir); got.code != 0 || got.stdout != "wrote flow.manifest.json\n" {
		t.Errorf("kept: %+v", got)
	}
	if got := execute(t, dir, "manifest", "-mermaid"); got.code != 0 || !strings.Contains(got.stdout, "flowchart TD") || !strings.Contains(got.stdout, "step orders.charge") {
		t.Errorf("drawn: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte("package orders\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, dir); got.code != 0 || !strings.Contains(got.stdout, "removed flow.manifest.json") {
		t.Errorf("without directives: %+v", got)
	}
}

func TestVER5_ReplayNeedsAStore(t *testing.T) {
	if got := execute(t, t.TempDir(), "replay"); got.code != 2 || !strings.Contains(got.stderr, "-store is missing") {
		t.Errorf("without a store: %+v", got)
	}
	dir := module(t, flow)
	execute(t, dir)
	if got := execute(t, dir, "replay", "-store=oracle:x"); got.code != 2 || !strings.Contains(got.stderr, "name it with -driver") {
		t.Errorf("with a store of a kind that is not known: %+v", got)
	}
	if got := execute(t, dir, "replay", "-help"); got.code != 0 || !strings.Contains(got.stdout, "-sample") {
		t.Errorf("-help: %+v", got)
	}
}

// The test proves that the command prints a note if go generate runs flowgen for some packages but
// not for all packages with directives. The command succeeds nevertheless.
func TestRun_NotesPackagesThatGoGeneratePassesOver(t *testing.T) {
	dir := module(t, flow)
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bills := strings.Replace(good, "package orders", "package bills", 1)
	write("bills/bills.go", bills)
	if got := execute(t, dir, "./..."); got.code != 0 || got.stderr != "" {
		t.Errorf("no lines: %+v", got)
	}
	write("orders.go", strings.Replace(flow, "\nimport", "\n//go:generate go tool flowgen\n\nimport", 1))
	const note = "bills/bills.go:5:1: note: package bills has directives, and no go:generate line runs flowgen for it, so"
	if got := execute(t, dir, "./..."); got.code != 0 || !strings.Contains(got.stderr, note) || strings.Contains(got.stderr, "package orders") {
		t.Errorf("a line for one: %+v", got)
	}
	if got := execute(t, dir, "-check", "./..."); got.code != 0 || got.stderr != "" {
		t.Errorf("a check has no notes: %+v", got)
	}
	write("costs/costs.go", strings.Replace(good, "package orders", "package costs", 1))
	if got := execute(t, dir, "./..."); got.code != 0 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "for it (and for 1 more), so") {
		t.Errorf("one note for two packages: %+v", got)
	}
	write("orders.go", strings.Replace(flow, "\nimport", "\n//go:generate go tool flowgen ./...\n\nimport", 1))
	if got := execute(t, dir, "./..."); got.code != 0 || got.stderr != "" {
		t.Errorf("a line for all: %+v", got)
	}
}
