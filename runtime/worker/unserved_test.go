package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// often is the configuration of a worker that checks for unserved runs about twice a second.
var often = worker.Config{Queues: []string{workflow.DefaultQueue}, Heartbeat: 100 * time.Millisecond, ClaimExpiry: 2 * time.Second}

// askToEnd delivers a cancel like a client that does not end the run itself.
func askToEnd(w *flowtest.World, run event.RunID) {
	w.T.Helper()
	body, err := event.AppendItem(nil, &event.Event{Type: event.CancelRequested, Reason: "enough"})
	if err == nil {
		_, err = w.Store.Deliver(w.Ctx, store.Deliver{Run: run, Item: store.Item{ID: "cancel", Body: body}})
	}
	flowtest.Order(w.T, err)
}

// TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByAnyWorker proves that any worker ends a
// canceled run that no worker serves and whose code was never executed.
func TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByAnyWorker(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		other := flowtest.Start(w, flowtest.One, 1, workflow.WithQueue("nobody"))
		run := flowtest.Start(w, killerFlow, 1)
		late := flowtest.Start(w, killerFlow, 2, workflow.WithDelay(time.Hour))
		askToEnd(w, run.ID())
		askToEnd(w, late.ID())
		w.Work(often, flowtest.Calls, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		for _, r := range []*workflow.Run[int]{run, late} {
			if e := flowtest.Failure(w, r); e.Status != workflow.StatusCanceled || !flowtest.ContainsAll(e.Error(), "enough") {
				t.Errorf("got %v", e)
			}
			flowtest.Order(t, ops.New(w.Client).Delete(w.Ctx, r.ID()))
		}
		w.Status(other, workflow.StatusPending) // this run was not canceled
		if info, err := other.Info(w.Ctx); err != nil || len(w.Log(other)) != 1 {
			t.Errorf("it was touched: %v, %v", info, err)
		}
	})
}

// TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByTheClientAlone proves that without any
// worker the client ends canceled runs that have not begun. For the other runs its error names the
// missing worker.
func TestRUN8_ARunThatNobodyServesAndHasNotBegunIsCanceledByTheClientAlone(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		other := flowtest.Start(w, flowtest.One, 1, workflow.WithQueue("nobody"))
		run := flowtest.Start(w, killerFlow, 1)
		late := flowtest.Start(w, killerFlow, 2, workflow.WithDelay(time.Hour))
		asked := flowtest.Start(w, killerFlow, 3)
		askToEnd(w, asked.ID()) // no worker exists that could end the run
		flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
		flowtest.Order(t, run.Cancel(w.Ctx, "again"))
		flowtest.Order(t, late.Cancel(w.Ctx, "enough"))
		flowtest.Order(t, ops.New(w.Client).Delete(w.Ctx, asked.ID()))
		for _, r := range []*workflow.Run[int]{run, late} {
			if e := flowtest.Failure(w, r); e.Status != workflow.StatusCanceled || !flowtest.ContainsAll(e.Error(), "enough") {
				t.Errorf("got %v", e)
			}
			flowtest.Order(t, ops.New(w.Client).Delete(w.Ctx, r.ID()))
		}
		var open *workflow.StatusError
		err := ops.New(w.Client).Delete(w.Ctx, other.ID())
		if !errors.As(err, &open) || !errors.Is(err, workflow.ErrRunUnserved) || !flowtest.ContainsAll(err.Error(), "cancel it", `workflow "test.one"`, `queue "nobody"`, "start one") {
			t.Errorf("delete of a run that goes on: got %v, want the way out", err)
		}
		if info, err := other.Info(w.Ctx); err != nil || !info.Unserved || info.Status != workflow.StatusPending {
			t.Errorf("it waits for a worker that does not exist: got %+v, %v", info, err)
		}
		short, cancel := context.WithTimeout(w.Ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := other.Result(short); !errors.Is(err, workflow.ErrRunUnserved) || !errors.Is(err, context.DeadlineExceeded) || !flowtest.ContainsAll(err.Error(), `queue "nobody"`) {
			t.Errorf("its result: got %v, want what is missing", err)
		}
		if leases := w.Snapshot().Leases; len(leases) != 0 {
			t.Errorf("the client has left sessions behind: %v", leases)
		}
		w.Work(worker.Config{Queues: []string{"nobody"}}, flowtest.Calls, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		flowtest.Result(w, other)
		if info, err := other.Info(w.Ctx); err != nil || info.Unserved {
			t.Errorf("it has ended: got %+v, %v", info, err)
		}
	})
}

// TestRUN8_TheClientLeavesRunsThatHaveBegunToTheirWorkers proves that a client does not end a
// canceled run that has begun. The run is left to a worker that serves it, because its code cleans
// up.
func TestRUN8_TheClientLeavesRunsThatHaveBegunToTheirWorkers(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 1)
		code := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			return 0, ctx.Err()
		})
		first := w.Work(worker.Config{Grace: time.Millisecond}, flowtest.Calls, code)
		run := flowtest.Start(w, flowtest.One, 1)
		<-begun
		first.Stop()
		flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
		if info, err := run.Info(w.Ctx); err != nil || !info.Unserved || info.Status.Terminal() {
			t.Errorf("nobody serves it: got %+v, %v", info, err)
		}
		w.Work(often, flowtest.As(flowtest.Flow[int, int]("other"), func(workflow.Context, int) (int, error) { return 0, nil }))
		gone := flowtest.Start(w, killerFlow, 1)
		askToEnd(w, gone.ID())
		flowtest.Failure(w, gone) // after this run has failed, the other worker has also checked the first run
		if info, err := run.Info(w.Ctx); err != nil || info.Status.Terminal() {
			t.Errorf("somebody has ended it without its code: got %+v, %v", info, err)
		}
		w.Work(worker.Config{}, flowtest.Calls, code)
		if e := flowtest.Failure(w, run); e.Status != workflow.StatusCanceled {
			t.Errorf("got %v", e)
		}
	})
}

// TestRUN8_ACancelReachesAStepWhoseWorkersAreGone proves that a step without a worker ends together
// with the run that waits for it, even if the step was begun.
func TestRUN8_ACancelReachesAStepWhoseWorkersAreGone(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 1)
		never := flowtest.Gpu.As(func(ctx context.Context, n int) (string, error) {
			begun <- n
			<-ctx.Done()
			return "", ctx.Err()
		})
		w.Work(often, flowtest.Render, never)
		farm := w.Work(worker.Config{Queues: []string{"gpu"}, Grace: time.Millisecond}, never)
		run := flowtest.Start(w, flowtest.Renders, 1)
		<-begun
		farm.Stop()
		fresh := flowtest.Start(w, flowtest.Renders, 2)
		w.Reach(fresh, event.ChildCreated, 1)
		for _, r := range []*workflow.Run[string]{run, fresh} {
			flowtest.Order(t, r.Cancel(w.Ctx, "enough"))
			var failed *workflow.StepError
			if err := flowtest.Failure(w, r); err.Status != workflow.StatusCanceled || !errors.As(err, &failed) || failed.Code != event.CodeCanceled {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestRUN9_TimeoutsHoldForWhatNobodyServes proves that unserved runs time out, and that the runs
// which wait for them then continue.
func TestRUN9_TimeoutsHoldForWhatNobodyServes(t *testing.T) {
	w := flowtest.NewVirtual(t)
	waits := flowtest.Flow[int, string]("waits")
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}, Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, flowtest.As(waits, func(ctx workflow.Context, n int) (string, error) {
		ctx, cancel := workflow.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		return flowtest.Gpu.Call(ctx, n)
	}))
	step := flowtest.Start(w, waits, 1)
	run := flowtest.Start(w, killerFlow, 1, workflow.WithRunTimeout(10*time.Minute))
	w.Reach(step, event.ChildCreated, 1)
	done := make(chan struct{})
	var errs [2]error
	go func() {
		defer close(done)
		_, errs[0] = step.Result(w.Ctx)
		_, errs[1] = run.Result(w.Ctx)
	}()
	advanceUntil(w, "both to end", done)
	var failed *workflow.StepError
	if !errors.As(errs[0], &failed) || failed.Code != event.CodeCanceled {
		t.Errorf("the step: got %v", errs[0])
	}
	var late *workflow.RunError
	if !errors.As(errs[1], &late) || late.Code != event.CodeTimeout || !flowtest.ContainsAll(errs[1].Error(), "10m") {
		t.Errorf("the run: got %v", errs[1])
	}
}
