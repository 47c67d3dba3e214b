package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestW1_EverySessionHasAnIDOfItsOwn(t *testing.T) {
	st := &between{Store: memstore.New()}
	var mu sync.Mutex
	ids := map[store.SessionID]int{}
	st.around = func(_ context.Context, op string, req any, do func() error) error {
		if o, ok := req.(store.Session); ok && op == "open" {
			mu.Lock()
			ids[o.ID]++
			mu.Unlock()
		}
		if op == "heartbeat" && st.count("open") < 3 {
			return store.ErrExpired
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{Heartbeat: time.Millisecond, ClaimExpiry: time.Minute}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	w.eventually("the worker has had three sessions", func() bool { return st.count("open") == 3 })
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 3 {
		t.Errorf("sessions: got %v, want 3 with an id of its own each", ids)
	}
}

// Nothing is compared afterwards, and nothing committed: the end of the session alone
// must end what runs under it.
func TestW1_AnExpiredSessionDropsItsRunsAtOnce(t *testing.T) {
	st := &between{Store: memstore.New()}
	var expire atomic.Bool
	st.around = func(_ context.Context, op string, _ any, do func() error) error {
		switch {
		case op != "heartbeat" || !expire.Load():
			return do()
		case st.count("open") == 1:
			return store.ErrExpired
		}
		return errNoAnswer
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	begun, canceled := make(chan struct{}, 1), make(chan struct{}, 1)
	w.work(worker.Config{Heartbeat: 5 * time.Millisecond, ClaimExpiry: time.Minute},
		attackStep.as(func(ctx context.Context, _ int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			canceled <- struct{}{}
			return 0, ctx.Err()
		}), as(attackOnce, attackStep.Call))
	start(w, attackOnce, 1)
	w.await("the step", begun)
	expire.Store(true)
	w.await("the end of its context", canceled)
}

// W2: somebody has taken a run away, and nobody has told the worker.
func TestW2_RunThatIsOwnedNoMoreIsDropped(t *testing.T) {
	mem := memstore.New()
	st := &between{Store: mem}
	fences := make(chan store.Fence, 1)
	st.around = func(_ context.Context, op string, req any, do func() error) error {
		if c := starting(op, req); c != nil {
			select {
			case fences <- c.Fence:
			default:
			}
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	canceled := make(chan error, 1)
	var begun atomic.Int64
	w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			if begun.Add(1) == 1 {
				<-ctx.Done()
				canceled <- context.Cause(ctx)
				return 0, ctx.Err()
			}
			return 2 * n, nil
		}), as(attackOnce, attackStep.Call))
	run := start(w, attackOnce, 2)
	w.eventually("the step has begun", func() bool { return begun.Load() == 1 })
	thief := store.Session{ID: "thief", TTL: time.Hour}
	if err := mem.OpenSession(w.ctx, thief); err != nil {
		t.Fatal(err)
	}
	if err := mem.Release(w.ctx, run.ID(), <-fences); err != nil {
		t.Fatal(err)
	}
	// The worker may notice at once, and have it again, or have ended it.
	_, err := mem.ClaimRun(w.ctx, 0, thief.ID, event.NewToken(), run.ID())
	var ended *store.TerminalError
	if err != nil && !errors.Is(err, store.ErrOwned) && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	select {
	case <-canceled:
	case <-w.ctx.Done():
		t.Fatal("the step of a run that belongs to another goes on")
	}
	if err := mem.CloseSession(w.ctx, 0, thief.ID); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	w.healthy()
}

// mute tells nobody of mail but in heartbeats.
type mute struct{ between }

func (s *mute) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	got, err := s.between.Wait(ctx, w)
	got.Mail = nil
	return got, err
}

func TestW2_MailThatNobodyWasToldOfIsReadAfterAHeartbeat(t *testing.T) {
	w := newWorld(t, &mute{between{Store: memstore.New()}}, workflow.ClientConfig{})
	busy := newBarrier()
	defer busy.open()
	w.work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Minute},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}), as(attackOnce, func(ctx workflow.Context, n int) (int, error) {
			held := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return attackStep.Call(ctx, n) })
			got, err := attackTopic.Receive(ctx)
			if err != nil {
				return 0, err
			}
			busy.open()
			v, err := held.Get(ctx)
			return v + got, err
		}))
	run := start(w, attackOnce, 2)
	w.await("the step", busy.arrived)
	if err := attackTopic.Send(w.ctx, run, 5); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != 9 {
		t.Errorf("result: got %d, want 9", got)
	}
}

// K3: a worker without room makes due runs ready for others.
func TestK3_ABusyWorkerCallsDueForOthers(t *testing.T) {
	clock := storetest.NewClock()
	mem := memstore.NewWith(memstore.Config{Clock: clock})
	st := &between{Store: mem}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.clock = clock
	busy := newBarrier()
	defer busy.open()
	w.work(worker.Config{Runs: 1, Concurrency: 1},
		attackStep.as(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}), as(attackOnce, attackStep.Call), as(attackSleep, func(ctx workflow.Context, n int) (int, error) {
			return n, workflow.Sleep(ctx, time.Minute)
		}))
	sleeps := start(w, attackSleep, 1)
	w.reach(sleeps, event.WaitCreated, 1)
	w.eventually("it is parked", func() bool { return w.parked(sleeps) })
	start(w, attackOnce, 1)
	w.await("the step", busy.arrived)
	w.eventually("it is ready for others", func() bool {
		w.clock.Advance(6 * time.Second)
		return pause(w.ctx, 10*time.Millisecond) == nil && w.place(sleeps) == store.PlaceReady
	})
}

// place returns where a run is.
func (w *world) place(run follows) store.Place {
	w.t.Helper()
	got, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID(), Limit: -1}})
	if err != nil || got[0].Err != nil {
		w.t.Fatal(err, got)
	}
	return got[0].Record.Place
}

func TestK3_AWorkerWaitsUntilTheNextDueTimeItKnows(t *testing.T) {
	clock := storetest.NewClock()
	st := &between{Store: memstore.NewWith(memstore.Config{Clock: clock})}
	due := clock.Now().Add(2 * time.Second)
	var known atomic.Bool
	st.around = func(_ context.Context, op string, req any, do func() error) error {
		if o, ok := req.(store.Wait); ok && op == "wait" && o.Until.Equal(due) {
			known.Store(true)
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	start(w, attackOnce, 1, workflow.WithStartAt(due))
	w.clock = clock
	w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	w.eventually("the worker waits until the run is due", known.Load)
}

// A step that ends because its worker stops has not failed.
func TestREC7_AStepThatTheStopEndedIsLeftToTheNextWorker(t *testing.T) {
	w := newMemory(t)
	var begun atomic.Int64
	code := []binding{attackStep.as(func(ctx context.Context, n int) (int, error) {
		if begun.Add(1) == 1 {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return 2 * n, nil
	}), as(attackOnce, attackStep.Call)}
	first := w.work(worker.Config{Grace: 10 * time.Millisecond}, code...)
	run := start(w, attackOnce, 2)
	w.eventually("the step has begun", func() bool { return begun.Load() == 1 })
	first.stop()
	w.work(worker.Config{}, code...)
	if got := result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	ends := filter(w.log(run), event.StepRetrying, event.StepFailed)
	if len(ends) != 1 || ends[0].Type != event.StepRetrying || ends[0].Failure.Code != event.CodeStopped || !containsAll(ends[0].Failure.Message, "stopped") {
		t.Errorf("the log says of the attempt: %v, want that its worker stopped", ends)
	}
}
