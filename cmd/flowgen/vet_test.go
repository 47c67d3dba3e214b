package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/vet"
)

// TestMain runs the vet tool if the go command starts the test binary as a vet tool.
func TestMain(m *testing.M) {
	if vet.IsTool(os.Args[1:]) {
		vet.Tool(os.Args[1:])
	}
	os.Exit(m.Run())
}

const faulty = `package orders

import (
	"context"
	"log/slog"
	"math/rand"
	"os"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Verdict holds a decision.
var Verdict = workflow.NewTopic[string]("verdict")

//flow:step
func charge(ctx context.Context, id string, cents int) (string, error) { return id, ctx.Err() }

//flow:workflow
func sell(ctx workflow.Context, id string, lines map[string]int) (string, error) {
	started := time.Now()
	region := os.Getenv("REGION")
	slog.Info("selling", "id", id, "region", region)
	for line, n := range lines {
		if _, err := Charge(ctx, line, n+rand.Intn(3)); err != nil {
			return "", err
		}
	}
	time.Sleep(time.Minute)
	receipt, err := charge(context.Background(), id, 1)
	if err != nil || time.Since(started) > time.Hour {
		return "", err
	}
	done := workflow.Go(ctx, func(branch workflow.Context) (string, error) { return Charge(ctx, id, 2) })
	if _, err := done.Get(ctx); err != nil {
		return "", err
	}
	won, err := workflow.Select(ctx, Verdict.Case(), workflow.After(time.Hour))
	if err != nil {
		return "", err
	}
	switch won {
	case Verdict.Case():
		return receipt, nil
	}
	return "", nil
}
`

func TestGEN4_FixesMendWhatTheyAreSuggestedFor(t *testing.T) {
	dir := module(t, faulty)
	if got := execute(t, dir); got.code != 0 {
		t.Fatalf("generate: %+v", got)
	}
	before := execute(t, dir, "vet")
	for _, rule := range []string{"clock", "env", "log", "maporder", "random", "raw", "context", "branch", "case"} {
		if !strings.Contains(before.stderr, "["+rule+"]") {
			t.Errorf("there is no report of %s", rule)
		}
	}
	if before.code != exitMistake {
		t.Errorf("exit code %d, want %d", before.code, exitMistake)
	}
	source := func() string {
		b, err := os.ReadFile(filepath.Join(dir, "orders.go"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if depth.Full() { // The go command analyzes all dependencies again for other flags of the tool.
		diff := execute(t, dir, "vet", "-diff")
		if diff.code != exitMistake || !strings.Contains(diff.stdout, "+\tstarted := workflow.Now(ctx)") || source() != faulty {
			t.Errorf("-diff: %+v", diff)
		}
	}
	after := execute(t, dir, "vet", "-fix")
	if after.code != exitOK || after.stderr != "" {
		t.Errorf("after -fix: %+v\n%s", after, source())
	}
	for _, part := range []string{
		"started := workflow.Now(ctx)", "workflow.Now(ctx).Sub(started)", "if err := workflow.Sleep(ctx, time.Minute); err != nil {",
		"workflow.Record(ctx, func() (string, error) { return os.Getenv(\"REGION\"), nil })", "workflow.Logger(ctx).Info(", "workflow.Rand(ctx).IntN(3)",
		"range slices.Sorted(maps.Keys(lines))", "n := lines[line]", "receipt, err := Charge(ctx, id, 1)", "return Charge(branch, id, 2)", "case verdictCase:",
	} {
		if !strings.Contains(source(), part) {
			t.Errorf("the source has no %s:\n%s", part, source())
		}
	}
}

// The test proves that go vet runs the command as a tool with a flag for each rule. The other tests
// run it as a tool with all rules.
func TestGEN4_TheCommandIsAVetTool(t *testing.T) {
	depth.NeedFull(t)
	dir := module(t, strings.ReplaceAll(faulty, "charge(context.Background()", "Charge(ctx"))
	if got := execute(t, dir); got.code != 0 {
		t.Fatalf("generate: %+v", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "-vettool="+self, "-clock", "./...")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "orders.go:21:13: time.Now reads the wall clock") || strings.Contains(string(out), "[log]") {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

func TestVet_ChecksFirst(t *testing.T) {
	got := execute(t, module(t, faulty), "vet")
	if got.code != exitMistake || !strings.Contains(got.stderr, "flow_gen.go: the file is missing") {
		t.Errorf("got %+v", got)
	}
}

func TestVet_AdviceIsNoFailure(t *testing.T) {
	dir := module(t, `package orders

import "github.com/flowgen/flowgen/runtime/workflow"

// Verdict holds a decision.
var Verdict = workflow.NewTopic[string]("verdict")

//flow:workflow
func listen(ctx workflow.Context, id string) error {
	for {
		if _, err := Verdict.Receive(ctx); err != nil {
			return err
		}
	}
}
`)
	if got := execute(t, dir); got.code != 0 {
		t.Fatalf("generate: %+v", got)
	}
	if got := execute(t, dir, "vet"); got.code != exitOK || got.stderr != "" {
		t.Errorf("without -advice: %+v", got)
	}
	if !depth.Full() {
		return // The go command analyzes all dependencies again for other flags of the tool.
	}
	got := execute(t, dir, "vet", "-advice", "-json", "./...")
	var report struct{ Reports []vet.Finding }
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err, got)
	}
	if got.code != exitOK || len(report.Reports) != 1 || report.Reports[0].Rule != "endless" || !report.Reports[0].Advice || report.Reports[0].Line != 10 {
		t.Errorf("with -advice: %+v, %+v", got, report)
	}
}

func TestVet_ExplainsRules(t *testing.T) {
	got := execute(t, t.TempDir(), "vet", "-explain", "maporder")
	if got.code != exitOK || !strings.HasPrefix(got.stdout, "# maporder\n") {
		t.Errorf("got %+v", got)
	}
	got = execute(t, t.TempDir(), "vet", "-explain", "maps")
	if got.code != exitUsage || !strings.Contains(got.stderr, "maporder") {
		t.Errorf("got %+v", got)
	}
}
