package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/newertest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// stored returns the data that the store contains about a run.
func stored(w *flowtest.World, run workflow.RunID) store.Loaded {
	w.T.Helper()
	got, err := w.Store.Load(w.Ctx, []store.Load{{Run: run, Inbox: true}})
	if err = errors.Join(err, got[0].Err); err != nil {
		w.T.Fatal(err)
	}
	return got[0]
}

// TestVER1_ARunOfANewerReleaseIsLeftToIt proves that workers block a run whose log contains an
// event of a newer release, as during a deployment. They log this once, write nothing, and continue
// with other runs. A repair leaves the run unchanged and reports the reason. A worker of the newer
// release completes the run.
func TestVER1_ARunOfANewerReleaseIsLeftToIt(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed atomic.Int64
		step := reserve.As(func(_ context.Context, n int) (int, error) { executed.Add(1); return 2 * n, nil })
		code := flowtest.As(deployed, func(ctx workflow.Context, n int) (int, error) {
			n, err := reserve.Call(ctx, n)
			if err == nil {
				n, err = workflow.Record(ctx, func() (int, error) { return n + 1, nil }) // operation that only the newer release has
			}
			if err == nil {
				_, err = flowtest.Wake.Receive(ctx)
			}
			return n, err
		})
		plain := flowtest.As(occupied, func(_ workflow.Context, n int) (int, error) { return n, nil })
		newer := newertest.New(w.Store, event.ValueRecorded)

		first := w.WorkOn(newer, worker.Config{}, code, step, charge.As(twice), plain)
		run := flowtest.Start(w, deployed, 4)
		w.Status(run, workflow.StatusWaiting)
		first.Stop()

		for range 2 {
			w.Work(worker.Config{}, code, step, plain)
		}
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		before := stored(w, run.ID())
		w.BlockedAs(run, "it has type 250", "use a newer release")
		for n := range 20 { // both workers claim runs
			if got := flowtest.Result(w, flowtest.Start(w, occupied, n)); got != n {
				t.Errorf("another run: got %d, want %d", got, n)
			}
		}
		// The store records the block before the worker logs it.
		w.Eventually("it is said that the run is blocked", func() bool { return len(w.Lines("run is blocked")) > 0 })
		if lines := w.Lines("run is blocked"); len(lines) != 1 || !strings.Contains(lines[0], "use a newer release") {
			t.Errorf("it was said %d times that the run is blocked, want once, and why: %q", len(lines), lines)
		}
		var last error
		for _, err := range run.Events(w.Ctx) {
			last = err
		}
		if of, ok := errors.AsType[*event.VersionError](last); !ok || of.Type != newertest.Type || errors.Is(last, event.ErrCorrupt) {
			t.Errorf("following ends with %v, want an error about the type", last)
		}
		found := w.Check()
		if len(found) != 1 || found[0].Invariant != 1 || found[0].Run != run.ID() || !strings.Contains(found[0].What+found[0].Explain, "newer release") {
			t.Errorf("fsck has found %v, want that a newer release has written the log", found)
		}
		blocked := stored(w, run.ID())
		if diff := cmp.Diff(before.Frames, blocked.Frames); diff != "" {
			t.Errorf("log (-before the run was blocked +after)\n%s", diff)
		}
		report, err := fsck.Repair(w.Ctx, w.Store, fsck.Options{})
		if errors.Is(err, fsck.ErrNotRepairable) != strings.Contains(t.Name(), "memory") || err != nil && !errors.Is(err, fsck.ErrNotRepairable) {
			t.Fatal(err)
		}
		for _, fix := range report.Fixes {
			if fix.Outcome != fsck.OutcomeRemains || fix.Run != run.ID() || !strings.Contains(fix.Why, "a newer release wrote it") {
				t.Errorf("a repair did %+v", fix)
			}
		}
		if n := len(report.Fixes); err == nil && n != 1 {
			t.Errorf("a repair says %d things, want one", n)
		}
		if diff := cmp.Diff(blocked, stored(w, run.ID())); diff != "" {
			t.Errorf("run (-before the repair +after)\n%s", diff)
		}

		last2 := w.WorkOn(newer, worker.Config{}, code, step, charge.As(twice), plain)
		if got, err := deployed.Get(last2.Client, run.ID()).Result(w.Ctx); err != nil || got != 9 {
			t.Errorf("result: got %d, %v, want 9", got, err)
		}
		if n := executed.Load(); n != 1 {
			t.Errorf("the step was executed %d times, want once", n)
		}
		if diff := cmp.Diff(before.Frames, stored(w, run.ID()).Frames[:len(before.Frames)]); diff != "" {
			t.Errorf("log (-before +once it has completed)\n%s", diff)
		}
	})
}
