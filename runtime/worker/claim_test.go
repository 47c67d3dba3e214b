package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// starting returns the first commit of a request that contains a step_started event, or nil.
func starting(op string, req any) *store.Commit {
	commits, _ := req.([]store.Commit)
	if op != "commit" {
		return nil
	}
	for i := range commits {
		f, err := event.DecodeFrame(commits[i].Frame)
		if err == nil && len(flowtest.Filter(f.Events, event.StepStarted)) > 0 {
			return &commits[i]
		}
	}
	return nil
}

// TestW2_AttemptIsNotBegunAfterTheClaimHasRunOut proves that a worker does not begin an attempt if
// another worker has claimed the run before the answer to the step_started commit arrives.
func TestW2_AttemptIsNotBegunAfterTheClaimHasRunOut(t *testing.T) {
	stalled := newBarrier()
	defer stalled.open()
	var once, stall atomic.Bool
	mem := memstore.New()
	slow := &flowtest.Between{Store: mem}
	slow.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if starting(op, req) != nil && !once.Swap(true) {
			err := do()
			stall.Store(true)
			stalled.pass(ctx)
			return err
		}
		if stall.Load() {
			stalled.pass(ctx)
		}
		return do()
	}
	w := flowtest.NewWorld(t, mem, workflow.ClientConfig{})
	var attempts flowtest.Seen[int]
	code := flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		attempts.Add(step.Attempt(ctx))
		return 2 * n, nil
	})
	cfg := worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: 100 * time.Millisecond}
	w.WorkOn(slow, cfg, code, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the stall", stalled.arrived)
	w.Work(cfg, code, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.As(flowtest.AttackSleep, func(_ workflow.Context, n int) (int, error) { return n, nil }))
	for { // Each start makes the other worker claim, and a claim recovers the runs of expired sessions.
		flowtest.Result(w, flowtest.Start(w, flowtest.AttackSleep, 1))
		info, err := run.Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Status == workflow.StatusCompleted {
			break
		}
		if err := pause(w.Ctx, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if got := flowtest.Result(w, run); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	stalled.open()
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 2)); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	w.Eventually("the slow worker has a new session", func() bool { return slow.Count("open") == 2 })
	if diff := cmp.Diff([]int{2, 1}, attempts.Get()); diff != "" {
		t.Errorf("attempts that were begun (-want +got)\n%s", diff)
	}
	w.Healthy()
}

// TestF2_AttemptIsNotBegunUnderAClaimThatIsOver proves that the effects of a commit belong to the
// claim under which it was sent. The run is given back and claimed again before the answer of the
// commit arrives. The worker must not begin the attempt under the later claim.
func TestF2_AttemptIsNotBegunUnderAClaimThatIsOver(t *testing.T) {
	again := newBarrier()
	defer again.open()
	var once atomic.Bool
	var claims atomic.Int64
	st := &flowtest.Between{Store: memstore.New()}
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		c := starting(op, req)
		if c == nil || once.Swap(true) {
			err := do()
			if c, ok := req.(store.Claim); ok && c.Max > 0 && once.Load() && claims.Add(1) == 2 {
				again.open() // the worker has received the second claim
			}
			return err
		}
		run, fence := c.Run, c.Fence
		err := errors.Join(do(), st.Store.Release(ctx, run, fence))
		again.pass(ctx)
		return err
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	var attempts flowtest.Seen[int]
	w.Work(worker.Config{Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			attempts.Add(step.Attempt(ctx))
			return 2 * n, nil
		}),
		flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the commit", again.arrived)
	flowtest.Start(w, flowtest.AttackOnce, 5, workflow.WithDelay(time.Hour))
	other := flowtest.Start(w, flowtest.AttackOnce, 2) // makes the worker claim again
	if got := flowtest.Result(w, run) + flowtest.Result(w, other); got != 6 {
		t.Errorf("results: got %d, want 6 in all", got)
	}
	for _, n := range attempts.Get()[:1] {
		if n != 1 && n != 2 {
			t.Errorf("attempt: got %d", n)
		}
	}
	log := w.Log(run)
	if n := len(flowtest.Filter(log, event.StepStarted)); n != 2 {
		t.Fatalf("%d attempts were recorded, want 2: the test proves nothing", n)
	}
	if n := attempts.Len(); n != 2 {
		t.Errorf("%d attempts were begun (%v), want one of each run", n, attempts.Get())
	}
	w.Healthy()
}

// TestHeartbeat_NothingOfAnExpiredSessionIsCommitted proves that a worker commits nothing for a
// claim whose answer arrives after the session has expired.
func TestHeartbeat_NothingOfAnExpiredSessionIsCommitted(t *testing.T) {
	mem := memstore.New()
	st := &flowtest.Between{Store: mem}
	var dead event.Token
	var used, once atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if commits, ok := req.([]store.Commit); ok {
			for _, c := range commits {
				if c.Fence.Token == dead {
					used.Store(true)
				}
			}
		}
		c, ok := req.(store.Claim)
		if !ok || once.Load() {
			return do()
		}
		err := do()
		if snap, serr := mem.Inspect(ctx); serr == nil && len(snap.Owned[c.Session]) > 0 {
			once.Store(true)
			dead = c.Token
			err = errors.Join(err, mem.CloseSession(ctx, 0, c.Session))
			for st.Count("heartbeat") < 3 || st.Count("open") < 2 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if pause(ctx, time.Millisecond) != nil {
					break
				}
			}
		}
		return err
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{Heartbeat: 2 * time.Millisecond, ClaimExpiry: time.Minute}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	if !once.Load() {
		t.Error("no grant came late: the test proves nothing")
	}
	if used.Load() {
		t.Error("the worker committed under a session that it knew to be over")
	}
	w.Healthy()
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	stop := store.SystemClock.AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestK2_WakeIsNotLostWithTheSession proves that a worker claims under its new session if the claim
// after a wake failed because the old session had expired. The worker has taken the wake, so no
// other worker is woken. The clock does not advance, so a later recheck cannot hide the error.
func TestK2_WakeIsNotLostWithTheSession(t *testing.T) {
	clock := storetest.NewClock()
	st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Clock: clock})}
	var expire, taken, lost atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		switch op {
		case "claim":
			if expire.Load() && somethingReady(ctx, st) && expire.Swap(false) {
				taken.Store(true)
				return store.ErrExpired
			}
			taken.Store(false)
		case "wait":
			lost.Store(lost.Load() || taken.Load())
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Clock, w.Near = clock, false
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	expire.Store(true)
	for st.Count("open") < 2 { // A claim in flight may be answered before the session expires.
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 2)); got != 4 {
			t.Errorf("result: got %d, want 4", got)
		}
	}
	if lost.Load() {
		t.Error("the worker waited for another wake instead of claiming")
	}
}

// TestW2_RunThatWasGrantedWithoutAnAnswerIsGivenBack proves that a run is given back if the answer
// of the claim that granted it is lost. The worker finds the run when it reconciles the runs of its
// session.
func TestW2_RunThatWasGrantedWithoutAnAnswerIsGivenBack(t *testing.T) {
	mem := memstore.NewWith(memstore.Config{Clock: &impatient{}})
	st := &flowtest.Between{Store: mem}
	var lost atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		c, ok := req.(store.Claim)
		if !ok || c.Max == 0 || !somethingReady(ctx, st) || lost.Load() {
			return do()
		}
		if err := do(); err != nil {
			return err
		}
		lost.Store(true)
		return errNoAnswer
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	if !lost.Load() || st.Count("release") == 0 {
		t.Errorf("lost an answer: %v, releases: %d: the test proves nothing", lost.Load(), st.Count("release"))
	}
	w.Healthy()
}

// TestK2_WakeIsNotLostWhenTheWorkerStops proves that a worker that is woken while it stops gives
// the wake back.
func TestK2_WakeIsNotLostWhenTheWorkerStops(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var halt atomic.Pointer[context.CancelFunc]
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		err := do()
		if op == "wait" && halt.Load() != nil && somethingReady(ctx, st) {
			(*halt.Load())()
		}
		return err
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	r := w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	halt.Store(&r.Halt)
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	r.Stop()
	w.Healthy()
	halt.Store(nil)
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
}

// somethingReady reports whether the store has ready runs.
func somethingReady(ctx context.Context, s *flowtest.Between) bool {
	inspector, _ := store.As[store.Inspector](s.Store)
	snap, err := inspector.Inspect(ctx)
	return err == nil && len(snap.Ready) > 0
}
