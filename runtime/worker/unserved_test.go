package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// What nobody serves, and of which nothing was executed, ends by any worker.
func TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByAnyWorker(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		other := start(w, one, 1, workflow.WithQueue("nobody"))
		run := start(w, killerFlow, 1)
		late := start(w, killerFlow, 2, workflow.WithDelay(time.Hour))
		order(t, run.Cancel(w.ctx, "enough"))
		order(t, late.Cancel(w.ctx, "enough"))
		w.work(worker.Config{Queues: []string{workflow.DefaultQueue}, Unserved: time.Minute}, calls, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }))
		for _, r := range []*workflow.Run[int]{run, late} {
			if e := failure(w, r); e.Status != workflow.StatusCanceled || !containsAll(e.Error(), "enough") {
				t.Errorf("got %v", e)
			}
			order(t, r.Delete(w.ctx))
		}
		var open *workflow.StatusError
		if err := other.Delete(w.ctx); !errors.As(err, &open) || !containsAll(err.Error(), "cancel it", "worker") {
			t.Errorf("delete of a run that goes on: got %v, want the way out", err)
		}
		w.status(other, workflow.StatusPending) // nobody has asked it to end
		if info, err := other.Info(w.ctx); err != nil || len(w.log(other)) != 1 {
			t.Errorf("it was touched: %v, %v", info, err)
		}
	})
}

// Its time ends also where nobody serves it, and so does the time of who waits for it.
func TestRUN9_TimeoutsHoldForWhatNobodyServes(t *testing.T) {
	w := newVirtual(t)
	waits := flow[int, string]("waits")
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}, Unserved: time.Minute}, as(waits, func(ctx workflow.Context, n int) (string, error) {
		ctx, cancel := workflow.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		return gpu.Call(ctx, n)
	}))
	step := start(w, waits, 1)
	run := start(w, killerFlow, 1, workflow.WithRunTimeout(10*time.Minute))
	w.reach(step, event.ChildCreated, 1)
	done := make(chan struct{})
	var errs [2]error
	go func() {
		defer close(done)
		_, errs[0] = step.Result(w.ctx)
		_, errs[1] = run.Result(w.ctx)
	}()
	w.advanceUntil("both to end", done)
	var failed *workflow.StepError
	if !errors.As(errs[0], &failed) || failed.Code != event.CodeCanceled {
		t.Errorf("the step: got %v", errs[0])
	}
	var late *workflow.RunError
	if !errors.As(errs[1], &late) || late.Code != event.CodeTimeout || !containsAll(errs[1].Error(), "10m") {
		t.Errorf("the run: got %v", errs[1])
	}
}
