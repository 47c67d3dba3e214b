package contest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/lab/versus/internal/contest"
	"github.com/flowgen/flowgen/lab/versus/internal/measure"
	"github.com/flowgen/flowgen/lab/versus/internal/peer"
)

// TestMain executes the order of a process that a contest has started.
func TestMain(m *testing.M) {
	isChild, err := contest.Obey(context.Background())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case !isChild:
		os.Exit(m.Run())
	}
}

// unreachable reports whether the server of a store is not installed.
func unreachable(r *measure.Result) bool { return strings.Contains(r.Skipped, " is missing") }

func TestContest_MeasuresEachSystemWithEachWorkloadThatFits(t *testing.T) {
	c := contest.Contest{
		Systems: peer.Systems, Workloads: measure.Workloads, Options: measure.Options{Concurrency: 4, Duration: 50 * time.Millisecond}, Rounds: 1,
		Dir: directory(t), Progress: testWriter{t},
	}
	results, versions, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, w := range measure.Workloads {
		for _, s := range peer.Systems {
			if w.Fits(s) {
				want++
			}
		}
	}
	if len(results) != want {
		t.Errorf("%d results, want %d", len(results), want)
	}
	for _, r := range results {
		name := r.Workload + " with " + r.System + " on " + r.Store
		switch {
		case unreachable(r):
			t.Logf("%s: %s", name, r.Skipped)
		case r.Skipped != "":
			t.Errorf("%s: %s", name, r.Skipped)
		case r.Runs == 0 || r.Executions != r.Steps || r.P50 <= 0 || r.P99 < r.P50:
			t.Errorf("%s: %+v, want runs whose steps were executed once", name, r)
		case contest.Workload(r.Workload).Throughput != (r.StepsPerSecond > 0):
			t.Errorf("%s: %.1f steps per second", name, r.StepsPerSecond)
		}
		if r.Store != string(peer.SQLite) && !unreachable(r) && versions[r.Store] == "" {
			t.Errorf("%s: the version of the server is missing", name)
		}
	}
}

func TestContest_ReportsWhyASystemWasSkipped(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c := contest.Contest{
		Systems: []*peer.System{contest.System("flowgen@Redis")}, Workloads: measure.Workloads[:1], Rounds: 1,
		Options: measure.Options{Concurrency: 1, Duration: time.Millisecond}, Dir: directory(t), Progress: testWriter{t},
	}
	results, _, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || !strings.Contains(results[0].Skipped, "redis-server is missing") {
		t.Errorf("results %+v, want one that was skipped because redis-server is missing", results)
	}
}

// directory returns a directory that other users can pass, which the server of PostgreSQL needs.
func directory(t *testing.T) string {
	dir, err := os.MkdirTemp("", "versus-test-") //nolint:usetesting // the directory of the test is not accessible to another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return dir
}

// testWriter writes to the log of a test.
type testWriter struct{ t *testing.T }

var _ io.Writer = testWriter{}

// Write logs a line.
func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
