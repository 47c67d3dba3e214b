package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestSlots_InterruptedStepWaitsForOneWithoutTouchingTheStore proves that a run whose attempt was
// interrupted waits for a slot without being given back and claimed repeatedly.
func TestSlots_InterruptedStepWaitsForOneWithoutTouchingTheStore(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	runs := interrupt(w, 2)
	busy := newBarrier()
	defer busy.open()
	w.Work(worker.Config{Concurrency: 1, Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	w.Await("the first attempt", busy.arrived)
	before := st.Count()
	if err := pause(w.Ctx, 150*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := st.Count() - before; n > 20 {
		t.Errorf("the worker called the store %d times while it had nothing to do", n)
	}
	busy.open()
	if got := flowtest.Result(w, runs[0]) + flowtest.Result(w, runs[1]); got != 2 {
		t.Errorf("results: got %d, want 2 in all", got)
	}
	w.Healthy()
}

// TestREC5_IdleWorkerDoesNotPoll proves that an idle worker sends only the requests that keep its
// sessions alive.
func TestREC5_IdleWorkerDoesNotPoll(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{Concurrency: 1, Runs: 1}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call),
		flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Hour) }))
	for i := range 20 {
		flowtest.Start(w, flowtest.AttackSleep, i)
		flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, i))
	}
	w.Eventually("all that sleep are parked", func() bool {
		page, err := st.Store.(store.Lister).List(w.Ctx, store.Query{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range page.Runs {
			if r.QueueState == store.StateParked {
				n++
			}
		}
		return n == 20
	})
	if err := pause(w.Ctx, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	before := st.Count()
	if err := pause(w.Ctx, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := st.Count() - before; n > 4 {
		t.Errorf("an idle worker called the store %d times in 200 ms", n)
	}
}

// TestREC6_TimerOfABusyRunFollowsAClockThatWasSet proves that a timer fires when it is due by the
// clock, even if the clock was set forward or the machine slept while a step runs. The run does not
// wait for the timer's full duration.
func TestREC6_TimerOfABusyRunFollowsAClockThatWasSet(t *testing.T) {
	clock := &impatient{}
	w := flowtest.NewWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{})
	busy := newBarrier()
	defer busy.open()
	w.Work(worker.Config{}, flowtest.AttackLong.As(func(ctx context.Context, n int) (int, error) {
		busy.pass(ctx)
		return n, nil
	}), flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) {
		long := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.AttackLong.Call(ctx, n) })
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return long.Get(ctx)
	}))
	run := flowtest.Start(w, flowtest.AttackSleep, 7)
	w.Await("the step", busy.arrived)
	clock.jump(2 * time.Hour)
	w.Reach(run, event.WaitCompleted, 1)
	busy.open()
	if got := flowtest.Result(w, run); got != 7 {
		t.Errorf("result: got %d, want 7", got)
	}
	w.Healthy()
}

// alwaysDue is a store whose claims always report a due time that has passed.
type alwaysDue struct {
	store.Store

	claims, waits atomic.Int64
}

func (s *alwaysDue) Unwrap() store.Store { return s.Store }

func (s *alwaysDue) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.claims.Add(1)
	claimed, err := s.Store.Claim(ctx, c)
	claimed.Next = s.Clock().Now()
	return claimed, err
}

func (s *alwaysDue) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	s.waits.Add(1)
	return s.Store.Wait(ctx, w)
}

// TestREC5_AWorkerForWhichRunsAreAlwaysDueAsksNowAndThenWhatElseThereIs proves that a worker for
// which runs are always due collects wakes at intervals. Collecting wakes costs as much as several
// claims, but ready runs and messages must not wait until no run is due.
func TestREC5_AWorkerForWhichRunsAreAlwaysDueAsksNowAndThenWhatElseThereIs(t *testing.T) {
	s := &alwaysDue{Store: memstore.New()}
	w := flowtest.NewWorld(t, s.Store, workflow.ClientConfig{})
	w.WorkOn(s, worker.Config{}, flowtest.As(flowtest.AttackSleep, func(_ workflow.Context, n int) (int, error) { return n, nil }))
	w.Eventually("the worker has asked often", func() bool { return s.waits.Load() >= 50 })
	waits, claims := s.waits.Load(), s.claims.Load()
	if each := float64(claims) / float64(waits) / float64(s.Partitions()); each < 4 || each > 6 {
		t.Errorf("the worker has claimed %d times and asked %d times in %d partitions: %.1f claims of each for a question, want 5", claims, waits, s.Partitions(), each)
	}
}

// interrupt starts n runs and stops their worker while their attempts are executing.
func interrupt(w *flowtest.World, n int) []*workflow.Run[int] {
	w.T.Helper()
	r := w.Work(worker.Config{Grace: time.Millisecond}, flowtest.AttackStep.As(func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, flowtest.Start(w, flowtest.AttackOnce, i))
		w.Reach(runs[i], event.StepStarted, 1)
	}
	r.Stop()
	return runs
}
