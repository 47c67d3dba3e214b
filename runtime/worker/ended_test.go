package worker_test

import (
	"context"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRUN12_AnItemDoesNotLetAPausedRunBeginItsStepAgain proves that an item which wakes a paused
// run is recorded without restarting the run's step. The worker that executed the step has died.
func TestRUN12_AnItemDoesNotLetAPausedRunBeginItsStepAgain(t *testing.T) {
	w := flowtest.NewMemory(t)
	begun := make(chan int, 10)
	first := w.Work(worker.Config{Grace: 1}, flowtest.Calls, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		begun <- n
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	run := flowtest.Start(w, flowtest.One, 4)
	<-begun
	flowtest.Order(t, run.Pause(w.Ctx))
	w.Reach(run, event.RunPaused, 1)
	first.Stop()
	w.Work(worker.Config{}, flowtest.Calls, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
		begun <- n
		return n, nil
	}))
	flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "item"))
	w.Reach(run, event.MessageReceived, 1)
	w.Eventually("the run is parked", func() bool { return w.Parked(run) })
	if len(begun) != 0 || len(flowtest.Filter(w.Log(run), event.StepStarted)) != 1 {
		t.Error("the step was begun while the run was paused")
	}
	flowtest.Order(t, run.Resume(w.Ctx))
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("got %d, want 4", got)
	}
}

// TestEngine_AStepWhoseRunHasEndedIsToldSo proves that the contexts of running steps are canceled
// when their run ends. The slots of the steps are free once the steps have ended.
func TestEngine_AStepWhoseRunHasEndedIsToldSo(t *testing.T) {
	w := flowtest.NewMemory(t)
	begun, told := make(chan struct{}, 1), make(chan struct{}, 1)
	ends := flowtest.Flow[int, int]("ends-first")
	w.Work(worker.Config{Concurrency: 1}, flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		if n > 1 {
			return n, nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		told <- struct{}{}
		return 0, ctx.Err()
	}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.As(ends, func(ctx workflow.Context, n int) (int, error) {
		workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.AttackStep.Call(ctx, n) })
		return flowtest.AttackTopic.Receive(ctx)
	}))
	run := flowtest.Start(w, ends, 1)
	w.Await("the step", begun)
	if err := flowtest.AttackTopic.Send(w.Ctx, run, 3); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
	w.Await("the end of its context", told)
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 2)); got != 2 {
		t.Errorf("a step after it: got %d, want 2", got)
	}
	if w.Record(run).QueueState != store.StateEnded {
		t.Error("the run has not ended")
	}
}
