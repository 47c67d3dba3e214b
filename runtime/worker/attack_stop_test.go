package worker_test

import (
	"context"
	"errors"
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

// Code that blocks outside of the durable operations is left behind when the
// worker stops. When it gets free later, nothing may come of it.
func TestStop_CodeThatWasLeftBehindIsUnwoundWhenItGetsFree(t *testing.T) {
	w := newVirtual(t)
	stuck, unwound := newBarrier(), make(chan struct{})
	defer stuck.open()
	r := w.work(worker.Config{Grace: time.Second}, attackStep.as(twice), as(attackOnce, func(ctx workflow.Context, n int) (int, error) {
		defer close(unwound)
		stuck.pass(context.Background())
		return attackStep.Call(ctx, n)
	}))
	run := start(w, attackOnce, 1)
	w.await("the code", stuck.arrived)
	w.advanceUntil("the worker to stop", r.halted())
	w.oneLine("left behind: a run's code does not return", "run="+string(run.ID()), "workflow=test.attack.once")
	stuck.open()
	w.await("the code to be unwound", unwound)
	w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
	if got := result(w, run); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	w.healthy()
}

// A worker whose session is over and who cannot open another one can be stopped.
func TestStop_WorkerThatCannotOpenASessionStops(t *testing.T) {
	for name, failure := range map[string]error{"unreachable": errors.New("no route to the store"), "closed": store.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &between{Store: memstore.New()}
			var down atomic.Bool
			failing := make(chan struct{}, 1)
			st.around = func(ctx context.Context, op string, req any, do func() error) error {
				switch {
				case !down.Load() || op == "create":
				case op == "claim":
					return store.ErrExpired
				case op == "open" || errors.Is(failure, store.ErrClosed):
					select {
					case failing <- struct{}{}:
					default:
					}
					return failure
				}
				return do()
			}
			w := newWorld(t, st, workflow.ClientConfig{})
			wk := worker.New(w.client, worker.Config{})
			wk.LookEvery(50 * time.Millisecond)
			attackStep.as(twice)(wk)
			as(attackOnce, attackStep.Call)(wk)
			ctx, halt := context.WithCancel(w.ctx)
			defer halt()
			done := make(chan error, 1)
			go func() { done <- wk.Run(ctx) }()
			if got := result(w, start(w, attackOnce, 1)); got != 2 {
				t.Errorf("result: got %d, want 2", got)
			}
			down.Store(true)
			start(w, attackOnce, 2)
			w.await("the session to be opened in vain", failing)
			if !errors.Is(failure, store.ErrClosed) {
				halt()
			}
			select {
			case err := <-done:
				if want := errors.Is(failure, store.ErrClosed); errors.Is(err, store.ErrClosed) != want || (err != nil) != want {
					t.Errorf("Run returned %v", err)
				}
			case <-w.ctx.Done():
				t.Error("the worker did not stop")
			}
			down.Store(false)
		})
	}
}

// Calls that never return do not keep the worker from stopping.
func TestStop_WorkerStopsAlthoughTheStoreDoesNotAnswer(t *testing.T) {
	for _, hangs := range []string{"commit", "load", "heartbeat", "claim", "wait"} {
		t.Run(hangs, func(t *testing.T) {
			clock := storetest.NewClock()
			st := &between{Store: memstore.NewWith(memstore.Config{Clock: clock})}
			down := newBarrier()
			defer down.open()
			var on atomic.Bool
			st.around = func(ctx context.Context, op string, req any, do func() error) error {
				if on.Load() && op == hangs {
					down.pass(ctx)
					if err := ctx.Err(); err != nil {
						return err
					}
				}
				return do()
			}
			w := newWorld(t, st, workflow.ClientConfig{})
			w.clock, w.near = clock, false
			r := w.work(worker.Config{Grace: time.Second, Heartbeat: time.Second, ClaimExpiry: time.Hour},
				attackStep.as(twice), as(attackOnce, attackStep.Call))
			if got := result(w, start(w, attackOnce, 1)); got != 2 {
				t.Errorf("result: got %d, want 2", got)
			}
			on.Store(true)
			run := start(w, attackOnce, 2)
			w.advanceUntil("the call", down.arrived)
			w.advanceUntil("the worker to stop", r.halted())
			down.open()
			w.work(worker.Config{Heartbeat: time.Second, ClaimExpiry: time.Minute}, attackStep.as(twice), as(attackOnce, attackStep.Call))
			done := make(chan struct{})
			go func() {
				defer close(done)
				if got := result(w, run); got != 4 {
					t.Errorf("result: got %d, want 4", got)
				}
			}()
			w.advanceUntil("the run", done)
			w.healthy()
		})
	}
}

// A context that has ended already, or ends while Run starts, is a graceful stop.
func TestStop_ContextThatEndsAtTheStartIsNoError(t *testing.T) {
	for _, at := range []string{"before", "open", "claim", "wait"} {
		t.Run(at, func(t *testing.T) {
			ctx, halt := context.WithCancel(t.Context())
			defer halt()
			st := &between{Store: memstore.NewWith(memstore.Config{Partitions: 3})}
			st.around = func(_ context.Context, op string, _ any, do func() error) error {
				if op == at {
					halt()
				}
				return do()
			}
			w := newWorld(t, st, workflow.ClientConfig{})
			wk := worker.New(w.client, worker.Config{})
			attackStep.as(twice)(wk)
			as(attackOnce, attackStep.Call)(wk)
			run := start(w, attackOnce, 3)
			if at == "before" {
				halt()
			}
			if err := wk.Run(ctx); err != nil {
				t.Errorf("Run returned %v", err)
			}
			st.around = nil
			w.work(worker.Config{}, attackStep.as(twice), as(attackOnce, attackStep.Call))
			if got := result(w, run); got != 6 {
				t.Errorf("result: got %d, want 6", got)
			}
			for _, e := range filter(w.log(run), event.StepStarted) {
				if e.Attempt != 1 {
					t.Errorf("attempt %d was begun", e.Attempt)
				}
			}
			w.healthy()
		})
	}
}

// When the store is closed under it, the worker says so and ends.
func TestStop_StoreThatIsClosedEndsTheWorker(t *testing.T) {
	st := memstore.New()
	w := newWorld(t, st, workflow.ClientConfig{})
	wk := worker.New(w.client, worker.Config{Grace: time.Minute})
	begun := make(chan struct{}, 64)
	attackStep.as(func(ctx context.Context, n int) (int, error) {
		begun <- struct{}{}
		return n, st.Close()
	})(wk)
	as(attackOnce, attackStep.Call)(wk)
	as(attackSleep, func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Hour) })(wk)
	start(w, attackSleep, 1)
	start(w, attackOnce, 1)
	if err := wk.Run(w.ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Run returned %v, want ErrClosed", err)
	}
	w.await("the step", begun)
}
