package flowtest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Between is a store that passes every call to the function Around. Around may execute the call
// never, once or twice, now or later, and may return any answer. Between counts the calls. The
// workers of a [World] use their stores through a Between that checks them; see ledger.
type Between struct {
	store.Store
	// Around handles a call. req is the argument of the call. do executes the call and stores its
	// answer. If Around is nil, the call is executed.
	Around func(ctx context.Context, op string, req any, do func() error) error
	// Answers may change the answers of a Commit. It may be nil.
	Answers func(commits []store.Commit, results []store.Committed)

	ledger *ledger // checks the worker that uses the store; nil if there is none

	mu    sync.Mutex
	calls map[string]int
}

// Unwrap returns the wrapped store.
func (s *Between) Unwrap() store.Store { return s.Store }

func (s *Between) pass(ctx context.Context, op string, req any, do func() error) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[op]++
	s.mu.Unlock()
	if s.Around == nil {
		return do()
	}
	return s.Around(ctx, op, req, do)
}

// Tally returns the number of calls by operation.
func (s *Between) Tally() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// Count returns the number of calls of the given operations, or of all operations if none are
// given.
func (s *Between) Count(ops ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for op, calls := range s.calls {
		if len(ops) == 0 || slices.Contains(ops, op) {
			n += calls
		}
	}
	return n
}

// Create calls Around with op "create".
func (s *Between) Create(ctx context.Context, runs []store.Create) (got []store.Created, err error) {
	answered := s.ledger.creates(runs)
	err = s.pass(ctx, "create", runs, func() error { got, err = s.Store.Create(ctx, runs); return err })
	answered(got, err)
	return got, err
}

// OpenSession calls Around with op "open".
func (s *Between) OpenSession(ctx context.Context, o store.Session) error {
	return s.pass(ctx, "open", o, func() error { return s.Store.OpenSession(ctx, o) })
}

// Heartbeat calls Around with op "heartbeat".
func (s *Between) Heartbeat(ctx context.Context, partition int, id store.SessionID) (got store.Heartbeat, err error) {
	err = s.pass(ctx, "heartbeat", id, func() error { got, err = s.Store.Heartbeat(ctx, partition, id); return err })
	return got, err
}

// Reconcile calls Around with op "reconcile".
func (s *Between) Reconcile(ctx context.Context, partition int, id store.SessionID) (got []store.Owned, err error) {
	err = s.pass(ctx, "reconcile", id, func() error { got, err = s.Store.Reconcile(ctx, partition, id); return err })
	return got, err
}

// CloseSession calls Around with op "close".
func (s *Between) CloseSession(ctx context.Context, partition int, id store.SessionID) error {
	return s.pass(ctx, "close", id, func() error { return s.Store.CloseSession(ctx, partition, id) })
}

// Claim calls Around with op "claim". If Around returns an error, Claim returns no runs.
func (s *Between) Claim(ctx context.Context, c store.Claim) (got store.Claimed, err error) {
	err = s.pass(ctx, "claim", c, func() error { got, err = s.Store.Claim(ctx, c); return err })
	if err != nil {
		got = store.Claimed{}
	}
	s.ledger.claims(got)
	return got, err
}

// ClaimRun calls Around with op "claimrun".
func (s *Between) ClaimRun(ctx context.Context, partition int, id store.SessionID, token event.Token, run event.RunID) (got store.ClaimedRun, err error) {
	err = s.pass(ctx, "claimrun", run, func() error { got, err = s.Store.ClaimRun(ctx, partition, id, token, run); return err })
	if err == nil {
		s.ledger.claims(store.Claimed{Runs: []store.ClaimedRun{got}})
	}
	return got, err
}

// Due calls Around with op "due".
func (s *Between) Due(ctx context.Context, partition, limit int) (next time.Time, err error) {
	err = s.pass(ctx, "due", nil, func() error { next, err = s.Store.Due(ctx, partition, limit); return err })
	return next, err
}

// Commit calls Around with op "commit". If Around returns an error, Commit returns no answers.
func (s *Between) Commit(ctx context.Context, commits []store.Commit) (got []store.Committed, err error) {
	answered := s.ledger.commits(commits)
	err = s.pass(ctx, "commit", commits, func() error { got, err = s.Store.Commit(ctx, commits); return err })
	if err != nil {
		answered(nil, err)
		return nil, err
	}
	if s.Answers != nil {
		s.Answers(commits, got)
	}
	answered(got, nil)
	return got, nil
}

// Release calls Around with op "release".
func (s *Between) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	return s.pass(ctx, "release", run, func() error { return s.Store.Release(ctx, run, fence) })
}

// Deliver calls Around with op "deliver".
func (s *Between) Deliver(ctx context.Context, d store.Deliver) (run event.RunID, err error) {
	err = s.pass(ctx, "deliver", d, func() error { run, err = s.Store.Deliver(ctx, d); return err })
	return run, err
}

// Load calls Around with op "load".
func (s *Between) Load(ctx context.Context, runs []store.Load) (got []store.Loaded, err error) {
	answered := s.ledger.reads(runs)
	err = s.pass(ctx, "load", runs, func() error { got, err = s.Store.Load(ctx, runs); return err })
	answered(got, err)
	return got, err
}

// Wait calls Around with op "wait". If Around returns an error, Wait returns no notifications.
func (s *Between) Wait(ctx context.Context, w store.Wait) (got store.Woken, err error) {
	err = s.pass(ctx, "wait", w, func() error { got, err = s.Store.Wait(ctx, w); return err })
	if err != nil {
		got = store.Woken{}
	}
	return got, err
}

// Await waits until arrived is closed or sends a value.
func (w *World) Await(what string, arrived <-chan struct{}) {
	w.T.Helper()
	select {
	case <-arrived:
	case <-w.Ctx.Done():
		w.T.Fatalf("waited in vain for %s", what)
	}
}

// Check returns the invariants that the store violates.
func (w *World) Check() []fsck.Finding {
	w.T.Helper()
	snap, err := w.inspect(w.Ctx)
	Order(w.T, err)
	return fsck.Check(snap)
}

// WorkOn starts a worker on st, which is usually a wrapper of the store of the world.
func (w *World) WorkOn(st store.Store, cfg worker.Config, bindings ...Binding) *Running {
	w.T.Helper()
	other := *w
	other.ledger = w.ledger.another()
	other.Client = workflow.NewClient(&Between{Store: st, ledger: other.ledger}, workflow.ClientConfig{Logger: w.logger(slog.LevelInfo, other.ledger), Codec: w.codec})
	w.T.Cleanup(func() { _ = other.Client.Close() })
	r := other.Work(cfg, bindings...)
	r.Client = other.Client
	w.workers = append(w.workers, r)
	return r
}

// Healthy fails the test if the store violates an invariant.
func (w *World) Healthy() {
	w.T.Helper()
	if found := w.Check(); found != nil {
		w.T.Errorf("the store is damaged: %v", found)
	}
}

// Absent is a Flaky store that also loses every second answer to the calls of clients.
type Absent struct{ Flaky }

// Deliver executes the call and loses every second answer.
func (s *Absent) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	run, err := s.Store.Deliver(ctx, d)
	return run, s.lose(err)
}

// Resolve executes the call and loses every second answer.
func (s *Absent) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	run, err := s.Store.Resolve(ctx, workflowID)
	return run, s.lose(err)
}

// Load executes the call and loses every second answer.
func (s *Absent) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, loads)
	return loaded, s.lose(err)
}

// Purges is a store with virtual time for a single worker. It counts the purges of the worker, and
// fails the first Fail purges.
type Purges struct {
	store.Store
	Virtual *storetest.Clock
	calls   atomic.Int64
	Armed   atomic.Bool // whether the worker waits for its next purge
	Fail    int64
}

// Unwrap returns the wrapped store.
func (p *Purges) Unwrap() store.Store { return p.Store }

// Clock returns a clock that detects when the worker begins to wait for its next purge.
func (p *Purges) Clock() store.Clock { return PurgeClock{p.Virtual, p} }

// Purge executes the call, except for the first Fail calls.
func (p *Purges) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	p.Armed.Store(false)
	if p.calls.Add(1) <= p.Fail {
		return 0, time.Time{}, errors.New("the purge was struck by lightning")
	}
	inner, _ := store.As[store.Purger](p.Store)
	return inner.Purge(ctx, partition, limit)
}

// Delete executes the call.
func (p *Purges) Delete(ctx context.Context, run event.RunID) error {
	inner, _ := store.As[store.Purger](p.Store)
	return inner.Delete(ctx, run)
}

// PurgeClock detects when the worker begins to wait for its next purge. It recognizes this wait by
// its duration, because no other wait of the worker takes about a minute.
type PurgeClock struct {
	*storetest.Clock
	p *Purges
}

// ProbeAtMost is the maximum duration of a worker's wait between two purges.
const ProbeAtMost = 72 * time.Second

// AfterFunc sets an alarm. If the alarm is for the next purge, it sets Armed.
func (c PurgeClock) AfterFunc(d time.Duration, f func()) func() bool {
	stop := c.Clock.AfterFunc(d, f)
	if d >= 10*time.Second && d <= ProbeAtMost {
		c.p.Armed.Store(true)
	}
	return stop
}

// Look advances time until the worker purges, and waits until the purge is complete.
func (w *World) Look(p *Purges) {
	w.T.Helper()
	w.Eventually("the worker waits for its next purge", p.Armed.Load)
	calls := p.calls.Load()
	w.Clock.Advance(ProbeAtMost)
	w.Eventually("the worker has purged", func() bool { return p.calls.Load() > calls && p.Armed.Load() })
}

// Snapshot returns a snapshot of the store. It fails the test if the snapshot violates an
// invariant.
func (w *World) Snapshot() *store.Snapshot {
	w.T.Helper()
	snap, err := w.inspect(w.Ctx)
	Order(w.T, err)
	for _, f := range fsck.Check(snap) {
		w.T.Errorf("fsck: %v", f)
	}
	return snap
}

// Kept returns the IDs of the runs that a list contains.
func (w *World) Kept() map[workflow.RunID]bool {
	w.T.Helper()
	found := map[workflow.RunID]bool{}
	for _, id := range w.List(workflow.Filter{}) {
		found[id] = true
	}
	return found
}

// ErrOutage is the error that a caller gets instead of a lost answer.
var ErrOutage = errors.New("the store does not answer")

// Flaky is a store that executes all calls but loses every second answer to calls about streams and
// logs. This includes answers to questions, which are published on streams.
type Flaky struct {
	store.Store
	Calls  atomic.Int64
	Losses atomic.Int64
}

// Unwrap returns the wrapped store.
func (s *Flaky) Unwrap() store.Store { return s.Store }

func (s *Flaky) lose(err error) error {
	if s.Calls.Add(1)%2 == 0 {
		return err
	}
	s.Losses.Add(1)
	return ErrOutage
}

// Publish executes the call and loses every second answer.
func (s *Flaky) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	return s.lose(s.Store.Publish(ctx, run, fence, chunks))
}

// ReadStream executes the call and loses every second answer.
func (s *Flaky) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	if err := s.lose(err); err != nil {
		return store.StreamPage{}, err
	}
	return page, err
}

// AwaitStream executes the call and loses every second answer.
func (s *Flaky) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	return s.lose(s.Store.AwaitStream(ctx, run, stream, after))
}

// Watch executes the call and loses every second answer.
func (s *Flaky) Watch(ctx context.Context, run event.RunID, n uint64) error {
	return s.lose(s.Store.Watch(ctx, run, n))
}
