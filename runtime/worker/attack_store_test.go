package worker_test

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// between is a store whose every call passes through a function, which may
// execute it or not, once or twice, sooner or later, and may invent an answer.
// It counts the calls that came.
type between struct {
	store.Store
	// around decides about a call; nil: it is executed. req is the argument,
	// do executes the call and keeps its answer.
	around func(ctx context.Context, op string, req any, do func() error) error
	// answers may change what a Commit answers; nil: nothing is changed.
	answers func(commits []store.Commit, results []store.Committed)

	mu    sync.Mutex
	calls map[string]int
}

func (s *between) Unwrap() store.Store { return s.Store }

func (s *between) pass(ctx context.Context, op string, req any, do func() error) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[op]++
	s.mu.Unlock()
	if s.around == nil {
		return do()
	}
	return s.around(ctx, op, req, do)
}

// tally returns how many calls of each operation came.
func (s *between) tally() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// count returns how many calls of these operations came; of none: of all.
func (s *between) count(ops ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for op, calls := range maps.All(s.calls) {
		wanted := len(ops) == 0
		for _, o := range ops {
			wanted = wanted || o == op
		}
		if wanted {
			n += calls
		}
	}
	return n
}

func (s *between) Create(ctx context.Context, runs []store.Create) (got []store.Created, err error) {
	err = s.pass(ctx, "create", runs, func() error { got, err = s.Store.Create(ctx, runs); return err })
	return got, err
}

func (s *between) OpenSession(ctx context.Context, o store.Session) error {
	return s.pass(ctx, "open", o, func() error { return s.Store.OpenSession(ctx, o) })
}

func (s *between) Heartbeat(ctx context.Context, partition int, id store.SessionID) (got store.Heartbeat, err error) {
	err = s.pass(ctx, "heartbeat", id, func() error { got, err = s.Store.Heartbeat(ctx, partition, id); return err })
	return got, err
}

func (s *between) Reconcile(ctx context.Context, partition int, id store.SessionID) (got []store.Owned, err error) {
	err = s.pass(ctx, "reconcile", id, func() error { got, err = s.Store.Reconcile(ctx, partition, id); return err })
	return got, err
}

func (s *between) CloseSession(ctx context.Context, partition int, id store.SessionID) error {
	return s.pass(ctx, "close", id, func() error { return s.Store.CloseSession(ctx, partition, id) })
}

func (s *between) Claim(ctx context.Context, c store.Claim) (got store.Claimed, err error) {
	err = s.pass(ctx, "claim", c, func() error { got, err = s.Store.Claim(ctx, c); return err })
	if err != nil {
		got = store.Claimed{}
	}
	return got, err
}

func (s *between) Due(ctx context.Context, partition, limit int) (next time.Time, err error) {
	err = s.pass(ctx, "due", nil, func() error { next, err = s.Store.Due(ctx, partition, limit); return err })
	return next, err
}

func (s *between) Commit(ctx context.Context, commits []store.Commit) (got []store.Committed, err error) {
	err = s.pass(ctx, "commit", commits, func() error { got, err = s.Store.Commit(ctx, commits); return err })
	if err != nil {
		return nil, err
	}
	if s.answers != nil {
		s.answers(commits, got)
	}
	return got, nil
}

func (s *between) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	return s.pass(ctx, "release", run, func() error { return s.Store.Release(ctx, run, fence) })
}

func (s *between) Deliver(ctx context.Context, d store.Deliver) (run event.RunID, err error) {
	err = s.pass(ctx, "deliver", d, func() error { run, err = s.Store.Deliver(ctx, d); return err })
	return run, err
}

func (s *between) Load(ctx context.Context, runs []store.Load) (got []store.Loaded, err error) {
	err = s.pass(ctx, "load", runs, func() error { got, err = s.Store.Load(ctx, runs); return err })
	return got, err
}

func (s *between) Wait(ctx context.Context, w store.Wait) (got store.Woken, err error) {
	err = s.pass(ctx, "wait", w, func() error { got, err = s.Store.Wait(ctx, w); return err })
	if err != nil {
		got = store.Woken{}
	}
	return got, err
}

// somethingReady reports whether the store has runs that could be claimed.
func (s *between) somethingReady(ctx context.Context) bool {
	inspector, _ := store.As[store.Inspector](s.Store)
	snap, err := inspector.Inspect(ctx)
	return err == nil && len(snap.Ready) > 0
}

// barrier holds back those who come to it until it is opened.
type barrier struct {
	once    sync.Once
	opened  chan struct{}
	arrived chan struct{} // one value for each that came, at most 64
}

func newBarrier() *barrier {
	return &barrier{opened: make(chan struct{}), arrived: make(chan struct{}, 64)}
}

// pass blocks until the gate is open or ctx ends.
func (g *barrier) pass(ctx context.Context) {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	select {
	case <-g.opened:
	case <-ctx.Done():
	}
}

func (g *barrier) open() { g.once.Do(func() { close(g.opened) }) }

// await blocks until somebody has come to the gate.
func (w *world) await(what string, arrived <-chan struct{}) {
	w.t.Helper()
	select {
	case <-arrived:
	case <-w.ctx.Done():
		w.t.Fatalf("waited in vain for %s", what)
	}
}

// check returns what is wrong with the store.
func (w *world) check() []fsck.Finding {
	w.t.Helper()
	inspector, ok := store.As[store.Inspector](w.store)
	if !ok {
		w.t.Fatal("the store cannot be inspected")
	}
	snap, err := inspector.Inspect(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return fsck.Check(snap)
}

// workOn starts a worker that sees the store through another one.
func (w *world) workOn(st store.Store, cfg worker.Config, bindings ...binding) *running {
	w.t.Helper()
	other := *w
	other.client = workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.logs, nil))})
	w.t.Cleanup(func() { _ = other.client.Close() })
	r := other.work(cfg, bindings...)
	r.client = other.client
	return r
}

// advanceUntil lets virtual time pass until done.
func (w *world) advanceUntil(what string, done <-chan struct{}) {
	w.t.Helper()
	for {
		select {
		case <-done:
			return
		case <-w.ctx.Done():
			w.t.Fatalf("waited in vain for %s", what)
		default:
			w.clock.Advance(100 * time.Millisecond)
			runtime.Gosched()
		}
	}
}

// halted tells a worker to stop and returns what is closed once it has.
func (r *running) halted() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.stop()
	}()
	return done
}

// healthy checks every invariant of the store.
func (w *world) healthy() {
	w.t.Helper()
	if found := w.check(); found != nil {
		w.t.Errorf("the store is damaged: %v", found)
	}
}
