package worker_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW9_ARunStartsNoMoreChildrenInAllThanItMay(t *testing.T) {
	w := newMemory(t)
	parents := flow[int, int]("restless")
	w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, n int) (int, error) {
		refused := 0
		for _, o := range workflow.MapSettled(ctx, make([]int, n), doubles.Child, workflow.Limit(workflow.DefaultChildren)) {
			var limit *workflow.LimitError
			if errors.As(o.Err, &limit) && limit.Limit == workflow.DefaultChildrenInAll {
				refused++
			} else if o.Err != nil {
				return 0, o.Err
			}
		}
		return refused, nil
	}))
	if got := result(w, start(w, parents, workflow.DefaultChildrenInAll+2)); got != 2 {
		t.Errorf("%d were refused, want 2", got)
	}
}

func TestFLOW9_NoChildIsStartedOnceTheContextHasEnded(t *testing.T) {
	w := newMemory(t)
	parents := flow[int, string]("too-late")
	w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, n int) (string, error) {
		over, cancel := workflow.WithCancel(ctx)
		cancel()
		_, err := doubles.Child(over, n)
		if !errors.Is(err, workflow.ErrCanceled) {
			return "", fmt.Errorf("got %w, want ErrCanceled", err)
		}
		return "canceled", nil
	}))
	run := start(w, parents, 1)
	result(w, run)
	if got := filter(w.log(run), event.ChildCreated); len(got) > 0 {
		t.Errorf("the log holds %v", got)
	}
}

func TestFLOW9_AnAbandonedChildOutlivesItsParent(t *testing.T) {
	w := newMemory(t)
	parents := flow[int, workflow.RunID]("leaves")
	w.work(worker.Config{}, collect, as(parents, func(ctx workflow.Context, _ int) (workflow.RunID, error) {
		child := collects.StartChild(ctx, 1, workflow.WithParentClose(workflow.ParentCloseAbandon))
		return child.ID(), child.Started(ctx)
	}))
	left := collects.Get(w.client, result(w, start(w, parents, 1)))
	if err := numbers.Send(w.ctx, left, 5); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{5}, result(w, left)); diff != "" {
		t.Errorf("the abandoned child (-want +got):\n%s", diff)
	}
	if got := filter(w.log(left), event.CancelRequested); len(got) > 0 {
		t.Errorf("it was asked to end: %v", got)
	}
}

func TestFLOW9_AChildThatContinuesEndsWithItsLastRun(t *testing.T) {
	w := newMemory(t)
	loops, parents := flow[int, int]("loops"), flow[int, int]("patient")
	again := flow[int, int]("loops")
	w.work(worker.Config{}, as(loops, func(ctx workflow.Context, n int) (int, error) {
		if n < 3 {
			return 0, again.ContinueAsNew(ctx, n+1)
		}
		return 100 + n, nil
	}), as(parents, func(ctx workflow.Context, n int) (int, error) { return loops.Child(ctx, n) }))
	run := start(w, parents, 1)
	if got := result(w, run); got != 103 {
		t.Errorf("got %d, want what the last run returned, 103", got)
	}
	if got := filter(w.log(run), event.ChildCompleted, event.ChildFailed, event.ChildCanceled); len(got) != 1 {
		t.Errorf("the parent was told of %d ends, want one", len(got))
	}
}

func TestFLOW9_ACanceledParentWaitsForTheOutcomeOfItsChild(t *testing.T) {
	w := newMemory(t)
	stubborn, parents := flow[int, int]("stubborn"), flow[int, int]("waits-on")
	w.work(worker.Config{}, as(stubborn, func(ctx workflow.Context, n int) (int, error) {
		if _, err := numbers.Receive(ctx); !errors.Is(err, workflow.ErrCanceled) {
			return 0, fmt.Errorf("got %w, want ErrCanceled", err)
		}
		return 10 * n, nil // it completes all the same
	}), as(parents, func(ctx workflow.Context, n int) (int, error) { return stubborn.Child(ctx, n) }))
	run := start(w, parents, 4)
	child := stubborn.Get(w.client, w.reach(run, event.ChildCreated, 1).Next)
	w.eventually("the child is there", func() bool {
		_, err := child.Info(w.ctx)
		return err == nil
	})
	w.reach(child, event.WaitCreated, 1)
	if err := run.Cancel(w.ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != 40 {
		t.Errorf("got %d, want the outcome of the child, 40", got)
	}
}

func TestFLOW9_AChildIsAskedToEndOnce(t *testing.T) {
	w := newMemory(t)
	parents := flow[int, string]("insists")
	w.work(worker.Config{}, collect, as(parents, func(ctx workflow.Context, _ int) (string, error) {
		child := collects.StartChild(ctx, 1)
		for range 3 {
			child.Cancel(ctx, "enough")
		}
		if _, err := child.Get(ctx); !errors.Is(err, workflow.ErrCanceled) {
			return "", fmt.Errorf("got %w, want ErrCanceled", err)
		}
		return "canceled", nil
	}))
	run := start(w, parents, 1)
	result(w, run)
	if got := filter(w.log(run), event.ChildCancelRequested); len(got) != 1 {
		t.Errorf("it was asked to end %d times, want once", len(got))
	}
}

func TestFLOW9_NoRunIsDeeperThanTheLimit(t *testing.T) {
	w := newMemory(t)
	w.takesLong() // the failure of the deepest run goes up, and is wrapped by each of a hundred others
	deeper, next := flow[int, int]("deeper"), flow[int, int]("deeper")
	var deepest atomic.Int64
	w.work(worker.Config{}, as(deeper, func(ctx workflow.Context, n int) (int, error) {
		deepest.Store(max(deepest.Load(), int64(workflow.Info(ctx).Depth)))
		return next.Child(ctx, n)
	}))
	failure(w, start(w, deeper, 1))
	if got := deepest.Load(); got != workflow.MaxDepth {
		t.Errorf("the deepest run has depth %d, want %d", got, workflow.MaxDepth)
	}
}
