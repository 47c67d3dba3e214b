package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	deployed = flowtest.Flow[int, int]("deployed")
	occupied = flowtest.Flow[int, int]("occupied")
	reserve  = flowtest.AStep[int, int]("deploy.reserve", shim.Policy{})
	charge   = flowtest.AStep[int, int]("deploy.charge", shim.Policy{})
	hog      = flowtest.AStep[int, int]("deploy.hog", shim.Policy{})
)

// afterwards is code that calls a step, and then waits for messages.
func afterwards(first flowtest.StepOf[int, int], messages int) func(workflow.Context, int) (int, error) {
	return func(ctx workflow.Context, n int) (int, error) {
		n, err := first.Call(ctx, n)
		for range messages {
			if err == nil {
				_, err = flowtest.Wake.Receive(ctx)
			}
		}
		return n, err
	}
}

func TestVER1_AWorkerOfOtherCodeThatWasThereBeforeTakesABlockedRun(t *testing.T) {
	const messages = 5
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		busy := newBarrier()
		defer busy.open()
		// The new worker has no place for a second run while the first is executed.
		w.Work(worker.Config{Runs: 1}, reserve.As(twice), flowtest.As(deployed, afterwards(reserve, messages)), flowtest.As(occupied, hog.Call),
			hog.As(func(ctx context.Context, n int) (int, error) {
				busy.pass(ctx)
				return n, nil
			}))
		run := flowtest.Start(w, deployed, 4)
		w.Reach(run, event.WaitCreated, 1)
		other := flowtest.Start(w, occupied, 1)
		w.Await("the step", busy.arrived)

		w.Work(worker.Config{}, charge.As(twice), flowtest.As(deployed, afterwards(charge, messages)), flowtest.LookEvery(50*time.Millisecond))
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.Blocked(run)
		busy.open()
		flowtest.Result(w, other)
		w.Reach(run, event.WaitCreated, 2) // nobody else has started
		for n := range messages - 1 {
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			if n < messages-2 {
				w.Reach(run, event.WaitCreated, n+3)
			}
		}
		if got := flowtest.Result(w, run); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
		w.StopWorkers()
		if n := w.Logs.Count("run is blocked"); n != 1 {
			t.Errorf("the old code has tried the run %d times, want once", n)
		}
		w.Healthy()
	})
}

func TestVER1_ABlockedRunIsTriedAgainByTheSameCodeOnceItsWorkerHasStopped(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var broken atomic.Bool
		code := flowtest.As(deployed, func(ctx workflow.Context, n int) (int, error) {
			if broken.Load() { // as if by the environment
				return afterwards(charge, 1)(ctx, n)
			}
			return afterwards(reserve, 1)(ctx, n)
		})
		plain := flowtest.As(occupied, func(_ workflow.Context, n int) (int, error) { return n, nil })
		often := flowtest.LookEvery(50 * time.Millisecond) // nothing wakes the third worker when the second stops
		first := w.Work(worker.Config{Parked: 1}, code, reserve.As(twice), charge.As(twice), plain)
		run := flowtest.Start(w, deployed, 4)
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		broken.Store(true)
		second := w.Work(worker.Config{}, code, reserve.As(twice), charge.As(twice), plain)
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.Blocked(run)
		broken.Store(false)
		w.Work(worker.Config{}, code, reserve.As(twice), charge.As(twice), plain, often)
		for range 20 { // both claim
			flowtest.Result(w, flowtest.Start(w, occupied, 1))
		}
		w.Blocked(run)
		second.Stop()
		if got := flowtest.Result(w, run); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
		w.Healthy()
	})
}
