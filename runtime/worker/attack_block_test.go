package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A branch of the run calls a step that the worker does not know while another
// branch brings the run to its end: the end counts.
func TestVER1_BlockedRunWhoseStepsEndItHasEnded(t *testing.T) {
	unknown := aStep[int, int]("attack.unknown", shim.Policy{})
	w := newMemory(t)
	busy := newBarrier()
	defer busy.open()
	w.work(worker.Config{},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}),
		as(attackOnce, func(ctx workflow.Context, n int) (int, error) {
			a := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return attackStep.Call(ctx, n) })
			b := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
				if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
					return 0, err
				}
				return unknown.Call(ctx, n)
			})
			return workflow.First(ctx, a, b)
		}))
	run := start(w, attackOnce, 4)
	w.await("the step", busy.arrived)
	w.eventually("the run cannot go on", func() bool { return w.logs.count("run cannot go on here") == 1 })
	busy.open()
	if got := result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	if n := len(w.lines("run is blocked")); n != 0 {
		t.Errorf("a run that has completed is said to be blocked %d times", n)
	}
	w.healthy()
}

// misnumbering says of every run that its log is longer than it is.
type misnumbering struct{ between }

func (s *misnumbering) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.between.Claim(ctx, c)
	for i := range got.Runs {
		got.Runs[i].Seq++
	}
	return got, err
}

// A log that is not what the store says of it is a damage, and not a race that
// could be won by trying again.
func TestDecode_LogThatEndsElsewhereThanTheStoreSaysBlocksTheRun(t *testing.T) {
	st := &misnumbering{between{Store: memstore.New()}}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	run := start(w, attackOnce, 4)
	w.eventually("the run is blocked", func() bool {
		info, err := run.Info(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return info.Status == workflow.StatusBlocked
	})
	w.healthy()
}

// recovered starts runs whose first worker dies at once.
func (w *world) recovered(n int) []*workflow.Run[int] {
	w.t.Helper()
	dead := store.Session{ID: "dead", TTL: time.Hour}
	if err := w.store.OpenSession(w.ctx, dead); err != nil {
		w.t.Fatal(err)
	}
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, start(w, attackSleep, i))
		if _, err := w.store.ClaimRun(w.ctx, 0, dead.ID, event.NewToken(), runs[i].ID()); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.store.CloseSession(w.ctx, 0, dead.ID); err != nil {
		w.t.Fatal(err)
	}
	return runs
}

// Runs that may have killed workers are executed one at a time, also when their
// code is still in memory.
func TestREC4_SuspectsThatWakeFromMemoryAreExecutedOneAtATime(t *testing.T) {
	w := newVirtual(t)
	var inside, most atomic.Int64
	first := newBarrier()
	defer first.open()
	code := as(attackSleep, func(ctx workflow.Context, n int) (int, error) {
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		first.pass(context.Background()) // the end of the sleep is progress as soon as it is committed
		return 2 * n, nil
	})
	runs := w.recovered(2)
	// A turn lasts for as long as the budget, and the clock may be moved on by some
	// minutes while a run is in its turn.
	w.work(worker.Config{Recoveries: 2, RunBudget: 1000 * time.Hour}, code)
	for _, run := range runs {
		w.reach(run, event.WaitCreated, 1)
	}
	w.eventually("both are parked", func() bool {
		for _, run := range runs {
			if info, err := run.Info(w.ctx); err != nil || info.Status != workflow.StatusSleeping {
				return false
			}
		}
		return true
	})
	for began := false; !began; { // a wait that begins meanwhile may miss the first
		w.clock.Advance(time.Minute)
		select {
		case <-first.arrived:
			began = true
		default:
			if err := pause(w.ctx, 5*time.Millisecond); err != nil {
				t.Fatal("no suspect was executed")
			}
		}
	}
	if err := pause(w.ctx, 20*time.Millisecond); err != nil { // time for the second to go astray
		t.Fatal(err)
	}
	first.open()
	if got := result(w, runs[0]) + result(w, runs[1]); got != 2 {
		t.Errorf("results: got %d, want 2 in all", got)
	}
	if most.Load() != 1 {
		t.Errorf("%d suspects were executed at once", most.Load())
	}
	w.healthy()
}
