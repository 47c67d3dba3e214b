package steps_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestSTEP10_AStepRunsOnAWorkerOfItsQueueWithTheKeyOfTheCaller(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		tell := func(ctx context.Context, n int) (string, error) {
			c, _ := step.Current(ctx)
			return fmt.Sprint(c.WorkflowID, c.Step, c.Key, c.Tags["k"], n), nil
		}
		key := make(chan string, 1)
		flowtest.Farm(w, flowtest.Render, func(ctx context.Context, n int) (string, error) {
			key <- step.IdempotencyKey(ctx)
			return tell(ctx, n)
		})
		run := flowtest.Start(w, flowtest.Renders, 7, workflow.WithID("r"), workflow.WithTags(map[string]string{"k": "v"}))
		if got := flowtest.Result(w, run); got != "rtest.gpurenders/test.gpu#1v7" {
			t.Errorf("the step was told %q", got)
		}
		// The key must be the one that the step has if its caller executes it.
		own := attempt.With(w.Ctx, &attempt.Attempt{Run: run.ID(), Key: "renders/test.gpu#1"})
		if got, want := <-key, step.IdempotencyKey(own); got != want {
			t.Errorf("the idempotency key is %s, want %s", got, want)
		}
		if info, err := ops.New(w.Client).Tree(w.Ctx, run.ID()); err != nil || len(info.Children) != 0 {
			t.Errorf("the tree is %+v, %v, want the run alone", info, err)
		}
		for f, want := range map[*workflow.Filter]int{
			{}: 1, {Root: run.ID()}: 1, {Parent: run.ID()}: 0, {Queue: "gpu"}: 0,
			{Internal: true}: 2, {Parent: run.ID(), Internal: true}: 1, {Workflow: event.StepRun("test.gpu")}: 1,
		} {
			counts, err := w.Client.Count(w.Ctx, *f)
			if got := w.List(*f); len(got) != want || err != nil || counts.ByStatus()[workflow.StatusCompleted] != want {
				t.Errorf("runs of %+v: got %v, %v, %v, want %d", *f, got, counts, err, want)
			}
		}
		if n, err := ops.New(w.Client).DeleteMany(w.Ctx, workflow.Filter{Root: run.ID()}); n != 2 || err != nil {
			t.Errorf("deleted: got %d, %v, want the run and that of its step", n, err)
		}
	})
}

func TestSTEP10_RetriesAndFailuresAreThoseOfAnOwnStep(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		flowtest.Farm(w, flowtest.Render, func(ctx context.Context, n int) (string, error) {
			switch {
			case n == 0 && step.Attempt(ctx) == 1:
				return "", errors.Join(step.Heartbeat(ctx, "half"), flowtest.ErrBusy)
			case n == 0:
				half, _ := step.LastHeartbeat[string](ctx)
				return half, nil
			case n == 1:
				return "", fmt.Errorf("attempt %d: %w", step.Attempt(ctx), flowtest.ErrBusy)
			}
			return "", step.Fatal(flowtest.ErrBusy)
		})
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.Renders, 0)); got != "half" {
			t.Errorf("after a retry: got %q", got)
		}
		for n, want := range map[int]workflow.StepError{1: {Attempts: 4, Code: event.CodeError}, 2: {Attempts: 1, Code: event.CodeFatal}} {
			run := flowtest.Start(w, flowtest.Renders, n)
			var failed *workflow.StepError
			if err := flowtest.Failure(w, run); !errors.As(err, &failed) || err.Code != want.Code {
				t.Fatalf("got %v", err)
			}
			got := workflow.StepError{Attempts: failed.Attempts, Code: failed.Code}
			if got.Attempts != want.Attempts || got.Code != want.Code || failed.Step != "test.gpu" || failed.Key != "renders/test.gpu#1" || failed.Run != run.ID() {
				t.Errorf("got %+v, want %+v", failed, want)
			}
		}
	})
}

func TestSTEP10_ACancelReachesTheStepAndItsOutcomeDecides(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 2)
		flowtest.Farm(w, flowtest.Render, func(ctx context.Context, n int) (string, error) {
			begun <- n
			<-ctx.Done()
			if n == 1 {
				return "all the same", nil
			}
			return "", ctx.Err()
		})
		for n := range 2 {
			run := flowtest.Start(w, flowtest.Renders, n)
			<-begun
			flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
			if n == 1 {
				if got := flowtest.Result(w, run); got != "all the same" {
					t.Errorf("got %q", got)
				}
				continue
			}
			var failed *workflow.StepError
			if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled || !errors.As(err, &failed) || failed.Code != event.CodeCanceled {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestSTEP10_WhatNobodyServesWaitsAndASlowWorkerIsReplaced(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, flowtest.Render)
	run := flowtest.Start(w, flowtest.Renders, 1)
	w.Reach(run, event.ChildCreated, 1)
	w.Status(run, workflow.StatusWaiting)
	begun := make(chan int, 10)
	first := w.Work(worker.Config{Queues: []string{"gpu"}, Grace: time.Nanosecond}, flowtest.Gpu.As(func(ctx context.Context, _ int) (string, error) {
		begun <- step.Attempt(ctx)
		<-ctx.Done()
		return "", ctx.Err()
	}))
	<-begun
	first.Stop() // stops the worker during the attempt
	w.Work(worker.Config{Queues: []string{"gpu"}}, flowtest.Gpu.As(func(ctx context.Context, _ int) (string, error) {
		return fmt.Sprint(step.Attempt(ctx)), nil
	}))
	if got := flowtest.Result(w, run); got != "2" {
		t.Errorf("completed by attempt %s", got)
	}
}

func TestSTEP10_ANonIdempotentStepThatWasInterruptedFails(t *testing.T) {
	once := flowtest.AStep[int, string]("once", shim.Policy{Queue: "gpu", NonIdempotent: true, Retry: flowtest.Quick})
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, flowtest.As(flowtest.Renders, once.Call))
	run := flowtest.Start(w, flowtest.Renders, 1)
	begun := make(chan int, 1)
	first := w.Work(worker.Config{Queues: []string{"gpu"}, Grace: time.Nanosecond}, once.As(func(ctx context.Context, _ int) (string, error) {
		begun <- 1
		<-ctx.Done()
		return "", ctx.Err()
	}))
	<-begun
	first.Stop()
	w.Work(worker.Config{Queues: []string{"gpu"}}, once.As(func(context.Context, int) (string, error) {
		t.Error("it was executed twice")
		return "", nil
	}))
	var failed *workflow.StepError
	if err := flowtest.Failure(w, run); !errors.As(err, &failed) || failed.Code != event.CodeInterrupted {
		t.Errorf("got %v", err)
	}
}

func TestSTEP10_ManyStepsOfOneRunAreNotLimitedAsChildrenAre(t *testing.T) {
	maps := flowtest.Flow[int, []string]("maps")
	w := flowtest.NewMemory(t)
	flowtest.Farm(w, flowtest.As(maps, func(ctx workflow.Context, n int) ([]string, error) {
		return workflow.Map(ctx, make([]int, n), flowtest.Gpu.Call)
	}), func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil })
	if got := flowtest.Result(w, flowtest.Start(w, maps, 40)); len(got) != 40 {
		t.Errorf("got %d results", len(got))
	}
}

// TestSTEP10_KilledAnywhereTheCallerGetsTheResult proves that a caller gets the same results of
// steps on another queue if its worker dies after any event. It cuts the log of the caller after
// each event and continues from there.
func TestSTEP10_KilledAnywhereTheCallerGetsTheResult(t *testing.T) {
	two := flowtest.Flow[int, []string]("two")
	code := flowtest.As(two, func(ctx workflow.Context, _ int) ([]string, error) {
		one, err := flowtest.Gpu.Call(ctx, 1)
		if err != nil {
			return nil, err
		}
		other, err := flowtest.Gpu.Call(ctx, 2)
		return []string{one, other}, err
	})
	w := flowtest.NewMemory(t)
	flowtest.Farm(w, code, func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil })
	run := flowtest.Start(w, two, 0)
	want := flowtest.Result(w, run)
	log := w.Log(run)
	for cut := range log {
		if cut == 0 || log[cut-1].Type == event.ChildCreated {
			continue // the commit of the last event has sent the start of the step run
		}
		if diff := cmp.Diff(want, flowtest.Result(w, flowtest.AfterCrash(w, two, log[:cut]))); diff != "" {
			t.Errorf("cut behind event %d (-want +got):\n%s", cut, diff)
		}
	}
}

func TestSTEP10_AFailedStepOfAnotherQueueIsRetriedAndForkedLikeOthers(t *testing.T) {
	w := flowtest.NewMemory(t)
	broken := true
	var executed flowtest.Seen[int]
	flowtest.Farm(w, flowtest.Render, func(_ context.Context, n int) (string, error) {
		executed.Add(n)
		if broken {
			return "", step.Fatal(flowtest.ErrBusy)
		}
		return "mended", nil
	})
	run := flowtest.Start(w, flowtest.Renders, 3)
	_ = flowtest.Failure(w, run)
	broken = false
	again, err := run.Retry(w.Ctx)
	flowtest.Order(t, err)
	if got := flowtest.Result(w, again); got != "mended" {
		t.Errorf("got %q", got)
	}
	fork, err := again.Fork(w.Ctx, "renders/test.gpu#1")
	flowtest.Order(t, err)
	if got := flowtest.Result(w, fork); got != "mended" || executed.Len() != 3 {
		t.Errorf("got %q after %d executions", got, executed.Len())
	}
}
