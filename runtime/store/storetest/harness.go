package storetest

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

const ttl = 30 * time.Second

// patience is how long the suite waits for the result of a blocked call. It is far more than any
// store needs, so a test that reaches it has failed. Only the tests of the suite itself shorten it.
var patience = 10 * time.Second

// orders is the route that most tests use.
var orders = store.Route{Queue: "default", Workflow: "orders.fulfil"}

// tester has the common methods of testing.TB and rapid.T.
type tester interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// harness is a store under test with the clock, the IDs and the context of its test. Its methods
// fail the test if the store refuses an operation that must succeed.
type harness struct {
	tester
	t     testing.TB // for Config.Open and Config.Reopen
	cfg   Config
	store store.Store
	clock *Clock
	ids   *IDs
	ctx   context.Context
	// invents is set if the test makes receivers remember records that no outbox contains. Findings
	// of invariant 14 are then ignored.
	invents bool
}

// newHarness opens a store. The store is checked and closed when the test ends. test is the random
// history if there is one, otherwise t.
func newHarness(t testing.TB, test tester, cfg Config) *harness {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	h := &harness{tester: test, t: t, cfg: cfg, clock: NewClock(), ids: &IDs{}, ctx: ctx}
	h.store = cfg.Open(t, h.clock)
	test.Cleanup(func() {
		if !test.Failed() {
			h.fsck()
		}
		cancel()
		if err := h.store.Close(); err != nil {
			test.Errorf("close store: %v", err)
		}
	})
	return h
}

// fsck fails the test if an invariant is broken. It does nothing for a closed store, or if the
// store is not an Inspector.
func (h *harness) fsck() {
	h.Helper()
	i, ok := store.As[store.Inspector](h.store)
	if !ok {
		return
	}
	snap, err := i.Inspect(h.ctx)
	if errors.Is(err, store.ErrClosed) {
		return
	}
	if err != nil {
		h.Fatalf("inspect: %v", err)
	}
	for _, f := range h.findings(snap) {
		h.Errorf("fsck: %v", f)
	}
}

// findings returns the broken invariants of a state, except those that the test breaks on purpose.
func (h *harness) findings(snap *store.Snapshot) []fsck.Finding {
	return slices.DeleteFunc(fsck.Check(snap), func(f fsck.Finding) bool { return f.Invariant == 14 && h.invents })
}

// shows reports whether the store shows its whole state.
func (h *harness) shows() bool {
	_, ok := store.As[store.Inspector](h.store)
	return ok
}

// inspect returns the whole state of the store. It skips the test if the store does not show its
// state.
func (h *harness) inspect() *store.Snapshot {
	h.Helper()
	i, ok := store.As[store.Inspector](h.store)
	if !ok {
		h.t.Skipf("%T is not a store.Inspector: the rest of this behaviour cannot be seen", h.store)
	}
	snap, err := i.Inspect(h.ctx)
	h.check("inspect", err)
	return snap
}

func (h *harness) check(what string, err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", what, err)
	}
}

// is fails the test unless err matches want.
func (h *harness) is(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}

// as fails the test unless err is an E, and returns it.
func as[E error](h *harness, what string, err error) E {
	h.Helper()
	var e E
	if !errors.As(err, &e) {
		h.Fatalf("%s: got error %v, want a %T", what, err, e)
	}
	return e
}

// isA fails the test unless err is an E.
func isA[E error](h *harness, what string, err error) {
	h.Helper()
	_ = as[E](h, what, err)
}

// comparing compares errors of package store by their fields, and byte slices as a whole. Comparing
// single bytes would take most of the time of the suite.
var comparing = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[[]byte]() }, cmpopts.EquateEmpty()),
	cmp.Comparer(bytes.Equal),
	cmp.Comparer(func(a, b event.CommitID) bool { return a == b }),
	cmp.Comparer(func(a, b event.Token) bool { return a == b }),
	cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || sameFields(a, b) }),
}

// sameFields compares errors of package store, which wrap no other errors.
func sameFields(a, b any) bool { return reflect.DeepEqual(a, b) }

// equal fails the test unless got equals want. Empty and nil slices and maps are equal.
func (h *harness) equal(what string, got, want any) {
	h.Helper()
	if reflect.DeepEqual(want, got) { // nearly always true, and much faster than cmp
		return
	}
	if diff := cmp.Diff(want, got, comparing...); diff != "" {
		h.Fatalf("%s: (-want +got)\n%s", what, diff)
	}
}

// unchanged fails the test if f changes the state of the store. If the store does not show its
// state, it only calls f.
func (h *harness) unchanged(what string, f func()) {
	h.Helper()
	if !h.shows() {
		f()
		return
	}
	before := h.inspect()
	f()
	after := h.inspect()
	before.Now = after.Now
	before.Audit, after.Audit = sortedAudit(before.Audit), sortedAudit(after.Audit) // a snapshot may have the entries in any order
	h.equal("state after "+what, after, before)
}

// runID returns the ID of a run in partition 0.
func (h *harness) runID() event.RunID { return h.ids.Run(h.clock.Now(), 0) }

// workflowID returns a workflow ID in partition 0.
func (h *harness) workflowID(name string) string {
	for event.SlotOf(name)%uint16(h.store.Partitions()) != 0 {
		name += "-"
	}
	return name
}

// newLog returns the log of a run in partition 0 that has not been created. An empty workflowID
// means that the run has none.
func (h *harness) newLog(route store.Route, workflowID string) *Log {
	slot := uint16(0)
	if workflowID != "" {
		slot = event.SlotOf(workflowID)
	}
	return NewLog(h.ids, h.clock, h.ids.Run(h.clock.Now(), slot), event.Spec{
		Workflow: route.Workflow, Queue: route.Queue, WorkflowID: workflowID,
	})
}

// start creates a run of the route orders.
func (h *harness) start(change ...func(*store.Create)) *Log {
	h.Helper()
	return h.startAs(orders, "", change...)
}

// startAs creates a run and fails the test unless it is new.
func (h *harness) startAs(route store.Route, workflowID string, change ...func(*store.Create)) *Log {
	h.Helper()
	l := h.newLog(route, workflowID)
	c := l.Create()
	for _, f := range change {
		f(&c)
	}
	if got := h.create(c); !got.New || got.Err != nil {
		h.Fatalf("create run %s: got %+v, want a new run", l.Run, got)
	}
	return l
}

func (h *harness) create(c store.Create) store.Created {
	h.Helper()
	answers, err := h.store.Create(h.ctx, []store.Create{c})
	h.check("create", err)
	if len(answers) != 1 {
		h.Fatalf("create: got %d answers to one request", len(answers))
	}
	return answers[0]
}

// session opens a session in partition 0.
func (h *harness) session(routes ...store.Route) store.SessionID {
	h.Helper()
	return h.sessionWith("v1", routes...)
}

func (h *harness) sessionWith(fingerprint string, routes ...store.Route) store.SessionID {
	h.Helper()
	s := store.Session{ID: h.ids.Session(), Worker: "host/1", TTL: ttl, Routes: routes, Fingerprint: fingerprint}
	h.check("open session", h.store.OpenSession(h.ctx, s))
	return s.ID
}

// claim claims up to limit runs of the routes, or of orders if no routes are given.
func (h *harness) claim(s store.SessionID, limit int, routes ...store.Route) []store.ClaimedRun {
	h.Helper()
	if len(routes) == 0 {
		routes = []store.Route{orders}
	}
	got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: routes, Max: limit})
	h.check("claim", err)
	return h.handedAll(got.Runs)
}

// own claims a run, which must be the only ready run of its route.
func (h *harness) own(s store.SessionID, l *Log) store.Fence {
	h.Helper()
	got := h.claim(s, 100, store.Route{Queue: l.Spec.Queue, Workflow: l.Spec.Workflow})
	if len(got) != 1 || got[0].Run != l.Run {
		h.Fatalf("claim: got %v, want run %s", runsOf(got), l.Run)
	}
	return got[0].Fence
}

// startOwned starts a run and claims it.
func (h *harness) startOwned(s store.SessionID) (*Log, store.Fence) {
	h.Helper()
	l := h.start()
	return l, h.own(s, l)
}

// recoverDead makes the leases of all other sessions expire, and lets s recover their runs.
func (h *harness) recoverDead(s store.SessionID) {
	h.Helper()
	h.silence(s)
	h.chore(s)
}

// silence advances the clock by more than a TTL, while only session s sends heartbeats.
func (h *harness) silence(s store.SessionID) {
	h.Helper()
	for heard := time.Duration(0); heard <= ttl; heard += store.CountedPause(ttl) {
		h.clock.Advance(store.CountedPause(ttl))
		h.heartbeat(s)
	}
}

// chore claims no runs. The claim recovers dead sessions.
func (h *harness) chore(s store.SessionID) {
	h.Helper()
	_, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token()})
	h.check("claim of nothing", err)
}

func (h *harness) heartbeat(s store.SessionID) store.Heartbeat {
	h.Helper()
	beat, err := h.store.Heartbeat(h.ctx, 0, s)
	h.check("heartbeat", err)
	slices.Sort(beat.Unread)
	return beat
}

// try commits and returns the answer.
func (h *harness) try(c store.Commit) store.Committed {
	h.Helper()
	answers, err := h.store.Commit(h.ctx, []store.Commit{c})
	h.check("commit", err)
	if len(answers) != 1 {
		h.Fatalf("commit: got %d answers to one request", len(answers))
	}
	return answers[0]
}

// commit commits and fails the test unless that succeeds. It then accepts the frame in the log.
func (h *harness) commit(l *Log, c store.Commit) store.Committed {
	h.Helper()
	answer := h.try(c)
	h.check("commit", answer.Err)
	l.Accept(c)
	return answer
}

// finish ends an owned run whose inbox is empty.
func (h *harness) finish(l *Log, fence store.Fence, status event.Status) {
	h.Helper()
	h.commit(l, withEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status))
}

// park parks an owned run until due, or forever if due is the zero time.
func (h *harness) park(l *Log, fence store.Fence, due time.Time) {
	h.Helper()
	c := withEffect(l.Commit(fence, l.Sleep(due)...), store.EffectPark, event.StatusSleeping)
	c.Due = due
	h.commit(l, c)
}

func withEffect(c store.Commit, e store.Effect, status event.Status) store.Commit {
	c.Effect, c.Status = e, status
	return c
}

func (h *harness) item() store.Item {
	id := h.ids.Item()
	return store.Item{ID: id, Body: []byte(`"` + id + `"`)}
}

// deliver delivers a new item, which must be accepted.
func (h *harness) deliver(run event.RunID) store.Item {
	h.Helper()
	i := h.item()
	got, err := h.store.Deliver(h.ctx, store.Deliver{Run: run, Item: i})
	h.check("deliver", err)
	h.equal("run that accepted the item", got, run)
	return i
}

func (h *harness) load(run event.RunID) store.Loaded {
	h.Helper()
	answers, err := h.store.Load(h.ctx, []store.Load{{Run: run, Inbox: true}})
	h.check("load", err)
	h.check("load", answers[0].Err)
	return answers[0]
}

func (h *harness) record(run event.RunID) store.Record {
	h.Helper()
	return h.load(run).Record
}

// state fails the test unless the run is in that queue state.
func (h *harness) state(run event.RunID, want store.QueueState) {
	h.Helper()
	if got := h.record(run).QueueState; got != want {
		h.Fatalf("queue state of run %s: got %s, want %s", run, got, want)
	}
}

// poll returns the answer of a Wait that does not block.
func (h *harness) poll(s store.SessionID, routes ...store.Route) store.Woken {
	h.Helper()
	got, err := h.store.Wait(h.ctx, store.Wait{
		Sessions: []store.WaitSession{{Session: s}}, Routes: routes, Until: h.clock.Now(),
	})
	h.check("wait", err)
	slices.Sort(got.Unread)
	return got
}

func runsOf(claimed []store.ClaimedRun) []event.RunID {
	var runs []event.RunID
	for _, c := range claimed {
		runs = append(runs, c.Run)
	}
	return runs
}

func runsOfLogs(logs []*Log) []event.RunID {
	var runs []event.RunID
	for _, l := range logs {
		runs = append(runs, l.Run)
	}
	return runs
}
