package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	deployed = flow[int, int]("deployed")
	occupied = flow[int, int]("occupied")
	reserve  = aStep[int, int]("deploy.reserve", shim.Policy{})
	charge   = aStep[int, int]("deploy.charge", shim.Policy{})
	hog      = aStep[int, int]("deploy.hog", shim.Policy{})
)

// afterwards is code that calls a step, and then waits for messages.
func afterwards(first stepOf[int, int], messages int) func(workflow.Context, int) (int, error) {
	return func(ctx workflow.Context, n int) (int, error) {
		n, err := first.Call(ctx, n)
		for range messages {
			if err == nil {
				_, err = wake.Receive(ctx)
			}
		}
		return n, err
	}
}

func (w *world) blocked(run *workflow.Run[int]) {
	w.t.Helper()
	w.eventually("the run is blocked", func() bool {
		info, err := run.Info(w.ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		return info.Status == workflow.StatusBlocked
	})
}

func TestVER1_AWorkerOfOtherCodeThatWasThereBeforeTakesABlockedRun(t *testing.T) {
	const messages = 5
	onEveryStore(t, func(t *testing.T, w *world) {
		busy := newBarrier()
		defer busy.open()
		// The new worker has no place for a second run while the first is executed.
		w.work(worker.Config{Runs: 1}, reserve.as(twice), as(deployed, afterwards(reserve, messages)), as(occupied, hog.Call),
			hog.as(func(ctx context.Context, n int) (int, error) {
				busy.pass(ctx)
				return n, nil
			}))
		run := start(w, deployed, 4)
		w.reach(run, event.WaitCreated, 1)
		other := start(w, occupied, 1)
		w.await("the step", busy.arrived)

		w.work(worker.Config{}, charge.as(twice), as(deployed, afterwards(charge, messages)), lookEvery(50*time.Millisecond))
		if err := wake.Send(w.ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.blocked(run)
		busy.open()
		result(w, other)
		w.reach(run, event.WaitCreated, 2) // nobody else has started
		for n := range messages - 1 {
			if err := wake.Send(w.ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			if n < messages-2 {
				w.reach(run, event.WaitCreated, n+3)
			}
		}
		if got := result(w, run); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
		if n := w.logs.count("run is blocked"); n != 1 {
			t.Errorf("the old code has tried the run %d times, want once", n)
		}
		w.healthy()
	})
}

func TestVER1_ABlockedRunIsTriedAgainByTheSameCodeOnceItsWorkerHasStopped(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		code := as(deployed, func(ctx workflow.Context, n int) (int, error) {
			if broken.Load() { // as if by the environment
				return afterwards(charge, 1)(ctx, n)
			}
			return afterwards(reserve, 1)(ctx, n)
		})
		plain := as(occupied, func(_ workflow.Context, n int) (int, error) { return n, nil })
		often := lookEvery(50 * time.Millisecond) // nothing wakes the third worker when the second stops
		first := w.work(worker.Config{Parked: 1}, code, reserve.as(twice), charge.as(twice), plain)
		run := start(w, deployed, 4)
		w.reach(run, event.WaitCreated, 1)
		first.stop()
		broken.Store(true)
		second := w.work(worker.Config{}, code, reserve.as(twice), charge.as(twice), plain)
		if err := wake.Send(w.ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.blocked(run)
		broken.Store(false)
		w.work(worker.Config{}, code, reserve.as(twice), charge.as(twice), plain, often)
		for range 20 { // both claim
			result(w, start(w, occupied, 1))
		}
		w.blocked(run)
		second.stop()
		if got := result(w, run); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
		w.healthy()
	})
}
