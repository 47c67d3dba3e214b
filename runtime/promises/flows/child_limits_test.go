package flows_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW9_ARunStartsNoMoreChildrenInAllThanItMay(t *testing.T) {
	w := flowtest.NewMemory(t)
	parents := flowtest.Flow[int, int]("restless")
	w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
		refused := 0
		for _, o := range workflow.MapSettled(ctx, make([]int, n), flowtest.Doubles.Child, workflow.Limit(flow.DefaultChildren)) {
			var limit *workflow.LimitError
			if errors.As(o.Err, &limit) && limit.Limit == flow.DefaultChildrenInAll {
				refused++
			} else if o.Err != nil {
				return 0, o.Err
			}
		}
		return refused, nil
	}))
	if got := flowtest.Result(w, flowtest.Start(w, parents, flow.DefaultChildrenInAll+2)); got != 2 {
		t.Errorf("%d were refused, want 2", got)
	}
}

func TestFLOW9_NoChildIsStartedOnceTheContextHasEnded(t *testing.T) {
	w := flowtest.NewMemory(t)
	parents := flowtest.Flow[int, string]("too-late")
	w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (string, error) {
		over, cancel := workflow.WithCancel(ctx)
		cancel()
		_, err := flowtest.Doubles.Child(over, n)
		if !errors.Is(err, workflow.ErrCanceled) {
			return "", fmt.Errorf("got %w, want ErrCanceled", err)
		}
		return "canceled", nil
	}))
	run := flowtest.Start(w, parents, 1)
	flowtest.Result(w, run)
	if got := flowtest.Filter(w.Log(run), event.ChildCreated); len(got) > 0 {
		t.Errorf("the log holds %v", got)
	}
}

func TestFLOW9_AnAbandonedChildOutlivesItsParent(t *testing.T) {
	w := flowtest.NewMemory(t)
	parents := flowtest.Flow[int, workflow.RunID]("leaves")
	w.Work(worker.Config{}, flowtest.Collect, flowtest.As(parents, func(ctx workflow.Context, _ int) (workflow.RunID, error) {
		child := flowtest.Collects.StartChild(ctx, 1, workflow.WithParentClose(workflow.ParentCloseAbandon))
		return child.ID(), child.Started(ctx)
	}))
	left := flowtest.Collects.Get(w.Client, flowtest.Result(w, flowtest.Start(w, parents, 1)))
	if err := flowtest.Numbers.Send(w.Ctx, left, 5); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{5}, flowtest.Result(w, left)); diff != "" {
		t.Errorf("the abandoned child (-want +got):\n%s", diff)
	}
	if got := flowtest.Filter(w.Log(left), event.CancelRequested); len(got) > 0 {
		t.Errorf("it was asked to end: %v", got)
	}
}

func TestFLOW9_AChildThatContinuesEndsWithItsLastRun(t *testing.T) {
	w := flowtest.NewMemory(t)
	loops, parents := flowtest.Flow[int, int]("loops"), flowtest.Flow[int, int]("patient")
	again := flowtest.Flow[int, int]("loops")
	w.Work(worker.Config{}, flowtest.As(loops, func(ctx workflow.Context, n int) (int, error) {
		if n < 3 {
			return 0, again.ContinueAsNew(ctx, n+1)
		}
		return 100 + n, nil
	}), flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) { return loops.Child(ctx, n) }))
	run := flowtest.Start(w, parents, 1)
	if got := flowtest.Result(w, run); got != 103 {
		t.Errorf("got %d, want what the last run returned, 103", got)
	}
	if got := flowtest.Filter(w.Log(run), event.ChildCompleted, event.ChildFailed, event.ChildCanceled); len(got) != 1 {
		t.Errorf("the parent was told of %d ends, want one", len(got))
	}
}

func TestFLOW9_ACanceledParentWaitsForTheOutcomeOfItsChild(t *testing.T) {
	w := flowtest.NewMemory(t)
	stubborn, parents := flowtest.Flow[int, int]("stubborn"), flowtest.Flow[int, int]("waits-on")
	w.Work(worker.Config{}, flowtest.As(stubborn, func(ctx workflow.Context, n int) (int, error) {
		if _, err := flowtest.Numbers.Receive(ctx); !errors.Is(err, workflow.ErrCanceled) {
			return 0, fmt.Errorf("got %w, want ErrCanceled", err)
		}
		return 10 * n, nil // the run completes although it is canceled
	}), flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) { return stubborn.Child(ctx, n) }))
	run := flowtest.Start(w, parents, 4)
	child := stubborn.Get(w.Client, w.Reach(run, event.ChildCreated, 1).Next)
	w.Eventually("the child is there", func() bool {
		_, err := child.Info(w.Ctx)
		return err == nil
	})
	w.Reach(child, event.WaitCreated, 1)
	if err := run.Cancel(w.Ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 40 {
		t.Errorf("got %d, want the outcome of the child, 40", got)
	}
}

func TestFLOW9_AChildIsAskedToEndOnce(t *testing.T) {
	w := flowtest.NewMemory(t)
	parents := flowtest.Flow[int, string]("insists")
	w.Work(worker.Config{}, flowtest.Collect, flowtest.As(parents, func(ctx workflow.Context, _ int) (string, error) {
		child := flowtest.Collects.StartChild(ctx, 1)
		for range 3 {
			child.Cancel(ctx, "enough")
		}
		if _, err := child.Get(ctx); !errors.Is(err, workflow.ErrCanceled) {
			return "", fmt.Errorf("got %w, want ErrCanceled", err)
		}
		return "canceled", nil
	}))
	run := flowtest.Start(w, parents, 1)
	flowtest.Result(w, run)
	if got := flowtest.Filter(w.Log(run), event.ChildCancelRequested); len(got) != 1 {
		t.Errorf("it was asked to end %d times, want once", len(got))
	}
}

func TestFLOW9_NoRunIsDeeperThanTheLimit(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.TakesLong() // slow because each of the hundred ancestors wraps the failure of the deepest run
	deeper, next := flowtest.Flow[int, int]("deeper"), flowtest.Flow[int, int]("deeper")
	var deepest atomic.Int64
	w.Work(worker.Config{}, flowtest.As(deeper, func(ctx workflow.Context, n int) (int, error) {
		deepest.Store(max(deepest.Load(), int64(workflow.Info(ctx).Depth)))
		return next.Child(ctx, n)
	}))
	flowtest.Failure(w, flowtest.Start(w, deeper, 1))
	if got := deepest.Load(); got != flow.MaxDepth {
		t.Errorf("the deepest run has depth %d, want %d", got, flow.MaxDepth)
	}
}
