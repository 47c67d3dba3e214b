package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

const week = 7 * 24 * time.Hour

// purges is a store on virtual time that tells what its one worker does to
// purge it, and fails the first calls if asked to.
type purges struct {
	store.Store
	clock *storetest.Clock
	calls atomic.Int64
	armed atomic.Bool // the worker waits to look again
	fail  int64
}

func (p *purges) Unwrap() store.Store { return p.Store }

func (p *purges) Clock() store.Clock { return purgeClock{p.clock, p} }

func (p *purges) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	p.armed.Store(false)
	if p.calls.Add(1) <= p.fail {
		return 0, time.Time{}, errors.New("the purge was struck by lightning")
	}
	inner, _ := store.As[store.Purger](p.Store)
	return inner.Purge(ctx, partition, limit)
}

func (p *purges) Delete(ctx context.Context, run event.RunID) error {
	inner, _ := store.As[store.Purger](p.Store)
	return inner.Delete(ctx, run)
}

// purgeClock notices when the worker begins to wait for its next purge: nothing
// else of it waits for about a minute.
type purgeClock struct {
	*storetest.Clock
	p *purges
}

const lookAtMost = 72 * time.Second

func (c purgeClock) AfterFunc(d time.Duration, f func()) func() bool {
	stop := c.Clock.AfterFunc(d, f)
	if d >= 10*time.Second && d <= lookAtMost {
		c.p.armed.Store(true)
	}
	return stop
}

// look lets just enough time pass for the one worker to look for runs to
// purge, and waits until it has done so.
func (w *world) look(p *purges) {
	w.t.Helper()
	w.eventually("the worker waits for its next purge", p.armed.Load)
	calls := p.calls.Load()
	w.clock.Advance(lookAtMost)
	w.eventually("the worker has purged", func() bool { return p.calls.Load() > calls && p.armed.Load() })
}

// onVirtualTime runs a test on stores whose time stands still until the test
// advances it.
func onVirtualTime(t *testing.T, test func(t *testing.T, w *world, p *purges)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T, store.Clock) store.Store{
		"memory": func(_ *testing.T, c store.Clock) store.Store {
			return memstore.NewWith(memstore.Config{Clock: c})
		},
		"memory in 3 partitions": func(_ *testing.T, c store.Clock) store.Store {
			return memstore.NewWith(memstore.Config{Clock: c, Partitions: 3})
		},
		"sqlite": func(t *testing.T, c store.Clock) store.Store {
			st, err := sqlitestore.OpenWith(filepath.Join(t.TempDir(), "flows.db"), sqlitestore.Config{Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			p := &purges{Store: open(t, clock), clock: clock}
			w := newWorld(t, p, workflow.ClientConfig{})
			w.clock = clock
			test(t, w, p)
		})
	}
}

// snapshot returns what the store holds, which must be sound.
func (w *world) snapshot() *store.Snapshot {
	w.t.Helper()
	inspector, _ := store.As[store.Inspector](w.store)
	snap, err := inspector.Inspect(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range fsck.Check(snap) {
		w.t.Errorf("fsck: %v", f)
	}
	return snap
}

// passUntil lets time pass, minute by minute, until cond holds.
func (w *world) passUntil(what string, cond func() bool) {
	w.t.Helper()
	w.eventually(what, func() bool {
		if cond() {
			return true
		}
		w.clock.Advance(time.Minute)
		return false
	})
}

// kept returns the ids of the runs that can be found.
func (w *world) kept() map[workflow.RunID]bool {
	w.t.Helper()
	found := map[workflow.RunID]bool{}
	for run, err := range w.client.List(w.ctx, workflow.Filter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		found[run.ID] = true
	}
	return found
}

func TestRUN13_AFinishedRunIsKeptSevenDaysAndThenNothingOfItIsLeft(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, w *world, p *purges) {
		w.work(worker.Config{}, parks)
		run := start(w, parker, "x", workflow.WithID("order-1"), workflow.WithTags(map[string]string{"customer": "7"}))
		w.reach(run, event.WaitCreated, 1)
		w.clock.Advance(30 * 24 * time.Hour) // it lives for longer than it will be kept
		w.look(p)
		if err := wake.Send(w.ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		result(w, run)

		w.clock.Advance(week - 2*lookAtMost)
		w.look(p)
		if got := result(w, run); got != "up" {
			t.Errorf("result shortly before its time: got %q", got)
		}
		w.clock.Advance(lookAtMost)
		w.look(p)
		left := w.snapshot()
		want := &store.Snapshot{Now: left.Now, Leases: left.Leases, Wakes: left.Wakes}
		if diff := cmp.Diff(want, left, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("left behind (-want +got)\n%s", diff)
		}
		for op, find := range map[string]func() error{
			"Result":  func() error { _, err := run.Result(w.ctx); return err },
			"Info":    func() error { _, err := run.Info(w.ctx); return err },
			"GetByID": func() error { _, err := parker.GetByID(w.client, "order-1").Info(w.ctx); return err },
			"Send":    func() error { return wake.Send(w.ctx, run, "too late") },
			"Delete":  func() error { return run.Delete(w.ctx) },
		} {
			if err := find(); !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("%s: got %v, want ErrRunNotFound", op, err)
			}
		}
		if logged := w.logs.count("level=WARN"); logged > 0 {
			t.Errorf("%d warnings were logged", logged)
		}
	})
}

func TestRUN13_RetentionIsThatOfTheWorkflowUnlessTheStartSaysOtherwise(t *testing.T) {
	usual := flow[string, string]("usual")
	brief := shim.NewWorkflow[string, string]("test.brief", "in", shim.WorkflowPolicy{Retention: time.Hour})
	same := func(_ workflow.Context, in string) (string, error) { return in, nil }
	onVirtualTime(t, func(t *testing.T, w *world, p *purges) {
		w.work(worker.Config{}, as(usual, same), as(brief, same))
		for _, tt := range []struct {
			of           workflow.Definition[string, string]
			opts         []workflow.StartOption
			logged, want time.Duration
		}{
			{usual, nil, 0, week},
			{usual, []workflow.StartOption{workflow.WithRetention(3 * time.Hour)}, 3 * time.Hour, 3 * time.Hour},
			{brief, nil, time.Hour, time.Hour},
			{brief, []workflow.StartOption{workflow.WithRetention(5 * time.Hour)}, 5 * time.Hour, 5 * time.Hour},
			{usual, []workflow.StartOption{workflow.WithRetention(time.Second)}, time.Second, 2 * time.Minute},
		} {
			run := start(w, tt.of, "x", tt.opts...)
			result(w, run)
			if spec := w.log(run)[0].Spec; spec.Retention != tt.logged {
				t.Errorf("a run of %s with %d options logs a retention of %v, want %v", tt.of.Name(), len(tt.opts), spec.Retention, tt.logged)
			}
			ended := w.clock.Now()
			w.clock.Advance(tt.want - lookAtMost - time.Millisecond)
			w.look(p)
			if !w.kept()[run.ID()] {
				t.Errorf("a run of %s with %d options is gone after %v, want %v", tt.of.Name(), len(tt.opts), w.clock.Now().Sub(ended), tt.want)
			}
			w.clock.Advance(time.Millisecond)
			w.look(p)
			if w.kept()[run.ID()] {
				t.Errorf("a run of %s with %d options is still there after %v, want %v", tt.of.Name(), len(tt.opts), w.clock.Now().Sub(ended), tt.want)
			}
		}
	})
}

func TestRUN13_ARetentionThatIsNotPositiveIsRefused(t *testing.T) {
	w := newMemory(t)
	for _, d := range []time.Duration{0, -time.Hour} {
		if _, err := echo.Start(w.ctx, w.client, "x", workflow.WithRetention(d)); err == nil || !containsAll(err.Error(), "WithRetention", d.String()) {
			t.Errorf("retention of %v: got error %v", d, err)
		}
	}
	if kept := w.kept(); len(kept) > 0 {
		t.Errorf("%d runs were started", len(kept))
	}
}

func TestRUN13_ABacklogIsPurgedInOneGo(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, w *world, p *purges) {
		w.work(worker.Config{}, echoes)
		for range 250 { // more than two batches
			ended(w, "x", workflow.WithRetention(time.Hour))
		}
		w.clock.Advance(time.Hour)
		w.look(p)
		if left := len(w.kept()); left > 0 {
			t.Errorf("%d runs are left", left)
		}
	})
}

func TestRUN13_SeveralWorkersPurgeTogether(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, w *world, _ *purges) {
		for range 3 {
			w.work(worker.Config{}, echoes)
		}
		const runs = 250 // more than one batch
		for n := range runs {
			result(w, start(w, echo, "x", workflow.WithID(fmt.Sprint("order-", n)), workflow.WithRetention(time.Hour)))
		}
		w.clock.Advance(time.Hour)
		w.passUntil("all runs are gone", func() bool { return len(w.snapshot().Runs) == 0 })
		if left := w.snapshot(); len(left.LastEnded)+len(left.Purges)+len(left.Seen) > 0 {
			t.Errorf("left behind: %d workflow ids, %d times, %d chains", len(left.LastEnded), len(left.Purges), len(left.Seen))
		}
		if logged := w.logs.count("purge"); logged > 0 {
			t.Errorf("%d lines were logged about purging", logged)
		}
	})
}

func TestRUN13_AWorkerThatCannotPurgeSaysSoAndTriesAgain(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, w *world, p *purges) {
		fails := 2 * w.store.Partitions()
		p.fail = int64(fails)
		w.work(worker.Config{}, echoes)
		run := start(w, echo, "x", workflow.WithRetention(time.Hour))
		result(w, run)
		w.clock.Advance(time.Hour)
		for range 3 {
			w.look(p)
		}
		if w.kept()[run.ID()] {
			t.Error("the run is still there")
		}
		if n, want := w.logs.count("struck by lightning"), bits.Len(uint(fails)); n != want { // at powers of two
			t.Errorf("%d failures were logged %d times, want %d", fails, n, want)
		}
	})
}

// forgetless is a store that keeps everything.
type forgetless struct{ store.Store }

func TestRUN13_AStoreThatCannotPurgeKeepsEverything(t *testing.T) {
	w := newWorld(t, forgetless{memstore.New()}, workflow.ClientConfig{})
	w.work(worker.Config{}, echoes)
	run := start(w, echo, "x", workflow.WithRetention(time.Hour))
	result(w, run)
	_, bulk := w.client.Delete(w.ctx, workflow.Filter{})
	for op, err := range map[string]error{"one": run.Delete(w.ctx), "many": bulk} {
		if !errors.Is(err, workflow.ErrNotSupported) {
			t.Errorf("delete %s: got %v, want ErrNotSupported", op, err)
		}
	}
}

func TestRUN13_AWorkerEndsWithItsStoreAlsoWhileItWaitsToPurge(t *testing.T) {
	clock := storetest.NewClock()
	p := &purges{Store: memstore.NewWith(memstore.Config{Clock: clock}), clock: clock}
	w := newWorld(t, p, workflow.ClientConfig{})
	wk := worker.New(w.client, worker.Config{})
	echoes(wk)
	done := make(chan error, 1)
	go func() { done <- wk.Run(w.ctx) }()
	w.eventually("the worker waits for its next purge", p.armed.Load)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("Run returned %v, want store.ErrClosed", err)
		}
	case <-w.ctx.Done():
		t.Error("Run did not return")
	}
}
