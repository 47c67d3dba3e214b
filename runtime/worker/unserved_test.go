package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// often lets a worker look for runs that nobody serves about twice a second.
var often = worker.Config{Queues: []string{workflow.DefaultQueue}, Heartbeat: 100 * time.Millisecond, ClaimExpiry: 2 * time.Second}

// askToEnd delivers a request to end as it would come from somebody who leaves the rest to workers.
func askToEnd(w *world, run event.RunID, reason string) {
	w.t.Helper()
	body, err := event.AppendItem(nil, &event.Event{Type: event.CancelRequested, Reason: reason})
	if err == nil {
		_, err = w.store.Deliver(w.ctx, store.Deliver{Run: run, Item: store.Item{ID: "cancel", Body: body}})
	}
	order(w.t, err)
}

// What nobody serves, and of which nothing was executed, ends by any worker.
func TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByAnyWorker(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		other := start(w, one, 1, workflow.WithQueue("nobody"))
		run := start(w, killerFlow, 1)
		late := start(w, killerFlow, 2, workflow.WithDelay(time.Hour))
		askToEnd(w, run.ID(), "enough")
		askToEnd(w, late.ID(), "enough")
		w.work(often, calls, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }))
		for _, r := range []*workflow.Run[int]{run, late} {
			if e := failure(w, r); e.Status != workflow.StatusCanceled || !containsAll(e.Error(), "enough") {
				t.Errorf("got %v", e)
			}
			order(t, r.Delete(w.ctx))
		}
		w.status(other, workflow.StatusPending) // nobody has asked it to end
		if info, err := other.Info(w.ctx); err != nil || len(w.log(other)) != 1 {
			t.Errorf("it was touched: %v, %v", info, err)
		}
	})
}

// Without any worker the client itself ends what has not begun, and says of the rest what is
// missing.
func TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByTheClientAlone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		other := start(w, one, 1, workflow.WithQueue("nobody"))
		run := start(w, killerFlow, 1)
		late := start(w, killerFlow, 2, workflow.WithDelay(time.Hour))
		asked := start(w, killerFlow, 3)
		askToEnd(w, asked.ID(), "enough") // nobody was there to hear it
		order(t, run.Cancel(w.ctx, "enough"))
		order(t, run.Cancel(w.ctx, "again"))
		order(t, late.Cancel(w.ctx, "enough"))
		order(t, asked.Delete(w.ctx))
		for _, r := range []*workflow.Run[int]{run, late} {
			if e := failure(w, r); e.Status != workflow.StatusCanceled || !containsAll(e.Error(), "enough") {
				t.Errorf("got %v", e)
			}
			order(t, r.Delete(w.ctx))
		}
		var open *workflow.StatusError
		err := other.Delete(w.ctx)
		if !errors.As(err, &open) || !errors.Is(err, workflow.ErrRunUnserved) || !containsAll(err.Error(), "cancel it", `workflow "test.one"`, `queue "nobody"`, "start one") {
			t.Errorf("delete of a run that goes on: got %v, want the way out", err)
		}
		if info, err := other.Info(w.ctx); err != nil || !info.Unserved || info.Status != workflow.StatusPending {
			t.Errorf("it waits for a worker that does not exist: got %+v, %v", info, err)
		}
		short, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := other.Result(short); !errors.Is(err, workflow.ErrRunUnserved) || !errors.Is(err, context.DeadlineExceeded) || !containsAll(err.Error(), `queue "nobody"`) {
			t.Errorf("its result: got %v, want what is missing", err)
		}
		if leases := w.snapshot().Leases; len(leases) != 0 {
			t.Errorf("the client has left sessions behind: %v", leases)
		}
		w.work(worker.Config{Queues: []string{"nobody"}}, calls, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }))
		result(w, other)
		if info, err := other.Info(w.ctx); err != nil || info.Unserved {
			t.Errorf("it has ended: got %+v, %v", info, err)
		}
	})
}

// The client leaves to a worker what that serves: code that has begun cleans up.
func TestRUN8_TheClientLeavesRunsThatHaveBegunToTheirWorkers(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		begun := make(chan int, 1)
		code := work1.as(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			return 0, ctx.Err()
		})
		first := w.work(worker.Config{Grace: time.Millisecond}, calls, code)
		run := start(w, one, 1)
		<-begun
		first.stop()
		order(t, run.Cancel(w.ctx, "enough"))
		if info, err := run.Info(w.ctx); err != nil || !info.Unserved || info.Status.Terminal() {
			t.Errorf("nobody serves it: got %+v, %v", info, err)
		}
		w.work(often, as(flow[int, int]("other"), func(workflow.Context, int) (int, error) { return 0, nil }))
		gone := start(w, killerFlow, 1)
		askToEnd(w, gone.ID(), "enough")
		failure(w, gone) // the other worker has looked
		if info, err := run.Info(w.ctx); err != nil || info.Status.Terminal() {
			t.Errorf("somebody has ended it without its code: got %+v, %v", info, err)
		}
		w.work(worker.Config{}, calls, code)
		if e := failure(w, run); e.Status != workflow.StatusCanceled {
			t.Errorf("got %v", e)
		}
	})
}

// A step whose workers are gone ends with who waits for it, also if it was begun.
func TestRUN8_ACancelReachesAStepWhoseWorkersAreGone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		begun := make(chan int, 1)
		never := gpu.as(func(ctx context.Context, n int) (string, error) {
			begun <- n
			<-ctx.Done()
			return "", ctx.Err()
		})
		w.work(often, render, never)
		farm := w.work(worker.Config{Queues: []string{"gpu"}, Grace: time.Millisecond}, never)
		run := start(w, renders, 1)
		<-begun
		farm.stop()
		fresh := start(w, renders, 2)
		w.reach(fresh, event.ChildCreated, 1)
		for _, r := range []*workflow.Run[string]{run, fresh} {
			order(t, r.Cancel(w.ctx, "enough"))
			var failed *workflow.StepError
			if err := failure(w, r); err.Status != workflow.StatusCanceled || !errors.As(err, &failed) || failed.Code != event.CodeCanceled {
				t.Errorf("got %v", err)
			}
		}
	})
}

// Its time ends also where nobody serves it, and so does the time of who waits for it.
func TestRUN9_TimeoutsHoldForWhatNobodyServes(t *testing.T) {
	w := newVirtual(t)
	waits := flow[int, string]("waits")
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}, Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, as(waits, func(ctx workflow.Context, n int) (string, error) {
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
