package worker_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every test: whoever waits longer waits for nothing, on the busiest
// machine.
const patience = time.Minute

// world is a store and a client of it, and what the workers on it have logged.
type world struct {
	t      *testing.T
	ctx    context.Context
	store  store.Store
	client *workflow.Client
	logs   *logBuffer
	clock  *storetest.Clock // nil: the machine's
	near   bool             // what is started on the client is handed over to workers
}

// newWorld makes a world on a store, which it closes at the end of the test.
func newWorld(t *testing.T, st store.Store, cfg workflow.ClientConfig) *world {
	t.Helper()
	logs := &logBuffer{}
	cfg.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	w := &world{t: t, ctx: ctx, store: st, client: workflow.NewClient(st, cfg), logs: logs, near: *near}
	t.Cleanup(func() {
		w.explain()
		cancel()
		if err := errors.Join(w.client.Close(), st.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Log(logs.String())
		}
	})
	return w
}

// explain shows, after a failure, the runs that have not ended.
func (w *world) explain() {
	inspector, ok := store.As[store.Inspector](w.store)
	if !ok || !w.t.Failed() {
		return
	}
	snap, err := inspector.Inspect(context.Background())
	if err != nil {
		return
	}
	for _, r := range snap.Runs {
		if r.Place != store.PlaceEnded {
			w.t.Logf("run %s of %s is %s (%s) since event %d, due %v, inbox %d, owner %q, recoveries %d",
				r.Run, r.Class.Workflow, r.Place, r.Status, r.Seq, r.Due, len(r.Inbox), r.Owner, r.Recoveries)
		}
	}
}

// newMemory makes a world in memory.
func newMemory(t *testing.T) *world {
	t.Helper()
	return newWorld(t, memstore.New(), workflow.ClientConfig{})
}

// newVirtual makes a world in memory whose time stands still until the test
// advances it.
func newVirtual(t *testing.T) *world {
	t.Helper()
	clock := storetest.NewClock()
	w := newWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{})
	w.clock = clock
	return w
}

// stores are the kinds of stores on which the runtime must do the same.
var stores = map[string]func(t *testing.T) store.Store{
	"memory": func(*testing.T) store.Store { return memstore.New() },
	"memory in 3 partitions": func(*testing.T) store.Store {
		return memstore.NewWith(memstore.Config{Partitions: 3})
	},
	"sqlite": func(t *testing.T) store.Store { return openSQLite(t, filepath.Join(t.TempDir(), "flows.db")) },
}

func openSQLite(t *testing.T, path string) store.Store {
	t.Helper()
	st, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// onEachStore runs a test on every kind of store.
func onEachStore(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, open(t), workflow.ClientConfig{})) })
	}
}

// binding registers one workflow or step.
type binding func(workflow.Registrar)

// lookEvery lets a worker look for work at least so often, even if nothing wakes it.
func lookEvery(d time.Duration) binding {
	return func(r workflow.Registrar) { r.(*running).LookEvery(d) }
}

// obeysWithin bounds how long a worker that stops waits for code that was told to end.
func obeysWithin(d time.Duration) binding {
	return func(r workflow.Registrar) { r.(*running).ObeysWithin(d) }
}

// running is a worker that works.
type running struct {
	*worker.Worker
	t      *testing.T
	client *workflow.Client // of the worker
	halt   context.CancelFunc
	done   chan error
	once   sync.Once
}

// near hands over what tests start to their workers. Else only tests about that do:
// elsewhere runs are claimed.
var near = flag.Bool("near", false, "hand over what tests start to their workers")

// work starts a worker, which ends with the test. It begins what is
// started on the client of the world if that is near, and claims other runs.
func (w *world) work(cfg worker.Config, bindings ...binding) *running {
	w.t.Helper()
	if w.clock != nil && cfg.Heartbeat == 0 {
		// Leases must not end because the time jumps.
		cfg.Heartbeat, cfg.ClaimExpiry = 20_000*time.Hour, 80_000*time.Hour
	}
	cfg.NoHandover = cfg.NoHandover || !w.near
	r := &running{Worker: worker.New(w.client, cfg), t: w.t, client: w.client, done: make(chan error, 1)}
	for _, b := range bindings {
		b(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.halt = cancel
	go func() { r.done <- r.Run(ctx) }()
	w.t.Cleanup(r.stop)
	return r
}

// stop ends the worker and waits for it.
func (r *running) stop() {
	r.once.Do(func() {
		r.halt()
		select {
		case err := <-r.done:
			if err != nil {
				r.t.Errorf("Run returned %v", err)
			}
		case <-time.After(patience):
			r.t.Error("the worker did not stop")
		}
	})
}

// flow declares a workflow of a test.
func flow[In, Out any](name string) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{})
}

// as binds a workflow to its code.
func as[In, Out any](d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error)) binding {
	return func(r workflow.Registrar) { shim.BindWorkflow(r, d, f) }
}

type stepArgs[A any] struct {
	In A `json:"in"`
}

// stepOf is a step with one parameter, as generated code declares it.
type stepOf[A, R any] struct {
	shim.Step[func(context.Context, A) (R, error)]
}

// aStep declares a step of a test.
func aStep[A, R any](name string, p shim.Policy) stepOf[A, R] {
	return stepOf[A, R]{shim.NewStep("test."+name, p, func(f func(context.Context, A) (R, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a stepArgs[A]) (R, error) { return f(ctx, a.In) })
	})}
}

// Call is the function that flowgen writes for the step.
func (s stepOf[A, R]) Call(ctx workflow.Context, a A) (R, error) {
	return shim.Call[R](ctx, s.Step, stepArgs[A]{a})
}

// CallKey is the function that flowgen writes for a step with a declared key.
func (s stepOf[A, R]) CallKey(ctx workflow.Context, key string, a A) (R, error) {
	return shim.CallKey[R](ctx, s.Step, key, stepArgs[A]{a})
}

// as binds the step to its code.
func (s stepOf[A, R]) as(f func(context.Context, A) (R, error)) binding {
	return func(r workflow.Registrar) { s.Bind(r, f) }
}

// quick is a retry policy for tests in real time.
var quick = workflow.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond}

// start starts a run.
func start[In, Out any](w *world, d workflow.Definition[In, Out], in In, opts ...workflow.StartOption) *workflow.Run[Out] {
	w.t.Helper()
	run, err := d.Start(w.ctx, w.client, in, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// patiently waits for something. Whoever computes from a virtual time how long to
// wait, while that time jumps, sets an alarm that is too late: if nothing comes,
// a little more time passes.
func (w *world) patiently(wait func() error) error {
	if w.clock == nil {
		return wait()
	}
	done := make(chan error, 1)
	go func() { done <- wait() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Second):
			w.clock.Advance(6 * time.Second)
		}
	}
}

// exactly reports whether d is want, but for what patiently may have added.
func exactly(d, want time.Duration) bool { return d >= want && d < want+time.Minute }

// result waits for the result of a run that should complete.
func result[T any](w *world, run *workflow.Run[T]) (v T) {
	w.t.Helper()
	err := w.patiently(func() (err error) {
		v, err = run.Result(w.ctx)
		return err
	})
	if err != nil {
		w.t.Fatalf("result of %s: %v", run.ID(), err)
	}
	return v
}

// failure waits for the error of a run that should not complete.
func failure[T any](w *world, run *workflow.Run[T]) *workflow.RunError {
	w.t.Helper()
	err := w.patiently(func() error {
		_, err := run.Result(w.ctx)
		return err
	})
	var failed *workflow.RunError
	if !errors.As(err, &failed) {
		w.t.Fatalf("result of %s: got %v, want a *workflow.RunError", run.ID(), err)
	}
	return failed
}

// follows is implemented by handles of runs.
type follows interface {
	workflow.Target
	ID() workflow.RunID
}

// reach waits until the log of a run holds n events of a type, and returns the
// last of them.
func (w *world) reach(run follows, typ event.Type, n int) (last event.Event) {
	w.t.Helper()
	err := w.patiently(func() error {
		for e, err := range w.client.Run(run.ID()).Events(w.ctx, workflow.Types(typ)) {
			if err != nil {
				return err
			}
			if n--; n == 0 {
				last = e
				return nil
			}
		}
		return errors.New("the run ended before")
	})
	if err != nil {
		w.t.Fatalf("wait for %d more %s of run %s: %v", n, typ, run.ID(), err)
	}
	return last
}

// log returns what the log of a run holds now.
func (w *world) log(run follows) []event.Event {
	w.t.Helper()
	loaded, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID()}})
	if err != nil || loaded[0].Err != nil {
		w.t.Fatal(err, loaded)
	}
	var all []event.Event
	for _, b := range loaded[0].Frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, f.Events...)
	}
	return all
}

// filter returns the events of some types.
func filter(events []event.Event, types ...event.Type) []event.Event {
	var found []event.Event
	for _, e := range events {
		for _, t := range types {
			if e.Type == t {
				found = append(found, e)
			}
		}
	}
	return found
}

// eventually waits until cond holds.
func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	for !cond() {
		if w.ctx.Err() != nil {
			w.t.Fatalf("waited in vain until %s", what)
		}
		runtime.Gosched()
	}
}

// fastForward follows a run to its end and lets virtual time pass as soon as
// the run sleeps or waits for its next attempt.
func (w *world) fastForward(run follows) {
	w.t.Helper()
	err := w.patiently(func() error {
		for e, err := range w.client.Run(run.ID()).Events(w.ctx, workflow.Types(event.StepRetrying, event.WaitCreated)) {
			if err != nil {
				return err
			}
			if d := e.Due.Sub(w.clock.Now()); d > 0 && !e.Due.IsZero() {
				w.clock.Advance(d)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
