package worker_test

import (
	"context"
	"errors"
	"runtime"
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

// TestStop_CodeThatWasLeftBehindIsUnwoundWhenItGetsFree proves that a stopping worker abandons code
// that blocks outside of durable operations. If the code returns later, it has no effect.
func TestStop_CodeThatWasLeftBehindIsUnwoundWhenItGetsFree(t *testing.T) {
	w := flowtest.NewVirtual(t)
	stuck, unwound := newBarrier(), make(chan struct{})
	defer stuck.open()
	r := w.Work(worker.Config{Grace: time.Second}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, n int) (int, error) {
		defer close(unwound)
		stuck.pass(context.Background())
		return flowtest.AttackStep.Call(ctx, n)
	}))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the code", stuck.arrived)
	advanceUntil(w, "the worker to stop", halted(r))
	w.OneLine("abandoned: a run's code does not return", "run="+string(run.ID()), "workflow=test.attack.once")
	stuck.open()
	w.Await("the code to be unwound", unwound)
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, run); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	w.Healthy()
}

// TestStop_WorkerThatCannotOpenASessionStops proves that a worker can be stopped after its session
// has expired and it cannot open another one.
func TestStop_WorkerThatCannotOpenASessionStops(t *testing.T) {
	for name, failure := range map[string]error{"unreachable": errors.New("no route to the store"), "closed": store.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &flowtest.Between{Store: memstore.New()}
			var down atomic.Bool
			failing := make(chan struct{}, 1)
			st.Around = func(ctx context.Context, op string, req any, do func() error) error {
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
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			wk := worker.New(w.Client, worker.Config{})
			wk.ProbeEvery(50 * time.Millisecond)
			flowtest.AttackStep.As(twice)(wk)
			flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call)(wk)
			ctx, halt := context.WithCancel(w.Ctx)
			defer halt()
			done := make(chan error, 1)
			go func() { done <- wk.Run(ctx) }()
			if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 2 {
				t.Errorf("result: got %d, want 2", got)
			}
			down.Store(true)
			flowtest.Start(w, flowtest.AttackOnce, 2)
			w.Await("the session to be opened in vain", failing)
			if !errors.Is(failure, store.ErrClosed) {
				halt()
			}
			select {
			case err := <-done:
				if want := errors.Is(failure, store.ErrClosed); errors.Is(err, store.ErrClosed) != want || (err != nil) != want {
					t.Errorf("Run returned %v", err)
				}
			case <-w.Ctx.Done():
				t.Error("the worker did not stop")
			}
			down.Store(false)
		})
	}
}

// TestStop_WorkerStopsAlthoughTheStoreDoesNotAnswer proves that calls to the store that never
// return do not prevent a worker from stopping.
func TestStop_WorkerStopsAlthoughTheStoreDoesNotAnswer(t *testing.T) {
	for _, hangs := range []string{"commit", "load", "heartbeat", "claim", "wait"} {
		t.Run(hangs, func(t *testing.T) {
			clock := storetest.NewClock()
			st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Clock: clock})}
			down := newBarrier()
			defer down.open()
			var on atomic.Bool
			st.Around = func(ctx context.Context, op string, req any, do func() error) error {
				if on.Load() && op == hangs {
					down.pass(ctx)
					if err := ctx.Err(); err != nil {
						return err
					}
				}
				return do()
			}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			w.Clock, w.Near = clock, false
			r := w.Work(worker.Config{Grace: time.Second, Heartbeat: time.Second, ClaimExpiry: time.Hour},
				flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
			if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 2 {
				t.Errorf("result: got %d, want 2", got)
			}
			on.Store(true)
			run := flowtest.Start(w, flowtest.AttackOnce, 2)
			advanceUntil(w, "the call", down.arrived)
			advanceUntil(w, "the worker to stop", halted(r))
			down.open()
			w.Work(worker.Config{Heartbeat: time.Second, ClaimExpiry: time.Minute}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
			done := make(chan struct{})
			go func() {
				defer close(done)
				if got := flowtest.Result(w, run); got != 4 {
					t.Errorf("result: got %d, want 4", got)
				}
			}()
			advanceUntil(w, "the run", done)
			w.Healthy()
		})
	}
}

// TestStop_ContextThatEndsAtTheStartIsNoError proves that Run returns nil if its context has ended
// before or ends while Run starts.
func TestStop_ContextThatEndsAtTheStartIsNoError(t *testing.T) {
	for _, at := range []string{"before", "open", "claim", "wait"} {
		t.Run(at, func(t *testing.T) {
			ctx, halt := context.WithCancel(t.Context())
			defer halt()
			st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Partitions: 3})}
			st.Around = func(_ context.Context, op string, _ any, do func() error) error {
				if op == at {
					halt()
				}
				return do()
			}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			wk := worker.New(w.Client, worker.Config{})
			flowtest.AttackStep.As(twice)(wk)
			flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call)(wk)
			run := flowtest.Start(w, flowtest.AttackOnce, 3)
			if at == "before" {
				halt()
			}
			if err := wk.Run(ctx); err != nil {
				t.Errorf("Run returned %v", err)
			}
			st.Around = nil
			w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
			if got := flowtest.Result(w, run); got != 6 {
				t.Errorf("result: got %d, want 6", got)
			}
			for _, e := range flowtest.Filter(w.Log(run), event.StepStarted) {
				if e.Attempt != 1 {
					t.Errorf("attempt %d was begun", e.Attempt)
				}
			}
			w.Healthy()
		})
	}
}

// TestStop_StoreThatIsClosedEndsTheWorker proves that Run returns an error if the store is closed
// while the worker runs.
func TestStop_StoreThatIsClosedEndsTheWorker(t *testing.T) {
	st := memstore.New()
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	wk := worker.New(w.Client, worker.Config{Grace: time.Minute})
	begun := make(chan struct{}, 64)
	flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		begun <- struct{}{}
		return n, st.Close()
	})(wk)
	flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call)(wk)
	flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Hour) })(wk)
	flowtest.Start(w, flowtest.AttackSleep, 1)
	flowtest.Start(w, flowtest.AttackOnce, 1)
	if err := wk.Run(w.Ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Run returned %v, want ErrClosed", err)
	}
	w.Await("the step", begun)
}

// halted stops a worker. It returns a channel that is closed when the worker has stopped.
func halted(r *flowtest.Running) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Stop()
	}()
	return done
}

// advanceUntil advances virtual time in steps of 100 ms until done is closed.
func advanceUntil(w *flowtest.World, what string, done <-chan struct{}) {
	w.T.Helper()
	for {
		select {
		case <-done:
			return
		case <-w.Ctx.Done():
			w.T.Fatalf("waited in vain for %s", what)
		default:
			w.Clock.Advance(100 * time.Millisecond)
			runtime.Gosched()
		}
	}
}
