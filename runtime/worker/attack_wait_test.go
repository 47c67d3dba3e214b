package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// interrupt makes runs whose attempts were under way when their worker was
// stopped hard.
func (w *world) interrupt(n int) []*workflow.Run[int] {
	w.t.Helper()
	r := w.work(worker.Config{Grace: time.Millisecond}, attackStep.as(func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}), as(attackOnce, attackStep.Call))
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, start(w, attackOnce, i))
		w.reach(runs[i], event.StepStarted, 1)
	}
	r.stop()
	return runs
}

// A run whose attempt was interrupted waits for a slot like any other: it is not
// given back and claimed again and again meanwhile.
func TestSlots_InterruptedStepWaitsForOneWithoutTouchingTheStore(t *testing.T) {
	st := &between{Store: memstore.New()}
	w := newWorld(t, st, workflow.ClientConfig{})
	runs := w.interrupt(2)
	busy := newBarrier()
	defer busy.open()
	w.work(worker.Config{Concurrency: 1, Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}), as(attackOnce, attackStep.Call))
	w.await("the first attempt", busy.arrived)
	before := st.count()
	if err := pause(w.ctx, 150*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := st.count() - before; n > 20 {
		t.Errorf("the worker called the store %d times while it had nothing to do", n)
	}
	busy.open()
	if got := result(w, runs[0]) + result(w, runs[1]); got != 2 {
		t.Errorf("results: got %d, want 2 in all", got)
	}
	w.healthy()
}

// An idle worker asks for nothing but what keeps it alive.
func TestREC5_IdleWorkerDoesNotPoll(t *testing.T) {
	st := &between{Store: memstore.New()}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{Concurrency: 1, Runs: 1}, attackStep.as(twice), as(attackOnce, attackStep.Call),
		as(attackSleep, func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Hour) }))
	for i := range 20 {
		start(w, attackSleep, i)
		result(w, start(w, attackOnce, i))
	}
	w.eventually("all that sleep are parked", func() bool {
		page, err := st.Store.(store.Lister).List(w.ctx, store.Query{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range page.Runs {
			if r.Place == store.PlaceParked {
				n++
			}
		}
		return n == 20
	})
	if err := pause(w.ctx, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	before := st.count()
	if err := pause(w.ctx, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := st.count() - before; n > 4 {
		t.Errorf("an idle worker called the store %d times in 200 ms", n)
	}
}

// The clock is set forward, or the machine slept, while a step runs: a timer that
// is due by the clock does not wait for as long as it was meant to.
func TestREC6_TimerOfABusyRunFollowsAClockThatWasSet(t *testing.T) {
	clock := &impatient{}
	w := newWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{})
	busy := newBarrier()
	defer busy.open()
	w.work(worker.Config{}, attackLong.as(func(ctx context.Context, n int) (int, error) {
		busy.pass(ctx)
		return n, nil
	}), as(attackSleep, func(ctx workflow.Context, n int) (int, error) {
		long := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return attackLong.Call(ctx, n) })
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return long.Get(ctx)
	}))
	run := start(w, attackSleep, 7)
	w.await("the step", busy.arrived)
	clock.jump(2 * time.Hour)
	w.reach(run, event.WaitCompleted, 1)
	busy.open()
	if got := result(w, run); got != 7 {
		t.Errorf("result: got %d, want 7", got)
	}
	w.healthy()
}
