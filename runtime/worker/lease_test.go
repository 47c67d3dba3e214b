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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestW1_EverySessionHasAnIDOfItsOwn(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var mu sync.Mutex
	ids := map[store.SessionID]int{}
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if o, ok := req.(store.Session); ok && op == "open" {
			mu.Lock()
			ids[o.ID]++
			mu.Unlock()
		}
		if op == "heartbeat" && st.Count("open") < 3 {
			return store.ErrExpired
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{Heartbeat: time.Millisecond, ClaimExpiry: time.Minute}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	w.Eventually("the worker has had three sessions", func() bool { return st.Count("open") == 3 })
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 3 {
		t.Errorf("sessions: got %v, want 3 with an id of its own each", ids)
	}
}

// TestW1_AnExpiredSessionDropsItsRunsAtOnce proves that the expiry of a session alone ends its
// runs. No reconciliation and no commit follows.
func TestW1_AnExpiredSessionDropsItsRunsAtOnce(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var expire atomic.Bool
	st.Around = func(_ context.Context, op string, _ any, do func() error) error {
		switch {
		case op != "heartbeat" || !expire.Load():
			return do()
		case st.Count("open") == 1:
			return store.ErrExpired
		}
		return errNoAnswer
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	begun, canceled := make(chan struct{}, 1), make(chan struct{}, 1)
	w.Work(worker.Config{Heartbeat: 5 * time.Millisecond, ClaimExpiry: time.Minute},
		flowtest.AttackStep.As(func(ctx context.Context, _ int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			canceled <- struct{}{}
			return 0, ctx.Err()
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the step", begun)
	expire.Store(true)
	w.Await("the end of its context", canceled)
}

// TestW2_RunThatIsOwnedNoMoreIsDropped proves that a worker drops a run that another session has
// claimed, although the worker gets no notification of the claim.
func TestW2_RunThatIsOwnedNoMoreIsDropped(t *testing.T) {
	mem := memstore.New()
	st := &flowtest.Between{Store: mem}
	fences := make(chan store.Fence, 1)
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if c := starting(op, req); c != nil {
			select {
			case fences <- c.Fence:
			default:
			}
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	canceled := make(chan error, 1)
	var begun atomic.Int64
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			if begun.Add(1) == 1 {
				<-ctx.Done()
				canceled <- context.Cause(ctx)
				return 0, ctx.Err()
			}
			return 2 * n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	w.Eventually("the step has begun", func() bool { return begun.Load() == 1 })
	thief := store.Session{ID: "thief", TTL: time.Hour}
	if err := mem.OpenSession(w.Ctx, thief); err != nil {
		t.Fatal(err)
	}
	if err := mem.Release(w.Ctx, run.ID(), <-fences); err != nil {
		t.Fatal(err)
	}
	// The worker may have claimed the released run again, or even ended it.
	_, err := mem.ClaimRun(w.Ctx, 0, thief.ID, event.NewToken(), run.ID())
	var ended *store.TerminalError
	if err != nil && !errors.Is(err, store.ErrOwned) && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	select {
	case <-canceled:
	case <-w.Ctx.Done():
		t.Fatal("the step of a run that belongs to another goes on")
	}
	if err := mem.CloseSession(w.Ctx, 0, thief.ID); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	w.Healthy()
}

// mute is a store that reports unread items only in answers to heartbeats.
type mute struct{ flowtest.Between }

func (s *mute) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	got, err := s.Between.Wait(ctx, w)
	got.Unread = nil
	return got, err
}

func TestW2_ItemsThatNobodyWasToldOfAreReadAfterAHeartbeat(t *testing.T) {
	w := flowtest.NewWorld(t, &mute{flowtest.Between{Store: memstore.New()}}, workflow.ClientConfig{})
	busy := newBarrier()
	defer busy.open()
	w.Work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Minute},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}), flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, n int) (int, error) {
			held := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.AttackStep.Call(ctx, n) })
			got, err := flowtest.AttackTopic.Receive(ctx)
			if err != nil {
				return 0, err
			}
			busy.open()
			v, err := held.Get(ctx)
			return v + got, err
		}))
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	w.Await("the step", busy.arrived)
	if err := flowtest.AttackTopic.Send(w.Ctx, run, 5); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 9 {
		t.Errorf("result: got %d, want 9", got)
	}
}

// TestK3_ABusyWorkerCallsDueForOthers proves that a worker without free capacity makes due runs
// ready for other workers.
func TestK3_ABusyWorkerCallsDueForOthers(t *testing.T) {
	clock := storetest.NewClock()
	mem := memstore.NewWith(memstore.Config{Clock: clock})
	st := &flowtest.Between{Store: mem}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Clock = clock
	busy := newBarrier()
	defer busy.open()
	w.Work(worker.Config{Runs: 1, Concurrency: 1},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			busy.pass(ctx)
			return 2 * n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) {
			return n, workflow.Sleep(ctx, time.Minute)
		}))
	sleeps := flowtest.Start(w, flowtest.AttackSleep, 1)
	w.Reach(sleeps, event.WaitCreated, 1)
	w.Eventually("it is parked", func() bool { return w.Parked(sleeps) })
	flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the step", busy.arrived)
	w.Eventually("it is ready for others", func() bool {
		w.Clock.Advance(6 * time.Second)
		return pause(w.Ctx, 10*time.Millisecond) == nil && w.Record(sleeps).QueueState == store.StateReady
	})
}

func TestK3_AWorkerWaitsUntilTheNextDueTimeItKnows(t *testing.T) {
	clock := storetest.NewClock()
	st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Clock: clock})}
	due := clock.Now().Add(2 * time.Second)
	var known atomic.Bool
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if o, ok := req.(store.Wait); ok && op == "wait" && o.Until.Equal(due) {
			known.Store(true)
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	flowtest.Start(w, flowtest.AttackOnce, 1, workflow.WithStartAt(due))
	w.Clock = clock
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	w.Eventually("the worker waits until the run is due", known.Load)
}

// TestREC7_AStepThatTheStopEndedIsLeftToTheNextWorker proves that a step that ends because its
// worker stops has not failed. The next worker executes the step again.
func TestREC7_AStepThatTheStopEndedIsLeftToTheNextWorker(t *testing.T) {
	w := flowtest.NewMemory(t)
	var begun atomic.Int64
	code := []flowtest.Binding{flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		if begun.Add(1) == 1 {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return 2 * n, nil
	}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call)}
	first := w.Work(worker.Config{Grace: 10 * time.Millisecond}, code...)
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	w.Eventually("the step has begun", func() bool { return begun.Load() == 1 })
	first.Stop()
	w.Work(worker.Config{}, code...)
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	ends := flowtest.Filter(w.Log(run), event.StepRetrying, event.StepFailed)
	if len(ends) != 1 || ends[0].Type != event.StepRetrying || ends[0].Failure.Code != event.CodeStopped || !flowtest.ContainsAll(ends[0].Failure.Message, "stopped") {
		t.Errorf("the log says of the attempt: %v, want that its worker stopped", ends)
	}
}
