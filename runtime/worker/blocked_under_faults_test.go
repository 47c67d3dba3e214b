package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A branch of the run calls a step that the worker does not have, while another branch ends the
// run: the run has ended, and is not blocked.
func TestVER1_BlockedRunWhoseStepsEndItHasEnded(t *testing.T) {
	unknown := flowtest.AStep[int, int]("attack.unknown", shim.Policy{})
	w := flowtest.NewMemory(t)
	busy := newBarrier()
	defer busy.open()
	w.Work(worker.Config{},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}),
		flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, n int) (int, error) {
			a := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.AttackStep.Call(ctx, n) })
			b := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
				if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
					return 0, err
				}
				return unknown.Call(ctx, n)
			})
			return workflow.First(ctx, a, b)
		}))
	run := flowtest.Start(w, flowtest.AttackOnce, 4)
	w.Await("the step", busy.arrived)
	w.Eventually("the run cannot go on", func() bool { return w.Logs.Count("run cannot go on here") == 1 })
	busy.open()
	if got := flowtest.Result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	w.StopWorkers()
	if n := len(w.Lines("run is blocked")); n != 0 {
		t.Errorf("a run that has completed is said to be blocked %d times", n)
	}
	w.Healthy()
}

// misnumbering is a store that reports every log to be longer than it is.
type misnumbering struct{ flowtest.Between }

func (s *misnumbering) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Between.Claim(ctx, c)
	for i := range got.Runs {
		got.Runs[i].Seq++
	}
	return got, err
}

// A log that does not match what the store reports about it is damaged. It is not a race that a
// retry could win.
func TestDecode_LogThatEndsElsewhereThanTheStoreSaysBlocksTheRun(t *testing.T) {
	st := &misnumbering{flowtest.Between{Store: memstore.New()}}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 4)
	w.Eventually("the run is blocked", func() bool {
		info, err := run.Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		return info.Status == workflow.StatusBlocked
	})
	w.Healthy()
}

// Runs that may have killed workers are executed one at a time, even if their code is still in
// memory.
func TestREC4_QuarantinedRunsThatWakeFromMemoryAreExecutedOneAtATime(t *testing.T) {
	w := flowtest.NewVirtual(t)
	var inside, most atomic.Int64
	first := newBarrier()
	defer first.open()
	code := flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) {
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		first.pass(context.Background()) // the end of the sleep counts as progress as soon as it is committed
		return 2 * n, nil
	})
	runs := w.Recovered(2)
	// A turn lasts for the run budget, and the clock may advance by some minutes while a run is in
	// its turn.
	w.Work(worker.Config{Recoveries: 2, RunBudget: 1000 * time.Hour}, code)
	for _, run := range runs {
		w.Reach(run, event.WaitCreated, 1)
	}
	w.Eventually("both are parked", func() bool {
		for _, run := range runs {
			if info, err := run.Info(w.Ctx); err != nil || info.Status != workflow.StatusSleeping {
				return false
			}
		}
		return true
	})
	for began := false; !began; { // a wait that begins meanwhile may miss the first advance
		w.Clock.Advance(time.Minute)
		select {
		case <-first.arrived:
			began = true
		default:
			if err := pause(w.Ctx, 5*time.Millisecond); err != nil {
				t.Fatal("no quarantined run was executed")
			}
		}
	}
	if err := pause(w.Ctx, 20*time.Millisecond); err != nil { // time for a wrong execution of the second run
		t.Fatal(err)
	}
	first.open()
	if got := flowtest.Result(w, runs[0]) + flowtest.Result(w, runs[1]); got != 2 {
		t.Errorf("results: got %d, want 2 in all", got)
	}
	if most.Load() != 1 {
		t.Errorf("%d quarantined runs were executed at once", most.Load())
	}
	w.Healthy()
}
