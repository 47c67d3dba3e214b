package worker_test

import (
	"context"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Mail wakes a paused run. It is recorded, and a step whose worker has died stays
// where it is.
func TestRUN12_MailDoesNotLetAPausedRunBeginItsStepAgain(t *testing.T) {
	w := newMemory(t)
	begun := make(chan int, 10)
	first := w.work(worker.Config{Grace: 1}, calls, work1.as(func(ctx context.Context, n int) (int, error) {
		begun <- n
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	run := start(w, one, 4)
	<-begun
	order(t, run.Pause(w.ctx))
	w.reach(run, event.RunPaused, 1)
	first.stop()
	w.work(worker.Config{}, calls, work1.as(func(_ context.Context, n int) (int, error) {
		begun <- n
		return n, nil
	}))
	order(t, wake.Send(w.ctx, run, "mail"))
	w.reach(run, event.MessageReceived, 1)
	w.eventually("the run is parked", func() bool { return w.parked(run) })
	if len(begun) != 0 || len(filter(w.log(run), event.StepStarted)) != 1 {
		t.Error("the step was begun while the run was paused")
	}
	order(t, run.Resume(w.ctx))
	if got := result(w, run); got != 4 {
		t.Errorf("got %d, want 4", got)
	}
}

// A run may end while steps of it are under way: they are told, and their slots are
// free once they have ended.
func TestEngine_AStepWhoseRunHasEndedIsToldSo(t *testing.T) {
	w := newMemory(t)
	begun, told := make(chan struct{}, 1), make(chan struct{}, 1)
	ends := flow[int, int]("ends-first")
	w.work(worker.Config{Concurrency: 1}, attackStep.as(func(ctx context.Context, n int) (int, error) {
		if n > 1 {
			return n, nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		told <- struct{}{}
		return 0, ctx.Err()
	}), as(attackOnce, attackStep.Call), as(ends, func(ctx workflow.Context, n int) (int, error) {
		workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return attackStep.Call(ctx, n) })
		return attackTopic.Receive(ctx)
	}))
	run := start(w, ends, 1)
	w.await("the step", begun)
	if err := attackTopic.Send(w.ctx, run, 3); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
	w.await("the end of its context", told)
	if got := result(w, start(w, attackOnce, 2)); got != 2 {
		t.Errorf("a step after it: got %d, want 2", got)
	}
	if w.place(run) != store.PlaceEnded {
		t.Error("the run has not ended")
	}
}
