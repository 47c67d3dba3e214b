package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted proves that a worker whose heartbeats
// have failed for longer than ClaimExpiry begins and commits nothing until a heartbeat succeeds.
// All other requests succeed, and the running step may end.
func TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var down atomic.Bool
	st.Around = func(_ context.Context, op string, _ any, do func() error) error {
		if op == "heartbeat" && down.Load() {
			return errNoAnswer
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	busy := newBarrier()
	defer busy.open()
	var begun, ended atomic.Int64
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: 80 * time.Millisecond},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			defer ended.Add(1)
			begun.Add(1)
			busy.pass(ctx)
			return n + 1, nil
		}),
		flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, n int) (int, error) {
			for range 3 {
				var err error
				if n, err = flowtest.AttackStep.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		}))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the step", busy.arrived)
	down.Store(true)
	if err := pause(w.Ctx, 120*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	before := st.Count("commit")
	busy.open()
	w.Eventually("the step has ended", func() bool { return ended.Load() == 1 })
	if err := pause(w.Ctx, 40*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := st.Count("commit") - before; n != 0 || begun.Load() != 1 {
		t.Errorf("%d commits and %d attempts without a live lease", n, begun.Load()-1)
	}
	down.Store(false)
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	for _, e := range flowtest.Filter(w.Log(run), event.StepStarted) {
		if e.Attempt != 1 {
			t.Errorf("event %d: attempt %d, want 1: nothing was lost", e.Seq, e.Attempt)
		}
	}
	w.Healthy()
}

// slowStepData is a store that delays reads of step data.
type slowStepData struct {
	flowtest.Between
	gate *barrier
}

func (s *slowStepData) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	s.gate.pass(ctx)
	keeper, _ := store.As[store.StepDataStore](s.Store)
	return keeper.StepData(ctx, run)
}

func (s *slowStepData) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	keeper, _ := store.As[store.StepDataStore](s.Store)
	return keeper.SetStepData(ctx, run, fence, key, body, progress)
}

// TestHeartbeat_AttemptThatWasHeldUpWaitsForALiveLease proves that an attempt waits for a live
// lease after the worker has read its step data. The read is a round trip to the store. The lease
// may expire meanwhile, and another worker may complete the step.
func TestHeartbeat_AttemptThatWasHeldUpWaitsForALiveLease(t *testing.T) {
	const expiry = 80 * time.Millisecond
	st := &slowStepData{Between: flowtest.Between{Store: memstore.New()}, gate: newBarrier()}
	defer st.gate.open()
	var down atomic.Bool
	st.Around = func(_ context.Context, op string, _ any, do func() error) error {
		if op == "heartbeat" && down.Load() {
			return errNoAnswer
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	var begun atomic.Int64
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: expiry},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			begun.Add(1)
			if step.Attempt(ctx) == 1 {
				return 0, errNoAnswer
			}
			return n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the second attempt", st.gate.arrived)
	down.Store(true)
	if err := pause(w.Ctx, expiry+40*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	st.gate.open()
	if err := pause(w.Ctx, 40*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if begun.Load() != 1 {
		t.Error("the second attempt was begun without a live lease")
	}
	down.Store(false)
	if got := flowtest.Result(w, run); got != 1 {
		t.Errorf("result: got %d, want 1", got)
	}
	if n := begun.Load(); n != 2 {
		t.Errorf("%d attempts were begun, want 2: nothing was lost", n)
	}
	w.Healthy()
}

// TestAttempt_IsNotBegunOnceItsRunHasEnded proves that the code of a step is not called if the run
// ends while the worker reads the step data of the attempt.
func TestAttempt_IsNotBegunOnceItsRunHasEnded(t *testing.T) {
	st := &slowStepData{Between: flowtest.Between{Store: memstore.New()}, gate: newBarrier()}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	var begun atomic.Int64
	w.Work(worker.Config{}, flowtest.AttackStep.As(func(context.Context, int) (int, error) {
		begun.Add(1)
		return 0, errNoAnswer
	}), flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, n int) (int, error) {
		workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.AttackStep.Call(ctx, n) })
		return flowtest.AttackTopic.Receive(ctx)
	}))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the second attempt", st.gate.arrived)
	flowtest.Order(t, flowtest.AttackTopic.Send(w.Ctx, run, 7))
	if got := flowtest.Result(w, run); got != 7 {
		t.Errorf("result: got %d, want 7", got)
	}
	w.StopWorkers() // waits for the attempt, whose context has ended with the run
	if n := begun.Load(); n != 1 {
		t.Errorf("%d attempts were begun, want 1", n)
	}
	w.Healthy()
}

// TestHeartbeat_AnswerThatComesLateDoesNotProlongTheClaim proves that the expiry of a lease is
// counted from the time at which the heartbeat was sent. The answer may arrive long after the store
// has renewed the lease.
func TestHeartbeat_AnswerThatComesLateDoesNotProlongTheClaim(t *testing.T) {
	const expiry = 80 * time.Millisecond
	mem := memstore.New()
	st := &flowtest.Between{Store: mem}
	var late, stalled atomic.Bool
	hung := newBarrier()
	defer hung.open()
	answered := make(chan struct{})
	st.Around = func(ctx context.Context, op string, _ any, do func() error) error {
		switch {
		case op != "heartbeat":
		case stalled.Load():
			hung.pass(ctx)
		case late.Swap(false):
			stalled.Store(true)
			err := do()
			_ = pause(ctx, expiry+20*time.Millisecond)
			close(answered)
			return err
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	var begun atomic.Int64
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: expiry},
		flowtest.AttackStep.As(func(_ context.Context, n int) (int, error) {
			begun.Add(1)
			return n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	late.Store(true)
	w.Await("the late answer", answered)
	w.Await("the next heartbeat", hung.arrived)
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	if err := pause(w.Ctx, 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if begun.Load() != 0 {
		t.Error("a step was begun although the lease has run out in the store")
	}
	hung.open()
	if got := flowtest.Result(w, run); got != 1 {
		t.Errorf("result: got %d, want 1", got)
	}
	w.Healthy()
}

// TestREC4_PoisonedRunListsTheMessagesThatWaited proves that the last event of a poisoned run lists
// the accepted messages in its inbox.
func TestREC4_PoisonedRunListsTheMessagesThatWaited(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	send := func(n int) {
		t.Helper()
		if err := flowtest.AttackTopic.Send(w.Ctx, run, n, workflow.IdempotencyKey(string(rune('a'+n)))); err != nil {
			t.Fatal(err)
		}
	}
	thief := store.Session{TTL: time.Hour}
	for n := range 2 {
		thief.ID = store.SessionID(rune('a' + n))
		if err := w.Store.OpenSession(w.Ctx, thief); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store.ClaimRun(w.Ctx, 0, thief.ID, event.NewToken(), run.ID()); err != nil {
			t.Fatal(err)
		}
		send(n)
		if err := w.Store.CloseSession(w.Ctx, 0, thief.ID); err != nil {
			t.Fatal(err)
		}
	}
	executed := false
	w.Work(worker.Config{Recoveries: 2}, flowtest.As(flowtest.AttackOnce, func(workflow.Context, int) (int, error) {
		executed = true
		return 0, nil
	}))
	if e := flowtest.Failure(w, run); e.Code != event.CodePoisoned {
		t.Errorf("code: got %q, want %q", e.Code, event.CodePoisoned)
	}
	log := w.Log(run)
	want := []event.ItemID{`key:"attack":a`, `key:"attack":b`}
	if diff := cmp.Diff(want, log[len(log)-1].Unread); diff != "" {
		t.Errorf("unread (-want +got)\n%s", diff)
	}
	if executed {
		t.Error("its code was executed")
	}
	w.Healthy()
}

// TestHeartbeat_StepsOfAnExpiredSessionAreCanceled proves that running steps are canceled, with the
// loss of the claim as the cause, when their session expires. The session expires repeatedly while
// commits are in flight and steps run.
func TestHeartbeat_StepsOfAnExpiredSessionAreCanceled(t *testing.T) {
	mem := memstore.New()
	w := flowtest.NewWorld(t, mem, workflow.ClientConfig{})
	begun := make(chan int, 64)
	canceled := make(chan error, 64)
	w.Work(worker.Config{Concurrency: 1, Recoveries: 1000, Heartbeat: 5 * time.Millisecond, ClaimExpiry: time.Minute},
		flowtest.AttackLong.As(func(ctx context.Context, n int) (int, error) {
			attempt := step.Attempt(ctx)
			begun <- attempt
			if attempt == 4 {
				return n, nil
			}
			<-ctx.Done()
			canceled <- context.Cause(ctx)
			return 0, ctx.Err()
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackLong.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	for want := 1; want <= 4; want++ {
		select {
		case got := <-begun:
			if got != want {
				t.Errorf("attempt: got %d, want %d", got, want)
			}
		case <-w.Ctx.Done():
			t.Fatalf("attempt %d was not begun", want)
		}
		if want == 4 {
			break
		}
		snap, err := mem.Inspect(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		for id := range snap.Leases {
			if err := mem.CloseSession(w.Ctx, 0, id); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-canceled:
		case <-w.Ctx.Done():
			t.Fatalf("attempt %d was not canceled", want)
		}
	}
	if got := flowtest.Result(w, run); got != 1 {
		t.Errorf("result: got %d, want 1", got)
	}
	w.Healthy()
}

// TestREC4_HeartbeatsWithNewDetailsAreProgress proves that a run whose steps record new details
// before each death of its worker is not poisoned, even after more deaths than Recoveries.
func TestREC4_HeartbeatsWithNewDetailsAreProgress(t *testing.T) {
	long := flowtest.AStep[int, int]("long", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1000}})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var told atomic.Int64
		const deaths = 8
		w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, flowtest.As(flowtest.AttackOnce, long.Call),
			long.As(func(ctx context.Context, n int) (int, error) {
				done, _ := step.LastHeartbeat[int](ctx)
				if done == deaths {
					return n, nil
				}
				if err := step.Heartbeat(ctx, done+1); err != nil {
					return 0, err
				}
				told.Store(int64(done + 1))
				<-ctx.Done()
				return 0, ctx.Err()
			}))
		run := flowtest.Start(w, flowtest.AttackOnce, 7)
		for n := int64(1); n <= deaths; n++ {
			w.Eventually("the step has told of progress", func() bool { return told.Load() == n })
			w.CloseSessions()
		}
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
	})
}
