package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/steplog"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// TestMain runs the test binary as the program if a test requests that, so that tests can kill a
// real process.
func TestMain(m *testing.M) {
	if os.Getenv("QUICKSTART_MAIN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func quickstart(t *testing.T, args ...string) (out string, killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "QUICKSTART_MAIN=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 && ctx.Err() == nil {
		return stdout.String(), true
	}
	if err != nil {
		t.Fatalf("quickstart %v: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), false
}

const wantResult = "completed: 49.90 paid for order-1001, 3 boxes, parcel order-1001-3, approved by ann"

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

func checkResult(t *testing.T, out string) {
	t.Helper()
	if got := lastLine(out); !strings.HasPrefix(got, "run wrun_") || !strings.HasSuffix(got, wantResult) {
		t.Errorf("last line is %q, want run wrun_… %s", got, wantResult)
	}
}

func TestQuickstart_CompletesInMemory(t *testing.T) {
	t.Parallel()
	out, _ := quickstart(t, "-store", "memory:")
	checkResult(t, out)
}

func TestQuickstart_FulfilsAnOrderOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, effects := "sqlite:"+filepath.Join(dir, "q.db"), filepath.Join(dir, "effects")
	first, _ := quickstart(t, "-store", db, "-effects", effects)
	checkResult(t, first)
	before := steplog.Executions(t, effects)
	second, _ := quickstart(t, "-store", db, "-effects", effects)
	if lastLine(first) != lastLine(second) {
		t.Errorf("second start ends with %q, first with %q", lastLine(second), lastLine(first))
	}
	if after := steplog.Executions(t, effects); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("second start executed steps: %v, before %v", after, before)
	}
}

func TestQuickstart_RefusesACrashAfterWhichNothingIsLeft(t *testing.T) {
	err := run(t.Context(), []string{"-crash-after", "12"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-tags sqlite") {
		t.Errorf("got %v, want an error that names the tag", err)
	}
}

// The test proves that the program stores its run in a file if it is built with the tag. It builds
// the program, because the test binary always contains SQLite.
func TestQuickstart_BuiltWithTheTagKeepsItsRunInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "quickstart")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "sqlite", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	start := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := start("-crash-after", "12"); err == nil {
		t.Errorf("the process was not killed:\n%s", out)
	}
	out, err := start()
	if err != nil || !strings.Contains(out, "found where an earlier process left it") {
		t.Errorf("second start: %v\n%s", err, out)
	}
	checkResult(t, out)
}

// The test proves that the program survives a kill at each event of its log. After a restart the
// result is the same, and no completed step is executed again. In make test, the events are
// sampled.
func TestSTEP2_QuickstartKilledAfterEachEventCompletesWithoutRepeatingSteps(t *testing.T) {
	const most = 30 // The number exceeds the length of the log.
	depth.EachEvent(t, 1, most, 4, killAndRestart)
}

func killAndRestart(t *testing.T, n int) {
	dir := t.TempDir()
	path, effects := filepath.Join(dir, "q.db"), filepath.Join(dir, "effects")
	args := []string{"-store", "sqlite:" + path, "-effects", effects}
	out, killed := quickstart(t, append(args, "-crash-after", fmt.Sprint(n))...)
	first := readLog(t, path)
	if !killed {
		if first.Events >= uint64(n) {
			t.Fatalf("the log has %d events, but the process was not killed after %d", first.Events, n)
		}
		checkResult(t, out)
		return
	}
	if first.Events < uint64(n) {
		t.Fatalf("killed after event %d, but the log has %d events", n, first.Events)
	}
	before := steplog.Executions(t, effects)
	out, _ = quickstart(t, args...)
	checkResult(t, out)
	total := readLog(t, path)
	for name, after := range steplog.Executions(t, effects) {
		again, open := after-before[name], total.Completed[name]-first.Completed[name]
		if name == "quickstart.ship" && open > 0 {
			open = 3 // Two attempts of this step always fail.
		}
		if again > open {
			t.Errorf("step %s was executed %d times after the kill, but only %d were not completed", name, again, open)
		}
	}
}

// readLog returns the attempts in the log of the only run.
func readLog(t *testing.T, path string) steplog.Attempts {
	t.Helper()
	st, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	id, err := st.Resolve(t.Context(), "order-1001")
	if err != nil {
		t.Fatal(err)
	}
	return steplog.Read(t, workflow.NewClient(st, workflow.ClientConfig{}), id)
}
