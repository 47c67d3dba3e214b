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
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/steplog"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestMain runs the test binary as the program if a test requests that. The program starts itself as
// the function and as the dispatcher.
func TestMain(m *testing.M) {
	if os.Getenv("FUNCTIONS_MAIN") == "1" {
		main()
		os.Exit(0)
	}
	redistest.Main(m)
}

// patience is the maximum duration of a program. It suffices on a busy machine.
const patience = 2 * time.Minute

// functions executes the program.
func functions(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "FUNCTIONS_MAIN=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("functions %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// checkOutput checks that the order was fulfilled, and that kills functions were killed.
func checkOutput(t *testing.T, out string, kills int) {
	t.Helper()
	if want := "completed: 49.90 paid for order-1001, 3 boxes, parcel order-1001-3, approved by ann\n"; !strings.Contains(out, want) {
		t.Errorf("the output does not contain %q:\n%s", want, out)
	}
	if got := strings.Count(out, "platform: function was killed"); got != kills {
		t.Errorf("%d functions were killed, want %d:\n%s", got, kills, out)
	}
	if !strings.Contains(out, ": parked, due in ") {
		t.Errorf("the output has no invocation that has parked the run:\n%s", out)
	}
}

// open opens a store with a client.
func open(t *testing.T, url string) *workflow.Client {
	t.Helper()
	st, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return client
}

// checkLog compares the log of the only run with the executions that its steps have recorded: an
// execution without an event that precedes it, or a step that completed twice, is an error. It
// returns the length of the log.
func checkLog(t *testing.T, client *workflow.Client, effects string) uint64 {
	t.Helper()
	id, err := client.Store().Resolve(t.Context(), "order-1001")
	if err != nil {
		t.Fatal(err)
	}
	a, executed := steplog.Read(t, client, id), steplog.Executions(t, effects)
	for name, want := range map[string]int{"quickstart.charge": 1, "quickstart.pack": 3, "quickstart.ship": 1} {
		if a.Completed[name] != want || executed[name] > a.Began[name] || executed[name] < want {
			t.Errorf("step %s: %d completed, %d executed, %d attempts; want %d completed and not more executed than attempted",
				name, a.Completed[name], executed[name], a.Began[name], want)
		}
	}
	return a.Events
}

func TestOPS7_FunctionsFulfilAnOrder(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "f.db"),
		"redis":  redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			effects := filepath.Join(t.TempDir(), "effects")
			checkOutput(t, functions(t, "-store", url, "-effects", effects), 0)
			checkLog(t, open(t, url), effects)
		})
	}
}

// TestOPS7_FunctionKilledAfterEachEventRepeatsNoCompletedStep kills the process of the function with
// SIGKILL after each event of the log. In make test, the events are sampled.
func TestOPS7_FunctionKilledAfterEachEventRepeatsNoCompletedStep(t *testing.T) {
	t.Parallel()
	const most = 27 // Events after this one may not exist.
	depth.EachEvent(t, 2, most, 4, func(t *testing.T, n int) {
		url, effects := "sqlite:"+filepath.Join(t.TempDir(), "f.db"), filepath.Join(t.TempDir(), "effects")
		out := functions(t, "-store", url, "-effects", effects, "-crash-after", fmt.Sprint(n))
		kills := 1
		if checkLog(t, open(t, url), effects) <= uint64(n)+1 { // The last commit holds two events.
			kills = strings.Count(out, "platform: function was killed") // The command may end before it sees the kill.
		}
		checkOutput(t, out, kills)
	})
}

// On Redis, the run of a killed function continues when the lease of its invocation has expired.
func TestOPS7_FunctionKilledOnRedisRepeatsNoCompletedStep(t *testing.T) {
	t.Parallel()
	url, effects := redistest.Start(t).URL(), filepath.Join(t.TempDir(), "effects")
	checkOutput(t, functions(t, "-store", url, "-effects", effects, "-crash-after", "10"), 1)
	checkLog(t, open(t, url), effects)
}

func TestFunctions_AreNotRestartedIfTheyEndByThemselves(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-store", "sqlite:"+filepath.Join(t.TempDir(), "f.db"))
	// The variable is an error of the configuration for the function, and is not read by the command.
	cmd.Env = append(os.Environ(), "FUNCTIONS_MAIN=1", "FLOWGEN_STORE_PASSWORD=x")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("the function has ended: exit status 1")) || bytes.Contains(out, []byte("was killed")) {
		t.Errorf("the command ended with %v, want an error about its function:\n%s", err, out)
	}
}

func TestRun_RefusesArguments(t *testing.T) {
	if err := run(t.Context(), []string{"now"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"now"`) {
		t.Errorf("got %v, want an error about the argument", err)
	}
}
