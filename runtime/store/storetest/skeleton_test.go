package storetest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// skeleton is a minimal store from which an author can begin. It implements Create, Load, Resolve,
// Watch and Inspect. Package protocol contains all rules, and package notify implements all
// waiting. The embedded Store is nil. A behaviour that needs a missing operation panics, and the
// panic names the operation to write next.
type skeleton struct {
	store.Store

	clock store.Clock
	done  chan struct{} // closed by Close
	close sync.Once

	mu      sync.Mutex // makes each operation atomic, as a transaction does in a database
	rows    *rows
	op      protocol.Op[*row, store.SessionID]
	waiters *notify.Waiters
	frames  *notify.Notifier[event.RunID, uint64]
}

// rows contains the data of the store. It implements the methods of protocol.Tx that the operations
// of the skeleton need. These methods read and write data, and decide nothing.
type rows struct {
	protocol.Tx[*row, store.SessionID]

	clock  store.Clock
	runs   map[event.RunID]*row
	active map[string]*row
	ready  map[store.Route][]event.RunID
	wakes  map[store.Route]bool // routes with ready runs of which no Wait was notified
}

type row struct {
	state   protocol.Run[store.SessionID]
	created store.Create
	frames  [][]byte
}

func newSkeleton(clock store.Clock) *skeleton {
	s := &skeleton{clock: clock, done: make(chan struct{}), waiters: notify.NewWaiters()}
	s.frames = notify.New[event.RunID, uint64](s.done)
	s.rows = &rows{
		clock: clock, runs: map[event.RunID]*row{}, active: map[string]*row{},
		ready: map[store.Route][]event.RunID{}, wakes: map[store.Route]bool{},
	}
	s.op.Tx = s.rows
	return s
}

func (s *skeleton) Clock() store.Clock { return s.clock }

func (s *skeleton) Partitions() int { return 1 }

func (s *skeleton) Close() error {
	s.close.Do(func() { close(s.done) })
	return nil
}

// enter returns an error if the store is closed or ctx has ended. Every operation calls enter
// first.
func (s *skeleton) enter(ctx context.Context) error {
	select {
	case <-s.done:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

func (s *skeleton) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]store.Created, len(runs))
	for i := range runs {
		var err error
		if answers[i], err = s.op.Create(&runs[i]); err != nil {
			return nil, err // a database would roll back the transaction
		}
		s.announce()
	}
	return answers, nil
}

// announce notifies waiting callers of the changes of an operation. A store with a database calls
// it after the transaction has committed.
func (s *skeleton) announce() {
	for _, r := range s.op.Changes.Ready {
		route := r.created.Route
		s.rows.wakes[route] = s.rows.wakes[route] || !s.waiters.Wake(route)
	}
	for _, r := range s.op.Changes.Frames {
		s.frames.Notify(r.state.ID)
	}
	s.op.Changes.Reset()
}

func (s *skeleton) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]store.Loaded, len(runs))
	for i, l := range runs {
		r := s.rows.runs[l.Run]
		if r == nil {
			answers[i].Err = store.ErrRunNotFound
			continue
		}
		answers[i].Record = r.record()
		if n := uint64(len(r.frames)); l.Limit >= 0 && l.After < n {
			end := n
			if l.Limit > 0 {
				end = min(n, l.After+uint64(l.Limit))
			}
			answers[i].Frames = slices.Clone(r.frames[l.After:end])
		}
	}
	return answers, nil
}

func (s *skeleton) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rows.active[workflowID]; r != nil {
		return r.state.ID, nil
	}
	return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, store.ErrRunNotFound)
}

// Watch subscribes before it reads, so that it misses no frame between reading and waiting.
func (s *skeleton) Watch(ctx context.Context, run event.RunID, n uint64) error {
	frames := s.frames.Subscribe(run)
	defer frames.Close()
	return frames.Await(ctx, notify.Awaiting[event.RunID, uint64]{Look: func() (uint64, bool, error) {
		loaded, err := s.Load(ctx, []store.Load{{Run: run, Limit: -1}})
		if err == nil {
			err = loaded[0].Err
		}
		if err != nil {
			return 0, false, fmt.Errorf("watch run %s: %w", run, err)
		}
		r := loaded[0].Record
		return r.N, store.Watched(n, r.N, r.QueueState == store.StateEnded), nil
	}})
}

// Inspect returns the whole state for package fsck and the suite.
func (s *skeleton) Inspect(ctx context.Context) (*store.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := &store.Snapshot{
		Now: s.clock.Now(), Runs: map[event.RunID]*store.RunState{}, Active: map[string]event.RunID{},
		Ready: map[store.Route][]event.RunID{}, Wakes: map[store.Route]bool{},
	}
	for id, r := range s.rows.runs {
		snap.Runs[id] = &store.RunState{Record: r.record(), Frames: slices.Clone(r.frames)}
	}
	for workflowID, r := range s.rows.active {
		snap.Active[workflowID] = r.state.ID
	}
	for route, runs := range s.rows.ready {
		snap.Ready[route] = slices.Clone(runs)
	}
	for route, set := range s.rows.wakes {
		if set {
			snap.Wakes[route] = true
		}
	}
	return snap, nil
}

func (r *row) record() store.Record {
	return store.Record{
		Run: r.state.ID, Chain: r.state.Chain, WorkflowID: r.state.WorkflowID, Route: r.created.Route, Priority: r.created.Priority,
		Tags: r.created.Tags, Parent: r.created.Parent, Root: r.created.Root, QueueState: r.state.QueueState, Status: r.state.Status,
		N: uint64(len(r.frames)), Seq: r.state.Seq, Last: r.state.Last, Fence: r.state.Fence, CreatedBy: r.state.CreatedBy,
		CreatedAt: protocol.Time(r.state.Created), Retention: r.state.Retention,
	}
}

func (t *rows) Now() time.Time { return t.clock.Now() }

func (t *rows) Run(id event.RunID) (*row, error) { return t.runs[id], nil }

func (t *rows) State(r *row) protocol.Run[store.SessionID] { return r.state }

func (t *rows) Active(workflowID string) (*row, error) { return t.active[workflowID], nil }

func (t *rows) LastEnded(string) (*row, error) { return nil, nil } // no operation ends a run

func (t *rows) SetActive(r, active *row, _ bool) error {
	t.active[r.state.WorkflowID] = active
	return nil
}

func (t *rows) Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (*row, error) {
	r := &row{created: *c, frames: [][]byte{c.Frame}}
	r.state = protocol.Run[store.SessionID]{
		ID: c.Run, Chain: chain, WorkflowID: c.WorkflowID, CreatedBy: createdBy, Status: c.Status, N: 1, Seq: c.Seq, Last: c.CommitID,
		Created: t.Now().UnixMilli(), Retention: c.Retention,
	}
	if r.state.Status == "" {
		r.state.Status = event.StatusPending
	}
	if r.state.Retention <= 0 {
		r.state.Retention = store.DefaultRetention
	}
	t.runs[c.Run] = r
	return r, nil
}

// Save moves the run to the set of its queue state. The skeleton has a set only for ready runs.
func (t *rows) Save(r *row, state protocol.Run[store.SessionID]) error {
	if state.QueueState == store.StateReady && r.state.QueueState != store.StateReady {
		t.ready[r.created.Route] = append(t.ready[r.created.Route], r.state.ID)
	}
	r.state = state
	return nil
}

// A new store can begin like the skeleton, which keeps runs, active runs, ready runs and wakes in
// maps. To add an operation, the author writes the methods of protocol.Tx that the operation calls,
// and runs the behaviours of the operation. See docs/internals/stores.md.
func Example_skeleton() {
	ctx, clock, ids := context.Background(), storetest.NewClock(), &storetest.IDs{}
	s := newSkeleton(clock)
	defer s.Close()

	log := storetest.NewLog(ids, clock, ids.Run(clock.Now(), 0), event.Spec{Workflow: "orders.fulfil", WorkflowID: "order 7"})
	first := log.Create()
	for range 2 { // the second create is a repetition and returns the same run
		answers, err := s.Create(ctx, []store.Create{first})
		fmt.Println(answers[0].New, answers[0].Err, err)
	}
	again := storetest.NewLog(ids, clock, ids.Run(clock.Now(), 0), event.Spec{Workflow: "orders.fulfil", WorkflowID: "order 7"})
	second := again.Create()
	second.Active = store.ActiveFail
	answers, err := s.Create(ctx, []store.Create{second})
	fmt.Println(answers[0].New, answers[0].Err != nil, err)
	fmt.Println(s.Watch(ctx, log.Run, 0))
	// Output:
	// true <nil> <nil>
	// true <nil> <nil>
	// false true <nil>
	// <nil>
}
