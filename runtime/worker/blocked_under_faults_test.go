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

// TestVER1_BlockedRunWhoseStepsEndItHasEnded proves that a run completes if one branch calls a step
// that the worker does not have while another branch ends the run. The run must not be reported as
// blocked.
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
	w.Eventually("the run cannot go on", func() bool { return w.Logs.Count("run cannot continue on this worker") == 1 })
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

// misnumbering is a store whose claims report one event more than the log contains.
type misnumbering struct{ flowtest.Between }

func (s *misnumbering) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Between.Claim(ctx, c)
	for i := range got.Runs {
		got.Runs[i].Seq++
	}
	return got, err
}

// TestDecode_LogThatEndsElsewhereThanTheStoreSaysBlocksTheRun proves that a run is blocked if its
// log does not end at the position that the store reports. Such a log is damaged, and a retry
// cannot succeed.
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

// TestREC4_QuarantinedRunsThatWakeFromMemoryAreExecutedOneAtATime proves that quarantined runs are
// executed one at a time even if they are resumed from memory.
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
		first.pass(context.Background()) // The committed end of the sleep counts as progress.
		return 2 * n, nil
	})
	runs := recovered(w, 2)
	// A turn ends after the run budget. The clock may advance by some minutes during a turn.
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
	for began := false; !began; { // A timer that is set after an advance needs another advance.
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
	if err := pause(w.Ctx, 20*time.Millisecond); err != nil { // time for the second run to be executed by mistake
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

// recovered starts n runs whose first owner, a session without a worker, has ended.
func recovered(w *flowtest.World, n int) []*workflow.Run[int] {
	w.T.Helper()
	dead := store.Session{ID: "dead", TTL: time.Hour}
	flowtest.Order(w.T, w.Store.OpenSession(w.Ctx, dead))
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, flowtest.Start(w, flowtest.AttackSleep, i))
		_, err := w.Store.ClaimRun(w.Ctx, 0, dead.ID, event.NewToken(), runs[i].ID())
		flowtest.Order(w.T, err)
	}
	flowtest.Order(w.T, w.Store.CloseSession(w.Ctx, 0, dead.ID))
	return runs
}
