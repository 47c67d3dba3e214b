package mistakes_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/mistakes"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// world contains a store with a stopped clock, and the log output of the workers on it.
type world struct {
	t      *testing.T
	client *workflow.Client
	clock  *storetest.Clock
	log    *lines
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: storetest.NewClock(), log: newLines()}
	st := memstore.NewWith(memstore.Config{Clock: w.clock})
	w.client = workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	t.Cleanup(func() {
		if err := errors.Join(w.client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// work starts a worker and returns a function that stops it.
func (w *world) work() (stop func()) {
	w.t.Helper()
	worker := worker.New(w.client, worker.Config{
		Heartbeat: 10_000 * time.Hour, ClaimExpiry: 20_000 * time.Hour, BlockedAfter: 20 * time.Millisecond,
	})
	mistakes.Register(worker)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	w.t.Cleanup(cancel)
	return ctx
}

// panics executes a workflow. It fails the test unless the run ends with a panic whose text
// contains text.
func panics[T any](t *testing.T, d workflow.Definition[workflow.None, T], text string) {
	t.Helper()
	w := newWorld(t)
	w.work()
	_, err := d.Execute(w.ctx(), w.client, workflow.None{})
	var failed *workflow.RunError
	if !errors.As(err, &failed) || failed.Code != "panic" || !strings.Contains(failed.Reason, text) {
		t.Fatalf("got %v, want a panic that says %q", err, text)
	}
	if !strings.Contains(failed.Stack(), "mistakes.go") {
		t.Errorf("the stack does not name the line:\n%s", failed.Stack())
	}
}

func TestBorrows_FailsTheRunAndNamesBothBranches(t *testing.T) {
	panics(t, mistakes.Borrows, "branch borrows/go#1 uses the context of branch borrows: use the context that workflow.Go passes to the function")
}

func TestHides_FailsTheRun(t *testing.T) {
	panics(t, mistakes.Hides, "a durable operation was called inside of workflow.Record")
}

func TestMeets_FailsAtOnceAndNamesWhoWaitsForWhom(t *testing.T) {
	w := newWorld(t)
	w.work()
	_, err := mistakes.Meets.Execute(w.ctx(), w.client, workflow.None{})
	var dead *workflow.DeadlockError
	if !errors.As(err, &dead) || len(dead.Waits) != 3 {
		t.Fatalf("got %v, want a deadlock of three branches", err)
	}
	for i, want := range []workflow.BranchWait{
		{Branch: "meets/go#1", Branches: []string{"meets/go#2"}, Knot: true},
		{Branch: "meets/go#2", Branches: []string{"meets/go#1"}, Knot: true},
		{Branch: "meets", Branches: []string{"meets/go#1"}},
	} {
		got := dead.Waits[i]
		if got.Branch != want.Branch || !slices.Equal(got.Branches, want.Branches) || got.Knot != want.Knot || !strings.Contains(got.Position, "mistakes.go:") {
			t.Errorf("got %+v, want %+v in mistakes.go", got, want)
		}
	}
}

func TestAsks_IsBlockedWhenItDecidesOtherwise(t *testing.T) {
	w := newWorld(t)
	stop := w.work()
	run, err := mistakes.Asks.Start(w.ctx(), w.client, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range run.Events(w.ctx(), workflow.Types(event.WaitCreated)) {
		if err != nil || e.Due.IsZero() {
			t.Fatal(e, err)
		}
		break
	}
	stop()
	mistakes.Weekday = time.Friday
	t.Cleanup(func() { mistakes.Weekday = time.Monday })
	w.clock.Advance(time.Hour)
	w.work()
	w.log.await(w.ctx(), t, "run is blocked")
	var info workflow.RunInfo
	for ctx := w.ctx(); info.Status != workflow.StatusBlocked; { // The worker writes the log line before it records the status.
		if info, err = run.Info(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"does not fit this code: event 3 of its log is step_created mistakes.work (key asks/mistakes.work#1), but the code asks for it with other data at ",
		"mistakes.go:", `"plan"`, `"party"`,
	} {
		if !strings.Contains(info.Blocked, text) {
			t.Errorf("%q is not in\n%s", text, info.Blocked)
		}
	}
}

func TestBlocks_IsReportedWhileOtherRunsGoOn(t *testing.T) {
	w := newWorld(t)
	w.work()
	gate := make(chan struct{})
	mistakes.Gate = gate
	defer close(gate)
	if _, err := mistakes.Blocks.Start(w.ctx(), w.client, workflow.None{}); err != nil {
		t.Fatal(err)
	}
	w.log.await(w.ctx(), t, "code of a run blocks outside of the durable operations")
	_, err := mistakes.Hides.Execute(w.ctx(), w.client, workflow.None{}) // The run fails immediately.
	if _, failed := errors.AsType[*workflow.RunError](err); !failed {
		t.Errorf("another run did not go on: %v", err)
	}
}

// lines collects the lines of a log.
type lines struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // closed when another line arrives
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.b.Write(p)
}

// await waits until a line that contains text has been logged.
func (l *lines) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for {
		l.mu.Lock()
		found, more := strings.Contains(l.b.String(), text), l.more
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%q was not logged", text)
		}
	}
}
