package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestMain runs the test binary as the program if a test requests that, so that tests can kill a
// real process.
func TestMain(m *testing.M) {
	if os.Getenv("ONBOARDING_MAIN") == "1" {
		if after, err := strconv.ParseUint(os.Getenv("ONBOARDING_CRASH_AFTER"), 10, 64); err == nil && after > 0 {
			wrap = func(s store.Store) store.Store { return orders.Crashing(s, after) }
		}
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func onboard(t *testing.T, crashAfter int, args ...string) (out string, killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append(args, "-patience", "150ms")...)
	cmd.Env = append(os.Environ(), "ONBOARDING_MAIN=1", fmt.Sprint("ONBOARDING_CRASH_AFTER=", crashAfter))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 && ctx.Err() == nil {
		return stdout.String(), true
	}
	if err != nil {
		t.Fatalf("onboarding %v: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), false
}

func checkResult(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if got, want := lines[len(lines)-1], `ann@example.com: "account of ann@example.com", refused: ""`; got != want {
		t.Errorf("the last line is %q, want %q\n%s", got, want, out)
	}
}

// executions returns the number of executions for each step and key, according to the effects file.
func executions(t *testing.T, path string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		n[strings.Fields(line)[1]]++
	}
	return n
}

func TestOnboarding_EndsRightOnEachStore(t *testing.T) {
	for name, url := range map[string]string{
		"memory": "memory:", "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "o.db"), "redis": redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := onboard(t, 0, "-store", url)
			checkResult(t, out)
			if !strings.Contains(out, "/verify?run=wrun_") || !strings.Contains(out, "mail to ann@example.com: Welcome") {
				t.Errorf("mails are missing:\n%s", out)
			}
		})
	}
}

func TestOnboarding_RefusesABadAddress(t *testing.T) {
	out, _ := onboard(t, 0, "-store", "memory:", "-email", "ann")
	if !strings.Contains(out, `refused: "nobody has such an address"`) {
		t.Errorf("got\n%s", out)
	}
}

// The test proves that the program survives SIGKILL at each event of its log. After a restart the
// run completes correctly, and no completed step is executed again. In make test, the events are
// sampled.
func TestSTEP2_OnboardingKilledAfterEachEventEndsRight(t *testing.T) {
	const most = 45 // The number exceeds the length of the log.
	depth.EachEvent(t, 1, most, 5, killAndRestart)
}

func killAndRestart(t *testing.T, n int) {
	dir := t.TempDir()
	effects := filepath.Join(dir, "effects")
	args := []string{"-store", "sqlite:" + filepath.Join(dir, "o.db"), "-effects", effects}
	out, killed := onboard(t, n, args...)
	if !killed {
		checkResult(t, out)
		return
	}
	done := completedSteps(out)
	before := executions(t, effects)
	out, _ = onboard(t, 0, args...)
	checkResult(t, out)
	after := executions(t, effects)
	for _, key := range done {
		if after[key] != before[key] {
			t.Errorf("step %s had completed and was executed again", key)
		}
	}
}

// completedSteps returns the steps that the program printed as completed before it was killed.
func completedSteps(out string) (keys []string) {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "step" {
			keys = append(keys, f[2])
		}
	}
	return keys
}

// The test proves that the server accepts only valid links and explains why other links are
// invalid.
func TestVerify_AnswersForLinksThatAreNotValid(t *testing.T) {
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	defer func() { _ = client.Close() }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serve(l, client)
	defer func() { _ = server.Close() }()
	for query, want := range map[string]int{"": http.StatusBadRequest, "run=x": http.StatusBadRequest, "run=wrun_01M86M3EES50JD8XFBFKFBD09X&token=t": http.StatusGone} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/verify?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%q: got %s, want %d", query, answer.Status, want)
		}
	}
}
