package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Env is an isolated environment for one test: a store, a worker, a client, and virtual time.
// Create it with New, and pass it to the generated Register.
type Env struct {
	tb       testing.TB
	options  options
	store    store.Store
	memory   *memstore.Store // nil: time is real
	client   *workflow.Client
	registry workflow.Registry
	observer flow.Observer
	logger   *slog.Logger
	ctx      context.Context
	cancel   context.CancelFunc

	scheduler scheduler
	wake      chan struct{}
	first     chan struct{} // closed when the first run has been created

	starting sync.Mutex // held while the first worker is started
	creating sync.Mutex // held while a run is created and recorded
	// told is held for reading during a worker's request that may create runs, until the created
	// runs are recorded. A reader that needs all runs locks told. It thereby waits for such
	// requests, including those of a killed worker.
	told sync.RWMutex

	mu          sync.Mutex
	closed      bool
	incarnation *incarnation
	lives       int
	started     uint64        // number of runs
	runs        []event.RunID // runs in the order of their creation
	routes      []store.Route // routes that the worker serves
	stubs       map[string]*Calls
	missing     map[string]string                 // names of nil receivers, by step
	hooks       map[string]func(id, token string) // stand-ins for the senders to hooks, by name of the hook
	hooked      map[string]bool                   // hooks whose stand-ins have been notified
	blocked     string                            // where workflow code blocks; empty: it does not
	failed      bool                              // the failure has been reported to the test
	warned      map[string]bool                   // logged warnings about branches that lost a race
	completed   map[string]bool                   // steps whose completion is durable, by run and key
	attempts    map[string]int                    // number of the last attempt whose start is durable, by run and key of the step
	effects     []effect
	keys        map[event.RunID]map[uint64]string // keys of steps, by the number of the creating event
	lastEvent   string
	asides      map[event.ItemID]bool // delivered items that are not messages
	onceSteps   map[string]bool       // names of launched steps that are declared nonidempotent
	crash       crashPlan
	background  sync.WaitGroup // functions planned with At, and restarts of the worker in real time
}

// New returns an Env with an in-memory store and virtual time. Virtual time does not advance while
// anything works. It jumps to the next due time when everything waits and a caller waits for a run.
// The Env is closed at the end of the test.
//
// The worker starts with the first run. Register workflows and steps before that.
func New(t testing.TB, opts ...Option) *Env {
	t.Helper()
	e := newEnv(t, opts)
	t.Cleanup(e.close)
	return e
}

func newEnv(t testing.TB, opts []Option) *Env {
	e := &Env{
		tb: t, wake: make(chan struct{}, 1), first: make(chan struct{}), options: defaults(opts),
		stubs: map[string]*Calls{}, missing: map[string]string{}, completed: map[string]bool{}, attempts: map[string]int{}, onceSteps: map[string]bool{}, asides: map[event.ItemID]bool{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.logger = slog.New(&logHandler{env: e})
	e.scheduler.init(e)
	e.observer.Missing, e.observer.Losers = e.missingReceiver, e.losersTook
	if open := e.options.store; open != nil {
		e.store = open(t)
	} else {
		e.memory = memstore.NewWith(memstore.Config{Clock: e.scheduler.clock})
		e.store = e.memory
		e.observer.Secret = secret
	}
	(*flow.Registry)(&e.registry).Observe(e.observer)
	e.client = workflow.NewClient(&clientStore{Store: e.store, env: e}, workflow.ClientConfig{Logger: e.logger, Interceptors: e.options.clientInterceptors})
	(*flow.Client)(e.client).Engine().SetBuild("") // logs of tests do not depend on the program
	return e
}

// virtual reports whether the time is virtual.
func (e *Env) virtual() bool { return e.memory != nil }

// Registry returns the registry that generated Register functions fill.
func (e *Env) Registry() *workflow.Registry { return &e.registry }

// Client returns a client of the store.
func (e *Env) Client() *workflow.Client { return e.client }

// Store returns the store, for tools that read it.
func (e *Env) Store() store.Store { return &clientStore{Store: e.store, env: e} }

// Context returns a context that ends with the Env.
func (e *Env) Context() context.Context { return e.ctx }

// Now returns the time by the clock of the store. In virtual time, an Env begins at Epoch.
func (e *Env) Now() time.Time { return e.store.Clock().Now() }

// At calls f when d of virtual time has passed since the beginning of the Env. If the time of the
// store is real, it calls f when d has passed since the creation of the first run. f runs on its
// own goroutine. It may send, cancel, start and wait. Its context ends with the Env. Virtual time
// does not advance while f works.
//
// CrashEverywhere and Interleave call f once in each execution. They do not test crashes of f
// itself, for example in the middle of a send.
func (e *Env) At(d time.Duration, f func(ctx context.Context)) {
	if !e.virtual() {
		e.background.Go(func() {
			select {
			case <-e.first:
			case <-e.ctx.Done():
				return
			}
			select {
			case <-time.After(d):
				e.callPlanned(e.ctx, f)
			case <-e.ctx.Done():
			}
		})
		return
	}
	c := &e.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	at := Epoch.Add(d)
	i := 0
	for i < len(c.calls) && !c.calls[i].at.After(at) {
		i++
	}
	c.calls = append(c.calls[:i:i], append([]*call{{at: at, f: f}}, c.calls[i:]...)...)
}

// callPlanned calls a function planned with At. If the function panics, the test fails, but the
// process continues.
func (e *Env) callPlanned(ctx context.Context, f func(context.Context)) {
	defer func() {
		if r := recover(); r != nil {
			e.fail(fmt.Sprintf("workflowtest: a function planned with Env.At panicked: %v\n%s", r, debug.Stack()))
		}
	}()
	f(ctx)
}

// Run returns a handle of the run that was created first. In CrashEverywhere and Interleave, this
// is the run under test. It fails the test if no run was created. Call it in functions planned with
// At.
func (e *Env) Run() *workflow.Handle {
	e.tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.runs) == 0 {
		e.tb.Error("workflowtest: Env.Run: no run was started yet: call it in a function planned with At")
		return e.client.Run("")
	}
	return e.client.Run(e.runs[0])
}

// Advance advances virtual time by d and executes everything that becomes due. It returns when
// everything waits.
func (e *Env) Advance(d time.Duration) {
	e.tb.Helper()
	if !e.virtual() {
		e.tb.Fatal("workflowtest: Advance: the time of this store is real: leave WithStore out, or wait")
	}
	if err := e.ensureWorker(); err != nil {
		e.tb.Fatal(err)
	}
	c := &e.scheduler
	reached := make(chan struct{})
	c.clock.AfterFunc(max(d, 1), func() { close(reached) })
	over := func() bool {
		select {
		case <-reached:
			return !c.stepsPending()
		default:
			return false
		}
	}
	for {
		err := c.await(e.ctx, over)
		if err == nil {
			err = e.calm()
		}
		switch {
		case err != nil:
			e.tb.Fatal(err)
		case over():
			return
		}
	}
}

// cancelRun cancels the run under test.
func (e *Env) cancelRun(ctx context.Context) {
	if err := e.Run().Cancel(ctx, "workflowtest"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
		e.fail("workflowtest: cancel the run: " + err.Error())
	}
}

// createdByWorker records a run that the worker has created.
func (e *Env) createdByWorker(run event.RunID) {
	e.creating.Lock()
	defer e.creating.Unlock()
	e.created(run)
}

func (e *Env) created(run event.RunID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.runs, run) {
		return // the run is already recorded
	}
	if e.runs = append(e.runs, run); len(e.runs) == 1 {
		close(e.first)
	}
}

// ensureWorker starts the worker if none was started. Concurrent calls start only one worker.
func (e *Env) ensureWorker() error {
	e.starting.Lock()
	defer e.starting.Unlock()
	e.mu.Lock()
	closed, started := e.closed, e.incarnation != nil
	e.mu.Unlock()
	switch {
	case closed:
		return store.ErrClosed
	case started:
		return nil
	case len((*flow.Registry)(&e.registry).WorkflowNames()) == 0:
		return e.failWith(errNothingRegistered)
	}
	e.startIncarnation()
	return nil
}

// nextDue returns the earliest due time of a run in the store. It is zero if no run is due.
func (e *Env) nextDue() (first time.Time, err error) {
	for p := range e.store.Partitions() {
		next, err := e.store.Due(e.ctx, p, 0)
		if err != nil {
			return first, err
		}
		if !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first, nil
}

// makeDue makes all runs ready whose due times have passed.
func (e *Env) makeDue(ctx context.Context) error {
	for p := range e.store.Partitions() {
		if _, err := e.store.Due(ctx, p, 1<<30); err != nil {
			return err
		}
	}
	return nil
}

func (e *Env) settledWaits() int { return e.memory.Settled() }

func (e *Env) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *Env) woken() <-chan struct{} { return e.wake }

func (e *Env) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// close stops the worker and closes the client and the store.
func (e *Env) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.background.Wait()
	if l := e.current(); l != nil {
		l.kill()
		if err := l.reap(); err != nil {
			e.tb.Errorf("workflowtest: %v", err)
		}
	}
	_ = e.client.Close()
	_ = e.store.Close() // the test needs no data of the store
}
