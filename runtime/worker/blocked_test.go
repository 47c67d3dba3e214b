package worker_test

import (
	"context"
	"errors"
	"fmt"
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

// afterwards returns workflow code that calls first and then waits for messages.
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
		// The first worker has no slot for a second run while it executes a step of the first.
		w.Work(worker.Config{Runs: 1}, reserve.As(twice), flowtest.As(deployed, afterwards(reserve, messages)), flowtest.As(occupied, hog.Call),
			hog.As(func(ctx context.Context, n int) (int, error) {
				busy.pass(ctx)
				return n, nil
			}))
		run := flowtest.Start(w, deployed, 4)
		w.Reach(run, event.WaitCreated, 1)
		other := flowtest.Start(w, occupied, 1)
		w.Await("the step", busy.arrived)

		w.Work(worker.Config{}, charge.As(twice), flowtest.As(deployed, afterwards(charge, messages)), flowtest.ProbeEvery(50*time.Millisecond))
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.Blocked(run)
		busy.open()
		flowtest.Result(w, other)
		w.Reach(run, event.WaitCreated, 2) // the code of the second worker does not match, so the first worker has executed the run
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
			if broken.Load() { // as if an environment variable had changed
				return afterwards(charge, 1)(ctx, n)
			}
			return afterwards(reserve, 1)(ctx, n)
		})
		plain := flowtest.As(occupied, func(_ workflow.Context, n int) (int, error) { return n, nil })
		often := flowtest.ProbeEvery(50 * time.Millisecond) // The stop of the second worker does not wake the third, so the third claims often.
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
		for range 20 { // both workers claim runs
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

// TestVER1_WhatABlockedRunWasTakingStaysInItsInbox proves that a run which becomes blocked while it
// applies items commits none of them. The items stay in the inbox. A worker with matching code
// applies them and judges the ask anew.
func TestVER1_WhatABlockedRunWasTakingStaysInItsInbox(t *testing.T) {
	code := func(oldest int, judge error) flowtest.Binding { // oldest is the oldest version that the code supports after a message.
		return flowtest.As(deployed, func(ctx workflow.Context, _ int) (int, error) {
			flowtest.Add.Handle(ctx, func(int) error { return judge }, func(_ workflow.Context, n int) (int, error) { return 10 * n, nil })
			workflow.Version(ctx, "change", 1)
			n, err := flowtest.Numbers.Receive(ctx)
			if err != nil {
				return 0, err
			}
			return n + workflow.Version(ctx, "change", 2, workflow.AtLeast(oldest)), nil
		})
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, code(1, nil))
		run := flowtest.Start(w, deployed, 0)
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		answered := make(chan error, 1)
		go func() {
			v, err := flowtest.Add.Ask(w.Ctx, run, 1)
			if err == nil && v != 10 {
				err = fmt.Errorf("the answer is %d, want 10", v)
			}
			answered <- err
		}()
		w.Eventually("it is asked", func() bool { return w.Inbox(run) == 1 })
		w.Send(run, 7)

		second := w.Work(worker.Config{}, code(2, errors.New("never")))
		w.Blocked(run)
		second.Stop()
		if n := w.Inbox(run); n != 2 {
			t.Fatalf("%d items are in its inbox when it is blocked, want the question and the message", n)
		}
		w.Work(worker.Config{}, code(1, nil))
		if got := flowtest.Result(w, run); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
		if err := <-answered; err != nil {
			t.Errorf("the question: %v", err)
		}
		w.Healthy()
	})
}

func TestVER1_WhatWasSentToARunWhoseInputWasRenamedIsThereWhenItBegins(t *testing.T) {
	type before struct{ Amount int }
	type after struct{ Cents int }
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		priced, renamed := flowtest.Flow[before, int]("priced"), flowtest.Flow[after, int]("priced")
		run := flowtest.Start(w, priced, before{30})
		w.Send(run, 7)
		second := w.Work(worker.Config{}, flowtest.As(renamed, func(ctx workflow.Context, in after) (int, error) { return in.Cents, nil }))
		w.Blocked(run)
		second.Stop()
		if n := w.Inbox(run); n != 1 {
			t.Fatalf("%d items are in its inbox when it is blocked, want the message", n)
		}
		w.Work(worker.Config{}, flowtest.As(priced, func(ctx workflow.Context, in before) (int, error) {
			n, err := flowtest.Numbers.Receive(ctx)
			return in.Amount + n, err
		}))
		if got := flowtest.Result(w, run); got != 37 {
			t.Errorf("result: got %d, want 37", got)
		}
		w.Healthy()
	})
}
