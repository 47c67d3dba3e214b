// Package flowtest contains the common parts of the tests of the runtime: a store with a client and
// workers ([World]), stores that fail in different ways, and workflows and steps.
package flowtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Patience is the maximum duration of a test, and of each wait in it. It suffices on a busy
// machine. PatienceEnv can shorten it for executions in which tests are expected to fail by waiting
// in vain.
var Patience = patience()

// PatienceEnv is the name of the environment variable that sets Patience. Its value is a duration
// such as "10s".
const PatienceEnv = "FLOWTEST_PATIENCE"

func patience() time.Duration {
	text := os.Getenv(PatienceEnv)
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("flowtest: %s: %v", PatienceEnv, err))
	}
	return d
}

// World contains a store, a client of the store, its workers, and their logs.
type World struct {
	T      *testing.T
	Ctx    context.Context
	Store  store.Store
	Client *workflow.Client
	Logs   *LogBuffer
	Clock  *storetest.Clock // nil if the store uses the real clock
	Near   bool             // whether the client's runs are local starts, executed by workers of this process

	workers []*Running
	ledger  *ledger
	codec   store.Codec // of Client; may be nil
}

// NewWorld returns a world with a client of the store. Both are closed at the end of the test.
func NewWorld(t *testing.T, st store.Store, cfg workflow.ClientConfig) *World {
	t.Helper()
	logs := &LogBuffer{}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	w := &World{T: t, Ctx: ctx, Store: st, Logs: logs, Near: *Near, ledger: newLedger(&Seen[string]{})}
	cfg.Logger = w.logger(slog.LevelDebug, w.ledger)
	cfg.Codec = testCodec(cfg.Codec)
	w.codec = cfg.Codec
	w.Client = workflow.NewClient(&Between{Store: st, ledger: w.ledger}, cfg)
	t.Cleanup(func() {
		for _, text := range w.ledger.found.Get() {
			t.Error(text)
		}
		w.explain()
		cancel()
		if err := errors.Join(w.Client.Close(), st.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Log(logs.String())
		}
	})
	return w
}

// logger returns a logger for the client that l checks.
func (w *World) logger(level slog.Level, l *ledger) *slog.Logger {
	return slog.New(watchedLog{slog.NewTextHandler(w.Logs, &slog.HandlerOptions{Level: level}), l})
}

// explain logs the runs that have not ended, if the test has failed.
func (w *World) explain() {
	if !w.T.Failed() {
		return
	}
	snap, err := w.inspect(context.Background())
	if err != nil {
		return
	}
	for _, r := range snap.Runs {
		if r.QueueState != store.StateEnded {
			w.T.Logf("run %s of %s is %s (%s) since event %d, due %v, inbox %d, owner %q, recoveries %d",
				r.Run, r.Route.Workflow, r.QueueState, r.Status, r.Seq, r.Due, len(r.Inbox), r.Owner, r.Recoveries)
		}
	}
}

// inspect returns a snapshot of the store.
func (w *World) inspect(ctx context.Context) (*store.Snapshot, error) {
	inspector, ok := store.As[store.Inspector](w.Store)
	if !ok {
		return nil, errors.New("the store cannot be inspected")
	}
	return inspector.Inspect(ctx)
}

// NewMemory returns a world with an in-memory store.
func NewMemory(t *testing.T) *World {
	t.Helper()
	return NewWorld(t, memstore.New(), workflow.ClientConfig{})
}

// NewVirtual returns a world with an in-memory store whose virtual time only the test advances.
func NewVirtual(t *testing.T) *World {
	t.Helper()
	clock := storetest.NewClock()
	w := NewWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{})
	w.Clock = clock
	return w
}

// Binding registers the code of one workflow or step.
type Binding func(workflow.Registrar)

// kitOf returns the kit of a worker.
func kitOf(r workflow.Registrar) *flow.Kit { return (*flow.Registry)(r.Registry()).Kit() }

// ProbeEvery makes a worker claim at least once in d, even without a notification.
func ProbeEvery(d time.Duration) Binding {
	return func(r workflow.Registrar) { kitOf(r).Sleeps = d }
}

// MovesEvery sets the interval at which a worker checks whether pinned runs must move.
func MovesEvery(d time.Duration) Binding {
	return func(r workflow.Registrar) { kitOf(r).Moves = d }
}

// ObeysWithin limits how long a stopping worker waits for code that it has canceled.
func ObeysWithin(d time.Duration) Binding {
	return func(r workflow.Registrar) { kitOf(r).Obeys = d }
}

// StuckAfter sets how long a loop of a worker may make no progress before the worker is not live.
func StuckAfter(d time.Duration) Binding {
	return func(r workflow.Registrar) { kitOf(r).Stuck = d }
}

// Running is a worker that is running.
type Running struct {
	*worker.Worker
	t      *testing.T
	ledger *ledger
	Client *workflow.Client // the client of the worker
	Halt   context.CancelFunc
	Done   chan error
	once   sync.Once
}

// Near makes workers execute the runs of their tests as local starts. By default only tests about
// local starts do this, and the workers of other tests claim their runs.
var Near = flag.Bool("near", false, "hand over what tests start to their workers")

// Work starts a worker, which is stopped at the end of the test. If w.Near is set, the worker
// executes runs that w.Client starts as local starts. It claims all other runs.
func (w *World) Work(cfg worker.Config, bindings ...Binding) *Running {
	w.T.Helper()
	if w.Clock != nil && cfg.Heartbeat == 0 {
		// Leases must not expire because the test advances the time.
		cfg.Heartbeat, cfg.ClaimExpiry = 20_000*time.Hour, 80_000*time.Hour
	}
	cfg.NoLocalStart = cfg.NoLocalStart || !w.Near
	r := &Running{Worker: worker.New(w.Client, cfg), t: w.T, ledger: w.ledger, Client: w.Client, Done: make(chan error, 1)}
	for _, b := range bindings {
		b(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.Halt = cancel
	go func() { r.Done <- r.Run(ctx) }()
	w.workers = append(w.workers, r)
	w.T.Cleanup(r.Stop)
	return r
}

// Stop stops the worker and waits until it has ended.
func (r *Running) Stop() {
	r.once.Do(func() {
		r.Halt()
		select {
		case err := <-r.Done:
			if err != nil {
				r.t.Errorf("Run returned %v", err)
			}
			r.ledger.checkSlots(r.Worker)
		case <-time.After(Patience):
			r.t.Error("the worker did not stop")
		}
	})
}

// StopWorkers stops all workers. After that, the logs contain all lines: a worker logs a commit
// only after the commit has become visible.
func (w *World) StopWorkers() {
	w.T.Helper()
	for _, r := range w.workers {
		r.Stop()
	}
}

// Flow declares a workflow for a test.
func Flow[In, Out any](name string) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{})
}

// LimitedFlow declares a workflow with limits for a test.
func LimitedFlow[In, Out any](name string, uses func(In) []limit.Use) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{Uses: shim.Uses(uses)})
}

// As binds code to a workflow.
func As[In, Out any](d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error)) Binding {
	return func(r workflow.Registrar) { shim.BindWorkflow(r, d, f) }
}

// AsBatch binds code to a workflow that takes the inputs of several starts.
func AsBatch[In, Out any](d workflow.Definition[In, Out], f func(workflow.Context, []In) (Out, error)) Binding {
	return func(r workflow.Registrar) { shim.BindBatch(r, d, f) }
}

// StepArgs contains the arguments of a step with one parameter. Generated code declares the same
// fields.
type StepArgs[A any] struct {
	In A `json:"in"`
}

// StepOf is a step with one parameter. It corresponds to the code that the generator emits.
type StepOf[A, R any] struct {
	shim.Step[func(context.Context, A) (R, error)]
}

// AStep declares a step for a test.
func AStep[A, R any](name string, p shim.Policy) StepOf[A, R] {
	return StepOf[A, R]{shim.NewStep("test."+name, p, func(f func(context.Context, A) (R, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a StepArgs[A]) (R, error) {
			defer begins(ctx)()
			return f(ctx, a.In)
		})
	})}
}

// Call calls the step. It corresponds to the function that the generator emits for a step.
func (s StepOf[A, R]) Call(ctx workflow.Context, a A) (R, error) {
	return shim.Call[R](ctx, s.Step, StepArgs[A]{a})
}

// CallKey calls the step with a key. It corresponds to the function that the generator emits for a
// step with key=.
func (s StepOf[A, R]) CallKey(ctx workflow.Context, key string, a A) (R, error) {
	return shim.CallKey[R](ctx, s.Step, key, StepArgs[A]{a})
}

// As binds code to the step.
func (s StepOf[A, R]) As(f func(context.Context, A) (R, error)) Binding {
	return func(r workflow.Registrar) { s.Bind(r, f) }
}

// Quick is a retry policy with delays of a millisecond, for tests in real time.
var Quick = workflow.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond}

// Start starts a run, and fails the test if the start fails.
func Start[In, Out any](w *World, d workflow.Definition[In, Out], in In, opts ...workflow.StartOption) *workflow.Run[Out] {
	w.T.Helper()
	run, err := d.Start(w.Ctx, w.Client, in, opts...)
	Order(w.T, err)
	return run
}

// patiently calls wait and advances virtual time by six seconds for each second that wait takes.
// Code that computes a duration while the time jumps sets its alarm too late, and wait would not
// return otherwise.
func (w *World) patiently(wait func() error) error {
	if w.Clock == nil {
		return wait()
	}
	done := make(chan error, 1)
	go func() { done <- wait() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Second):
			w.Clock.Advance(6 * time.Second)
		}
	}
}

// Exactly reports whether d is want. It ignores less than a minute, which patiently may have added.
func Exactly(d, want time.Duration) bool { return d >= want && d < want+time.Minute }

// Result waits for the result of a run, and fails the test if the run has an error.
func Result[T any](w *World, run *workflow.Run[T]) (v T) {
	w.T.Helper()
	err := w.patiently(func() (err error) {
		v, err = run.Result(w.Ctx)
		return err
	})
	if err != nil {
		w.T.Fatalf("result of %s: %v", run.ID(), err)
	}
	return v
}

// Failure waits for the error of a run, and fails the test if the run completes.
func Failure[T any](w *World, run *workflow.Run[T]) *workflow.RunError {
	w.T.Helper()
	err := w.patiently(func() error {
		_, err := run.Result(w.Ctx)
		return err
	})
	var failed *workflow.RunError
	if !errors.As(err, &failed) {
		w.T.Fatalf("result of %s: got %v, want a *workflow.RunError", run.ID(), err)
	}
	return failed
}

// Follows is the interface of the handles of runs.
type Follows interface {
	workflow.Target
	ID() workflow.RunID
}

// Reach waits until the log of a run contains n events of a type, and returns the n-th.
func (w *World) Reach(run Follows, typ event.Type, n int) event.Event {
	w.T.Helper()
	return w.reach(run, n, typ)
}

func (w *World) reach(run Follows, n int, types ...event.Type) (last event.Event) {
	w.T.Helper()
	err := w.patiently(func() error {
		for e, err := range w.Client.Run(run.ID()).Events(w.Ctx, workflow.Types(types...)) {
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
		w.T.Fatalf("wait for %d more %v of run %s: %v", n, types, run.ID(), err)
	}
	return last
}

// Log returns the events in the log of a run.
func (w *World) Log(run Follows) []event.Event {
	w.T.Helper()
	return w.Decode(w.load(store.Load{Run: run.ID()}).Frames)
}

// load reads a run, and fails the test if the run cannot be read.
func (w *World) load(l store.Load) *store.Loaded {
	w.T.Helper()
	loaded, err := w.opened().Load(w.Ctx, []store.Load{l})
	if err != nil || loaded[0].Err != nil {
		w.T.Fatal(err, loaded)
	}
	return &loaded[0]
}

// Decode returns the events of frames.
func (w *World) Decode(frames [][]byte) (all []event.Event) {
	w.T.Helper()
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		Order(w.T, err)
		all = append(all, f.Events...)
	}
	return all
}

// Filter returns the events that have one of the given types.
func Filter(events []event.Event, types ...event.Type) []event.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return !slices.Contains(types, e.Type) })
}

// Eventually waits until cond holds. It fails the test with the text what if the time of the test
// has passed.
func (w *World) Eventually(what string, cond func() bool) {
	w.T.Helper()
	for !cond() {
		if w.Ctx.Err() != nil {
			w.T.Fatalf("waited in vain until %s", what)
		}
		runtime.Gosched()
	}
}

// FastForward follows a run to its end. It advances virtual time whenever the run sleeps or waits
// for an attempt.
func (w *World) FastForward(run Follows) {
	w.T.Helper()
	err := w.patiently(func() error {
		for e, err := range w.Client.Run(run.ID()).Events(w.Ctx, workflow.Types(event.StepRetrying, event.WaitCreated)) {
			if err != nil {
				return err
			}
			if d := e.Due.Sub(w.Clock.Now()); d > 0 && !e.Due.IsZero() {
				w.Clock.Advance(d)
			}
		}
		return nil
	})
	Order(w.T, err)
}

// In returns an option with a workflow ID in the given partition. The workflow ID begins with name.
func (w *World) In(partition int, name string) workflow.StartOption {
	for int(event.SlotOf(name))%w.Store.Partitions() != partition%w.Store.Partitions() {
		name += "-"
	}
	return workflow.WithID(name)
}

// Forge delivers a message with any topic to a run. A client of an earlier release, which does not
// protect the topics of the runtime, could send such a message.
func (w *World) Forge(run Follows, topic, payload string) {
	w.T.Helper()
	body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: topic, Payload: []byte(payload)})
	if err == nil {
		_, err = w.Store.Deliver(w.Ctx, store.Deliver{Run: run.ID(), Item: store.Item{ID: event.NewItemID(), Scope: store.ScopeChain, Body: body}})
	}
	Order(w.T, err)
}
