package suite

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// TTL is the duration of the leases of the sessions that [Harness.Session] opens.
const TTL = 30 * time.Second

// Patience is how long the suite waits for the result of a call that blocks. No correct store needs
// as long, so the test fails when Patience has passed. Only the tests of the suite itself shorten
// it.
var Patience = 10 * time.Second

// Orders is the route that most tests use.
var Orders = store.Route{Queue: "default", Workflow: "orders.fulfil"}

// tester has the common methods of testing.TB and rapid.T.
type tester interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Harness contains a store under test and the clock, the IDs and the context of the test. Its
// methods fail the test if the store refuses an operation that must succeed.
type Harness struct {
	tester
	T      testing.TB // the argument of Config.Open and Config.Reopen
	Config Config
	Store  store.Store
	Clock  *Clock
	IDs    *IDs
	Ctx    context.Context
	// Invents is set if the test makes receivers remember records that no outbox contains. In this
	// case the harness ignores violations of invariant 14.
	Invents bool
}

// NewHarness opens a store. When the test ends, the store is checked and closed. test is the test
// or the random history that uses the harness.
func NewHarness(t testing.TB, test tester, cfg Config) *Harness {
	ctx, cancel := context.WithTimeout(context.Background(), 3*Patience)
	h := &Harness{tester: test, T: t, Config: cfg, Clock: NewClock(), IDs: &IDs{}, Ctx: ctx}
	h.Store = cfg.Open(t, h.Clock)
	test.Cleanup(func() {
		if !test.Failed() {
			h.Fsck()
		}
		cancel()
		if err := h.Store.Close(); err != nil {
			test.Errorf("close store: %v", err)
		}
	})
	return h
}

// Fsck fails the test if an invariant of the store is violated. It does nothing if the store is
// closed or is not an Inspector.
func (h *Harness) Fsck() {
	h.Helper()
	i, ok := store.As[store.Inspector](h.Store)
	if !ok {
		return
	}
	snap, err := i.Inspect(h.Ctx)
	if errors.Is(err, store.ErrClosed) {
		return
	}
	if err != nil {
		h.Fatalf("inspect: %v", err)
	}
	for _, f := range h.Findings(snap) {
		h.Errorf("fsck: %v", f)
	}
}

// Findings returns the violations of invariants in a snapshot, without those that Invents permits.
func (h *Harness) Findings(snap *store.Snapshot) []fsck.Finding {
	return slices.DeleteFunc(fsck.Check(snap), func(f fsck.Finding) bool { return f.Invariant == 14 && h.Invents })
}

// Shows reports whether the store shows its whole state.
func (h *Harness) Shows() bool {
	_, ok := store.As[store.Inspector](h.Store)
	return ok
}

// Inspect returns the whole state of the store. It skips the test if the store does not implement
// store.Inspector.
func (h *Harness) Inspect() *store.Snapshot {
	h.Helper()
	i, ok := store.As[store.Inspector](h.Store)
	if !ok {
		h.T.Skipf("%T is not a store.Inspector: the rest of this behaviour cannot be seen", h.Store)
	}
	snap, err := i.Inspect(h.Ctx)
	h.Check("inspect", err)
	return snap
}

// Check fails the test if err is not nil.
func (h *Harness) Check(what string, err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", what, err)
	}
}

// Is fails the test unless err matches want.
func (h *Harness) Is(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}

// As fails the test unless err is an E, and returns it.
func As[E error](h *Harness, what string, err error) E {
	h.Helper()
	var e E
	if !errors.As(err, &e) {
		h.Fatalf("%s: got error %v, want a %T", what, err, e)
	}
	return e
}

// IsA fails the test unless err is an E.
func IsA[E error](h *Harness, what string, err error) {
	h.Helper()
	_ = As[E](h, what, err)
}

// comparing makes cmp compare errors of package store by their fields, and byte slices as a whole.
// If cmp compared byte slices element by element, most of the time of the suite would be spent
// there.
var comparing = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[[]byte]() }, cmpopts.EquateEmpty()),
	cmp.Comparer(bytes.Equal),
	cmp.Comparer(func(a, b event.CommitID) bool { return a == b }),
	cmp.Comparer(func(a, b event.Token) bool { return a == b }),
	cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || sameFields(a, b) }),
}

// sameFields compares errors of package store. These errors wrap no other errors.
func sameFields(a, b any) bool { return reflect.DeepEqual(a, b) }

// Equal fails the test unless got equals want. Empty and nil slices and maps are equal.
func (h *Harness) Equal(what string, got, want any) {
	h.Helper()
	if reflect.DeepEqual(want, got) { // almost always equal; much faster than cmp
		return
	}
	if diff := cmp.Diff(want, got, comparing...); diff != "" {
		h.Fatalf("%s: (-want +got)\n%s", what, diff)
	}
}

// Unchanged fails the test if f changes the state of the store. If the store does not show its
// state, Unchanged only calls f.
func (h *Harness) Unchanged(what string, f func()) {
	h.Helper()
	if !h.Shows() {
		f()
		return
	}
	before := h.Inspect()
	f()
	after := h.Inspect()
	before.Now = after.Now
	before.Audit, after.Audit = SortedAudit(before.Audit), SortedAudit(after.Audit) // a snapshot may have the entries in any order
	h.Equal("state after "+what, after, before)
}

// RunID returns the ID of a run in partition 0.
func (h *Harness) RunID() event.RunID { return h.IDs.Run(h.Clock.Now(), 0) }

// WorkflowID returns a workflow ID in partition 0.
func (h *Harness) WorkflowID(name string) string {
	for event.SlotOf(name)%uint16(h.Store.Partitions()) != 0 {
		name += "-"
	}
	return name
}

// NewLog returns the log of a run in partition 0 that does not exist yet. If workflowID is empty,
// the run has no workflow ID.
func (h *Harness) NewLog(route store.Route, workflowID string) *Log {
	slot := uint16(0)
	if workflowID != "" {
		slot = event.SlotOf(workflowID)
	}
	return NewLog(h.IDs, h.Clock, h.IDs.Run(h.Clock.Now(), slot), event.Spec{
		Workflow: route.Workflow, Queue: route.Queue, WorkflowID: workflowID,
	})
}

// Start creates a run of the route orders.
func (h *Harness) Start(change ...func(*store.Create)) *Log {
	h.Helper()
	return h.StartAs(Orders, "", change...)
}

// StartAs creates a run and fails the test unless it is new.
func (h *Harness) StartAs(route store.Route, workflowID string, change ...func(*store.Create)) *Log {
	h.Helper()
	l := h.NewLog(route, workflowID)
	c := l.Create()
	for _, f := range change {
		f(&c)
	}
	if got := h.Create(c); !got.New || got.Err != nil {
		h.Fatalf("create run %s: got %+v, want a new run", l.Run, got)
	}
	return l
}

// Create sends a request to create one run, and returns the answer.
func (h *Harness) Create(c store.Create) store.Created {
	h.Helper()
	answers, err := h.Store.Create(h.Ctx, []store.Create{c})
	h.Check("create", err)
	if len(answers) != 1 {
		h.Fatalf("create: got %d answers to one request", len(answers))
	}
	return answers[0]
}

// Session opens a session in partition 0.
func (h *Harness) Session(routes ...store.Route) store.SessionID {
	h.Helper()
	return h.SessionWith("v1", routes...)
}

// SessionWith opens a session in partition 0 with a fingerprint of its code.
func (h *Harness) SessionWith(fingerprint string, routes ...store.Route) store.SessionID {
	h.Helper()
	s := store.Session{ID: h.IDs.Session(), Worker: "host/1", TTL: TTL, Routes: routes, Fingerprint: fingerprint}
	h.Check("open session", h.Store.OpenSession(h.Ctx, s))
	return s.ID
}

// Claim claims up to limit runs of the routes, or of the route orders if no routes are given.
func (h *Harness) Claim(s store.SessionID, limit int, routes ...store.Route) []store.ClaimedRun {
	h.Helper()
	if len(routes) == 0 {
		routes = []store.Route{Orders}
	}
	got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: routes, Max: limit})
	h.Check("claim", err)
	return h.HandedAll(got.Runs)
}

// Own claims a run, which must be the only ready run of its route.
func (h *Harness) Own(s store.SessionID, l *Log) store.Fence {
	h.Helper()
	got := h.Claim(s, 100, store.Route{Queue: l.Spec.Queue, Workflow: l.Spec.Workflow})
	if len(got) != 1 || got[0].Run != l.Run {
		h.Fatalf("claim: got %v, want run %s", RunsOf(got), l.Run)
	}
	return got[0].Fence
}

// StartOwned starts a run and claims it.
func (h *Harness) StartOwned(s store.SessionID) (*Log, store.Fence) {
	h.Helper()
	l := h.Start()
	return l, h.Own(s, l)
}

// RecoverDead makes the leases of all other sessions expire. Session s then recovers their runs.
func (h *Harness) RecoverDead(s store.SessionID) {
	h.Helper()
	h.Silence(s)
	h.Chore(s)
}

// Silence advances the clock by more than a TTL, while only session s sends heartbeats.
func (h *Harness) Silence(s store.SessionID) {
	h.Helper()
	for heard := time.Duration(0); heard <= TTL; heard += store.CountedPause(TTL) {
		h.Clock.Advance(store.CountedPause(TTL))
		h.Heartbeat(s)
	}
}

// Chore calls Claim for 0 runs. Such a claim only recovers dead sessions and makes due runs ready.
func (h *Harness) Chore(s store.SessionID) {
	h.Helper()
	_, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token()})
	h.Check("claim of nothing", err)
}

// Heartbeat renews a session of partition 0 and returns the answer with the unread runs sorted.
func (h *Harness) Heartbeat(s store.SessionID) store.Heartbeat {
	h.Helper()
	beat, err := h.Store.Heartbeat(h.Ctx, 0, s)
	h.Check("heartbeat", err)
	slices.Sort(beat.Unread)
	return beat
}

// Try executes a commit and returns the answer.
func (h *Harness) Try(c store.Commit) store.Committed {
	h.Helper()
	answers, err := h.Store.Commit(h.Ctx, []store.Commit{c})
	h.Check("commit", err)
	if len(answers) != 1 {
		h.Fatalf("commit: got %d answers to one request", len(answers))
	}
	return answers[0]
}

// Commit executes a commit and fails the test unless the commit succeeds. It then accepts the frame
// of the commit in the log.
func (h *Harness) Commit(l *Log, c store.Commit) store.Committed {
	h.Helper()
	answer := h.Try(c)
	h.Check("commit", answer.Err)
	l.Accept(c)
	return answer
}

// Finish ends an owned run whose inbox is empty.
func (h *Harness) Finish(l *Log, fence store.Fence, status event.Status) {
	h.Helper()
	h.Commit(l, WithEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status))
}

// Park parks an owned run until due. If due is the zero time, the run has no due time.
func (h *Harness) Park(l *Log, fence store.Fence, due time.Time) {
	h.Helper()
	c := WithEffect(l.Commit(fence, l.Sleep(due)...), store.EffectPark, event.StatusSleeping)
	c.Due = due
	h.Commit(l, c)
}

// WithEffect returns the commit with an effect and the status after it.
func WithEffect(c store.Commit, e store.Effect, status event.Status) store.Commit {
	c.Effect, c.Status = e, status
	return c
}

// Item returns a new item.
func (h *Harness) Item() store.Item {
	id := h.IDs.Item()
	return store.Item{ID: id, Body: []byte(`"` + id + `"`)}
}

// Deliver delivers a new item to a run and returns the item. It fails the test unless the store
// accepts the item.
func (h *Harness) Deliver(run event.RunID) store.Item {
	h.Helper()
	i := h.Item()
	got, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: run, Item: i})
	h.Check("deliver", err)
	h.Equal("run that accepted the item", got, run)
	return i
}

// Load returns the log, the record and the inbox of a run.
func (h *Harness) Load(run event.RunID) store.Loaded {
	h.Helper()
	answers, err := h.Store.Load(h.Ctx, []store.Load{{Run: run, Inbox: true}})
	h.Check("load", err)
	h.Check("load", answers[0].Err)
	return answers[0]
}

// Record returns the record of a run.
func (h *Harness) Record(run event.RunID) store.Record {
	h.Helper()
	return h.Load(run).Record
}

// State fails the test unless the run is in the queue state want.
func (h *Harness) State(run event.RunID, want store.QueueState) {
	h.Helper()
	if got := h.Record(run).QueueState; got != want {
		h.Fatalf("queue state of run %s: got %s, want %s", run, got, want)
	}
}

// Poll returns the answer of a Wait that does not block.
func (h *Harness) Poll(s store.SessionID, routes ...store.Route) store.Woken {
	h.Helper()
	got, err := h.Store.Wait(h.Ctx, store.Wait{
		Sessions: []store.WaitSession{{Session: s}}, Routes: routes, Until: h.Clock.Now(),
	})
	h.Check("wait", err)
	slices.Sort(got.Unread)
	return got
}

// RunsOf returns the IDs of claimed runs.
func RunsOf(claimed []store.ClaimedRun) []event.RunID {
	var runs []event.RunID
	for _, c := range claimed {
		runs = append(runs, c.Run)
	}
	return runs
}

// RunsOfLogs returns the IDs of the runs of logs.
func RunsOfLogs(logs []*Log) []event.RunID {
	var runs []event.RunID
	for _, l := range logs {
		runs = append(runs, l.Run)
	}
	return runs
}
