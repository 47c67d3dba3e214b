package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Heartbeats fail for longer than the claim lasts, while everything else works:
// the worker lets the step end that runs, and begins and commits nothing until
// it has an answer.
func TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted(t *testing.T) {
	st := &between{Store: memstore.New()}
	var down atomic.Bool
	st.around = func(_ context.Context, op string, _ any, do func() error) error {
		if op == "heartbeat" && down.Load() {
			return errNoAnswer
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	busy := newBarrier()
	defer busy.open()
	var begun, ended atomic.Int64
	w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: 80 * time.Millisecond},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			defer ended.Add(1)
			begun.Add(1)
			busy.pass(ctx)
			return n + 1, nil
		}),
		as(attackOnce, func(ctx workflow.Context, n int) (int, error) {
			for range 3 {
				var err error
				if n, err = attackStep.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		}))
	run := start(w, attackOnce, 1)
	w.await("the step", busy.arrived)
	down.Store(true)
	if err := pause(w.ctx, 120*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	before := st.count("commit")
	busy.open()
	w.eventually("the step has ended", func() bool { return ended.Load() == 1 })
	if err := pause(w.ctx, 40*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := st.count("commit") - before; n != 0 || begun.Load() != 1 {
		t.Errorf("%d commits and %d attempts without a live lease", n, begun.Load()-1)
	}
	down.Store(false)
	if got := result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	for _, e := range filter(w.log(run), event.StepStarted) {
		if e.Attempt != 1 {
			t.Errorf("event %d: attempt %d, want 1: nothing was lost", e.Seq, e.Attempt)
		}
	}
	w.healthy()
}

// slowNotes holds up whoever reads the notes of an attempt before his.
type slowNotes struct {
	between
	gate *barrier
}

func (s *slowNotes) Notes(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	s.gate.pass(ctx)
	noter, _ := store.As[store.Noter](s.Store)
	return noter.Notes(ctx, run)
}

func (s *slowNotes) SetNote(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	noter, _ := store.As[store.Noter](s.Store)
	return noter.SetNote(ctx, run, fence, key, body, progress)
}

// Between the worker's decision to start an attempt and the step's code lies a
// round trip to the store. When it is over the lease may be, too, and another
// worker may have completed the step.
func TestHeartbeat_AttemptThatWasHeldUpWaitsForALiveLease(t *testing.T) {
	const expiry = 80 * time.Millisecond
	st := &slowNotes{between: between{Store: memstore.New()}, gate: newBarrier()}
	defer st.gate.open()
	var down atomic.Bool
	st.around = func(_ context.Context, op string, _ any, do func() error) error {
		if op == "heartbeat" && down.Load() {
			return errNoAnswer
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	var begun atomic.Int64
	w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: expiry},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			begun.Add(1)
			if step.Attempt(ctx) == 1 {
				return 0, errNoAnswer
			}
			return n, nil
		}), as(attackOnce, attackStep.Call))
	run := start(w, attackOnce, 1)
	w.await("the second attempt", st.gate.arrived)
	down.Store(true)
	if err := pause(w.ctx, expiry+40*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	st.gate.open()
	if err := pause(w.ctx, 40*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if begun.Load() != 1 {
		t.Error("the second attempt was begun without a live lease")
	}
	down.Store(false)
	if got := result(w, run); got != 1 {
		t.Errorf("result: got %d, want 1", got)
	}
	if n := begun.Load(); n != 2 {
		t.Errorf("%d attempts were begun, want 2: nothing was lost", n)
	}
	w.healthy()
}

// The lease counts from when the store has renewed it, which may be long before
// the worker hears of it.
func TestHeartbeat_AnswerThatComesLateDoesNotProlongTheClaim(t *testing.T) {
	const expiry = 80 * time.Millisecond
	mem := memstore.New()
	st := &between{Store: mem}
	var late, stalled atomic.Bool
	hung := newBarrier()
	defer hung.open()
	answered := make(chan struct{})
	st.around = func(ctx context.Context, op string, _ any, do func() error) error {
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
	w := newWorld(t, st, workflow.ClientConfig{})
	var begun atomic.Int64
	w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: expiry},
		attackStep.as(func(_ context.Context, n int) (int, error) {
			begun.Add(1)
			return n, nil
		}), as(attackOnce, attackStep.Call))
	late.Store(true)
	w.await("the late answer", answered)
	w.await("the next heartbeat", hung.arrived)
	run := start(w, attackOnce, 1)
	if err := pause(w.ctx, 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if begun.Load() != 0 {
		t.Error("a step was begun although the lease has run out in the store")
	}
	hung.open()
	if got := result(w, run); got != 1 {
		t.Errorf("result: got %d, want 1", got)
	}
	w.healthy()
}

// A run that is set aside because it kills workers has messages in its inbox:
// they were accepted, and its last event names them.
func TestREC4_PoisonedRunListsTheMessagesThatWaited(t *testing.T) {
	w := newMemory(t)
	run := start(w, attackOnce, 1)
	send := func(n int) {
		t.Helper()
		if err := attackTopic.Send(w.ctx, run, n, workflow.IdempotencyKey(string(rune('a'+n)))); err != nil {
			t.Fatal(err)
		}
	}
	thief := store.Session{TTL: time.Hour}
	for n := range 2 {
		thief.ID = store.SessionID(rune('a' + n))
		if err := w.store.OpenSession(w.ctx, thief); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.ClaimRun(w.ctx, 0, thief.ID, event.NewToken(), run.ID()); err != nil {
			t.Fatal(err)
		}
		send(n)
		if err := w.store.CloseSession(w.ctx, 0, thief.ID); err != nil {
			t.Fatal(err)
		}
	}
	executed := false
	w.work(worker.Config{Recoveries: 2}, as(attackOnce, func(workflow.Context, int) (int, error) {
		executed = true
		return 0, nil
	}))
	if e := failure(w, run); e.Code != event.CodePoisoned {
		t.Errorf("code: got %q, want %q", e.Code, event.CodePoisoned)
	}
	log := w.log(run)
	want := []event.ItemID{`key:"attack":a`, `key:"attack":b`}
	if diff := cmp.Diff(want, log[len(log)-1].Unread); diff != "" {
		t.Errorf("unread (-want +got)\n%s", diff)
	}
	if executed {
		t.Error("its code was executed")
	}
	w.healthy()
}

// A session ends again and again while commits are in flight and steps run, and
// what was under way is told so.
func TestHeartbeat_StepsOfAnExpiredSessionAreCanceled(t *testing.T) {
	mem := memstore.New()
	w := newWorld(t, mem, workflow.ClientConfig{})
	begun := make(chan int, 64)
	canceled := make(chan error, 64)
	w.work(worker.Config{Concurrency: 1, Recoveries: 1000, Heartbeat: 5 * time.Millisecond, ClaimExpiry: time.Minute},
		attackLong.as(func(ctx context.Context, n int) (int, error) {
			attempt := step.Attempt(ctx)
			begun <- attempt
			if attempt == 4 {
				return n, nil
			}
			<-ctx.Done()
			canceled <- context.Cause(ctx)
			return 0, ctx.Err()
		}), as(attackOnce, attackLong.Call))
	run := start(w, attackOnce, 1)
	for want := 1; want <= 4; want++ {
		select {
		case got := <-begun:
			if got != want {
				t.Errorf("attempt: got %d, want %d", got, want)
			}
		case <-w.ctx.Done():
			t.Fatalf("attempt %d was not begun", want)
		}
		if want == 4 {
			break
		}
		snap, err := mem.Inspect(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for id := range snap.Leases {
			if err := mem.CloseSession(w.ctx, 0, id); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-canceled:
		case <-w.ctx.Done():
			t.Fatalf("attempt %d was not canceled", want)
		}
	}
	if got := result(w, run); got != 1 {
		t.Errorf("result: got %d, want 1", got)
	}
	w.healthy()
}

// A run that tells of new progress before each death of its worker is not taken for the
// one that kills them; its worker dies more often than a run may take it along.
func TestREC4_HeartbeatsWithNewDetailsAreProgress(t *testing.T) {
	long := aStep[int, int]("long", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1000}})
	onEveryStore(t, func(t *testing.T, w *world) {
		var told atomic.Int64
		const deaths = 8
		w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, as(attackOnce, long.Call),
			long.as(func(ctx context.Context, n int) (int, error) {
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
		run := start(w, attackOnce, 7)
		for n := int64(1); n <= deaths; n++ {
			w.eventually("the step has told of progress", func() bool { return told.Load() == n })
			w.closeSessions()
		}
		if got := result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
	})
}
