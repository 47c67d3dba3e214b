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
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// starting returns the first of the commits that starts an attempt.
func starting(op string, req any) *store.Commit {
	commits, _ := req.([]store.Commit)
	if op != "commit" {
		return nil
	}
	for i := range commits {
		f, err := event.DecodeFrame(commits[i].Frame)
		if err == nil && len(filter(f.Events, event.StepStarted)) > 0 {
			return &commits[i]
		}
	}
	return nil
}

// W2, F2: the worker hears that its step_started is durable only when another
// worker has taken the run over. It may not begin the attempt any more.
func TestW2_AttemptIsNotBegunAfterTheClaimHasRunOut(t *testing.T) {
	stalled := newBarrier()
	defer stalled.open()
	var once, stall atomic.Bool
	mem := memstore.New()
	slow := &between{Store: mem}
	slow.around = func(ctx context.Context, op string, req any, do func() error) error {
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
	w := newWorld(t, mem, workflow.ClientConfig{})
	var attempts seen[int]
	code := attackStep.as(func(ctx context.Context, n int) (int, error) {
		attempts.add(step.Attempt(ctx))
		return 2 * n, nil
	})
	cfg := worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: 100 * time.Millisecond}
	w.workOn(slow, cfg, code, as(attackOnce, attackStep.Call))
	run := start(w, attackOnce, 1)
	w.await("the stall", stalled.arrived)
	w.work(cfg, code, as(attackOnce, attackStep.Call), as(attackSleep, func(_ workflow.Context, n int) (int, error) { return n, nil }))
	for { // each start makes the other worker claim, and look for the dead
		result(w, start(w, attackSleep, 1))
		info, err := run.Info(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Status == workflow.StatusCompleted {
			break
		}
		if err := pause(w.ctx, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if got := result(w, run); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	stalled.open()
	if got := result(w, start(w, attackOnce, 2)); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	w.eventually("the slow worker has a new session", func() bool { return slow.count("open") == 2 })
	if diff := cmp.Diff([]int{2, 1}, attempts.get()); diff != "" {
		t.Errorf("attempts that were begun (-want +got)\n%s", diff)
	}
	w.healthy()
}

// The answer of a commit comes when the run has been given back and claimed
// again: what the commit explains belongs to the claim before.
func TestF2_AttemptIsNotBegunUnderAClaimThatIsOver(t *testing.T) {
	again := newBarrier()
	defer again.open()
	var once atomic.Bool
	var claims atomic.Int64
	st := &between{Store: memstore.New()}
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		c := starting(op, req)
		if c == nil || once.Swap(true) {
			err := do()
			if c, ok := req.(store.Claim); ok && c.Max > 0 && once.Load() && claims.Add(1) == 2 {
				again.open() // the claim before has been taken in
			}
			return err
		}
		run, fence := c.Run, c.Fence
		err := errors.Join(do(), st.Store.Release(ctx, run, fence))
		again.pass(ctx)
		return err
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	var attempts seen[int]
	w.work(worker.Config{Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			attempts.add(step.Attempt(ctx))
			return 2 * n, nil
		}),
		as(attackOnce, attackStep.Call))
	run := start(w, attackOnce, 1)
	w.await("the commit", again.arrived)
	start(w, attackOnce, 5, workflow.WithDelay(time.Hour))
	other := start(w, attackOnce, 2) // makes the worker claim once more
	if got := result(w, run) + result(w, other); got != 6 {
		t.Errorf("results: got %d, want 6 in all", got)
	}
	for _, n := range attempts.get()[:1] {
		if n != 1 && n != 2 {
			t.Errorf("attempt: got %d", n)
		}
	}
	log := w.log(run)
	if n := len(filter(log, event.StepStarted)); n != 2 {
		t.Fatalf("%d attempts were recorded, want 2: the test proves nothing", n)
	}
	if n := attempts.len(); n != 2 {
		t.Errorf("%d attempts were begun (%v), want one of each run", n, attempts.get())
	}
	w.healthy()
}

// The grant of a claim arrives when the session that it was made under is over.
func TestHeartbeat_NothingOfAnExpiredSessionIsCommitted(t *testing.T) {
	mem := memstore.New()
	st := &between{Store: mem}
	var dead event.Token
	var used, once atomic.Bool
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
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
			for st.count("heartbeat") < 3 || st.count("open") < 2 {
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
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{Heartbeat: 2 * time.Millisecond, ClaimExpiry: time.Minute}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	if got := result(w, start(w, attackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	if !once.Load() {
		t.Error("no grant came late: the test proves nothing")
	}
	if used.Load() {
		t.Error("the worker committed under a session that it knew to be over")
	}
	w.healthy()
}

// pause waits for d.
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

// Whoever is told to claim has taken the wake. If the claim fails because the
// session is over, the new session claims: nobody else will be told. Time stands
// still, so that looking again after a while does not help.
func TestK2_WakeIsNotLostWithTheSession(t *testing.T) {
	clock := storetest.NewClock()
	st := &between{Store: memstore.NewWith(memstore.Config{Clock: clock})}
	var expire, taken, lost atomic.Bool
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		switch op {
		case "claim":
			if expire.Load() && st.somethingReady(ctx) && expire.Swap(false) {
				taken.Store(true)
				return store.ErrExpired
			}
			taken.Store(false)
		case "wait":
			lost.Store(lost.Load() || taken.Load())
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.clock, w.near = clock, false
	w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	if got := result(w, start(w, attackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	expire.Store(true)
	for st.count("open") < 2 { // a claim that is under way may come before
		if got := result(w, start(w, attackOnce, 2)); got != 4 {
			t.Errorf("result: got %d, want 4", got)
		}
	}
	if lost.Load() {
		t.Error("the worker waited for another wake instead of claiming")
	}
}

// The answer of a claim is lost: nobody works on what it granted until the worker
// compares what it owns, and gives it back.
func TestW2_RunThatWasGrantedWithoutAnAnswerIsGivenBack(t *testing.T) {
	mem := memstore.NewWith(memstore.Config{Clock: &impatient{}})
	st := &between{Store: mem}
	var lost atomic.Bool
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		c, ok := req.(store.Claim)
		if !ok || c.Max == 0 || !st.somethingReady(ctx) || lost.Load() {
			return do()
		}
		if err := do(); err != nil {
			return err
		}
		lost.Store(true)
		return errNoAnswer
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	run := start(w, attackOnce, 2)
	if got := result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	if !lost.Load() || st.count("release") == 0 {
		t.Errorf("lost an answer: %v, releases: %d: the test proves nothing", lost.Load(), st.count("release"))
	}
	w.healthy()
}

// A worker that is told to claim in the moment in which it stops hands that on.
func TestK2_WakeIsNotLostWhenTheWorkerStops(t *testing.T) {
	st := &between{Store: memstore.New()}
	var halt atomic.Pointer[context.CancelFunc]
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		err := do()
		if op == "wait" && halt.Load() != nil && st.somethingReady(ctx) {
			(*halt.Load())()
		}
		return err
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	r := w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	if got := result(w, start(w, attackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	halt.Store(&r.halt)
	run := start(w, attackOnce, 2)
	r.stop()
	w.healthy()
	halt.Store(nil)
	w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	if got := result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
}
