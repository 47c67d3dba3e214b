package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	gpu     = aStep[int, string]("gpu", shim.Policy{Queue: "gpu", Retry: quick})
	renders = flow[int, string]("renders")
	render  = as(renders, gpu.Call)
)

// farm starts a worker that has only the queue of the run, and one that has only
// that of the step.
func farm(w *world, code binding, f func(context.Context, int) (string, error)) {
	w.t.Helper()
	none := gpu.as(func(context.Context, int) (string, error) {
		w.t.Error("the step was executed on a worker that does not serve its queue")
		return "", nil
	})
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, none)
	w.work(worker.Config{Queues: []string{"gpu"}}, gpu.as(f))
}

func TestSTEP10_AStepRunsOnAWorkerOfItsQueueWithTheKeyOfTheCaller(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		tell := func(ctx context.Context, n int) (string, error) {
			c, _ := step.Current(ctx)
			return fmt.Sprint(c.WorkflowID, c.Step, c.Key, c.Tags["k"], n), nil
		}
		key := make(chan string, 1)
		farm(w, render, func(ctx context.Context, n int) (string, error) {
			key <- step.IdempotencyKey(ctx)
			return tell(ctx, n)
		})
		run := start(w, renders, 7, workflow.WithID("r"), workflow.WithTags(map[string]string{"k": "v"}))
		if got := result(w, run); got != "rtest.gpurenders/test.gpu#1v7" {
			t.Errorf("the step was told %q", got)
		}
		// What the key would be if the caller executed the step itself.
		own := attempt.With(w.ctx, &attempt.Attempt{Run: run.ID(), Key: "renders/test.gpu#1"})
		if got, want := <-key, step.IdempotencyKey(own); got != want {
			t.Errorf("the idempotency key is %s, want %s", got, want)
		}
		if info, err := w.client.Tree(w.ctx, run.ID()); err != nil || len(info.Children) != 0 {
			t.Errorf("the tree is %+v, %v, want the run alone", info, err)
		}
		for f, want := range map[*workflow.Filter]int{
			{}: 1, {Root: run.ID()}: 1, {Parent: run.ID()}: 0, {Queue: "gpu"}: 0,
			{Internal: true}: 2, {Parent: run.ID(), Internal: true}: 1, {Workflow: event.StepRun("test.gpu")}: 1,
		} {
			counts, err := w.client.Count(w.ctx, *f)
			if got := w.list(*f); len(got) != want || err != nil || counts[workflow.StatusCompleted] != want {
				t.Errorf("runs of %+v: got %v, %v, %v, want %d", *f, got, counts, err, want)
			}
		}
		if n, err := w.client.Delete(w.ctx, workflow.Filter{Root: run.ID()}); n != 2 || err != nil {
			t.Errorf("deleted: got %d, %v, want the run and that of its step", n, err)
		}
	})
}

func TestSTEP10_RetriesAndFailuresAreThoseOfAnOwnStep(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		farm(w, render, func(ctx context.Context, n int) (string, error) {
			switch {
			case n == 0 && step.Attempt(ctx) == 1:
				return "", errors.Join(step.Heartbeat(ctx, "half"), errBusy)
			case n == 0:
				half, _ := step.LastHeartbeat[string](ctx)
				return half, nil
			case n == 1:
				return "", fmt.Errorf("attempt %d: %w", step.Attempt(ctx), errBusy)
			}
			return "", step.Fatal(errBusy)
		})
		if got := result(w, start(w, renders, 0)); got != "half" {
			t.Errorf("after a retry: got %q", got)
		}
		for n, want := range map[int]workflow.StepError{1: {Attempts: 4, Code: event.CodeError}, 2: {Attempts: 1, Code: event.CodeFatal}} {
			run := start(w, renders, n)
			var failed *workflow.StepError
			if err := failure(w, run); !errors.As(err, &failed) || err.Code != want.Code {
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
	onEveryStore(t, func(t *testing.T, w *world) {
		begun := make(chan int, 2)
		farm(w, render, func(ctx context.Context, n int) (string, error) {
			begun <- n
			<-ctx.Done()
			if n == 1 {
				return "all the same", nil
			}
			return "", ctx.Err()
		})
		for n := range 2 {
			run := start(w, renders, n)
			<-begun
			order(t, run.Cancel(w.ctx, "enough"))
			if n == 1 {
				if got := result(w, run); got != "all the same" {
					t.Errorf("got %q", got)
				}
				continue
			}
			var failed *workflow.StepError
			if err := failure(w, run); err.Status != workflow.StatusCanceled || !errors.As(err, &failed) || failed.Code != event.CodeCanceled {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestSTEP10_WhatNobodyServesWaitsAndASlowWorkerIsReplaced(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, render)
	run := start(w, renders, 1)
	w.reach(run, event.ChildCreated, 1)
	w.status(run, workflow.StatusWaiting)
	begun := make(chan int, 10)
	first := w.work(worker.Config{Queues: []string{"gpu"}, Grace: time.Nanosecond}, gpu.as(func(ctx context.Context, _ int) (string, error) {
		begun <- step.Attempt(ctx)
		<-ctx.Done()
		return "", ctx.Err()
	}))
	<-begun
	first.stop() // in the middle of the attempt
	w.work(worker.Config{Queues: []string{"gpu"}}, gpu.as(func(ctx context.Context, _ int) (string, error) {
		return fmt.Sprint(step.Attempt(ctx)), nil
	}))
	if got := result(w, run); got != "2" {
		t.Errorf("completed by attempt %s", got)
	}
}

func TestSTEP10_ANonIdempotentStepThatWasInterruptedFails(t *testing.T) {
	once := aStep[int, string]("once", shim.Policy{Queue: "gpu", NonIdempotent: true, Retry: quick})
	w := newMemory(t)
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, as(renders, once.Call))
	run := start(w, renders, 1)
	begun := make(chan int, 1)
	first := w.work(worker.Config{Queues: []string{"gpu"}, Grace: time.Nanosecond}, once.as(func(ctx context.Context, _ int) (string, error) {
		begun <- 1
		<-ctx.Done()
		return "", ctx.Err()
	}))
	<-begun
	first.stop()
	w.work(worker.Config{Queues: []string{"gpu"}}, once.as(func(context.Context, int) (string, error) {
		t.Error("it was executed twice")
		return "", nil
	}))
	var failed *workflow.StepError
	if err := failure(w, run); !errors.As(err, &failed) || failed.Code != event.CodeInterrupted {
		t.Errorf("got %v", err)
	}
}

func TestSTEP10_ManyStepsOfOneRunAreNotLimitedAsChildrenAre(t *testing.T) {
	maps := flow[int, []string]("maps")
	w := newMemory(t)
	farm(w, as(maps, func(ctx workflow.Context, n int) ([]string, error) {
		return workflow.Map(ctx, make([]int, n), gpu.Call)
	}), func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil })
	if got := result(w, start(w, maps, 40)); len(got) != 40 {
		t.Errorf("got %d results", len(got))
	}
}

// Cut behind every event, the log leads to the same result.
func TestSTEP10_KilledAnywhereTheCallerGetsTheResult(t *testing.T) {
	two := flow[int, []string]("two")
	code := as(two, func(ctx workflow.Context, _ int) ([]string, error) {
		one, err := gpu.Call(ctx, 1)
		if err != nil {
			return nil, err
		}
		other, err := gpu.Call(ctx, 2)
		return []string{one, other}, err
	})
	w := newMemory(t)
	farm(w, code, func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil })
	run := start(w, two, 0)
	want := result(w, run)
	log := w.log(run)
	for cut := range log {
		if cut == 0 || log[cut-1].Type == event.ChildCreated {
			continue // its start left with that commit
		}
		if diff := cmp.Diff(want, result(w, afterCrash(w, two, log[:cut]))); diff != "" {
			t.Errorf("cut behind event %d (-want +got):\n%s", cut, diff)
		}
	}
}

func TestSTEP10_AFailedStepOfAnotherQueueIsRetriedAndForkedLikeOthers(t *testing.T) {
	w := newMemory(t)
	broken := true
	var executed seen[int]
	farm(w, render, func(_ context.Context, n int) (string, error) {
		executed.add(n)
		if broken {
			return "", step.Fatal(errBusy)
		}
		return "mended", nil
	})
	run := start(w, renders, 3)
	_ = failure(w, run)
	broken = false
	again, err := run.Retry(w.ctx)
	order(t, err)
	if got := result(w, again); got != "mended" {
		t.Errorf("got %q", got)
	}
	fork, err := again.Fork(w.ctx, "renders/test.gpu#1")
	order(t, err)
	if got := result(w, fork); got != "mended" || executed.len() != 3 {
		t.Errorf("got %q after %d executions", got, executed.len())
	}
}
