package suite

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Block gives back an owned run because the code of its session cannot replay it.
func (h *Harness) Block(l *Log, fence store.Fence) {
	h.Helper()
	h.Commit(l, WithEffect(l.Commit(fence), store.EffectBlock, event.StatusBlocked))
}

// Refused fails the test if a claim returns a run to the session.
func (h *Harness) Refused(what string, s store.SessionID) {
	h.Helper()
	h.Equal("claimed by "+what, h.Claim(s, 10), []store.ClaimedRun(nil))
}

// Route returns the route of the run.
func (l *Log) Route() store.Route { return store.Route{Queue: l.Spec.Queue, Workflow: l.Spec.Workflow} }

// ClaimRun claims one run by its ID, and returns the error of the store.
func (h *Harness) ClaimRun(s store.SessionID, l *Log) error {
	_, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
	return err
}

// StartOwnedAs is like StartOwned, for the given route.
func (h *Harness) StartOwnedAs(s store.SessionID, route store.Route) (*Log, store.Fence) {
	h.Helper()
	l := h.StartAs(route, "")
	return l, h.Own(s, l)
}

// Consuming returns the commit with items that it consumes from the front of the inbox.
func Consuming(c store.Commit, items ...store.Item) store.Commit {
	if n := len(items); n > 0 {
		c.Consume, c.ConsumeLast = n, items[n-1].ID
	}
	return c
}

// Conflicts fails the test unless the store refuses the commit with a conflict and writes nothing.
func (h *Harness) Conflicts(what string, c store.Commit) {
	h.Helper()
	h.Unchanged(what, func() { IsA[*store.ConflictError](h, what, h.Try(c).Err) })
}

// Canceling makes a start cancel the active run of its workflow ID.
func Canceling(c *store.Create) {
	c.Active = store.ActiveCancel
}

// CreateAgain returns another request for a run that exists. The request has its own first frame.
func (l *Log) CreateAgain() store.Create {
	return NewLog(l.ids, l.clock, l.Run, l.Spec).Create()
}

// Due makes up to limit due runs of partition 0 ready. It returns when the next run is due.
func (h *Harness) Due(limit int) time.Time {
	h.Helper()
	next, err := h.Store.Due(h.Ctx, 0, limit)
	h.Check("due", err)
	return next
}

// Debounce keeps the item of the last start. Batch keeps the items of all starts.
var (
	Debounce = store.Collect{Quiet: 10 * time.Second, Most: 25 * time.Second}
	Batch    = store.Collect{Keep: true, Most: 10 * time.Second, Full: 3}
)

// GatheringWith returns a start that shares a run with other starts of the key, and the log of the
// run that it creates if no existing run collects starts of the key. The run has the given tags.
func (h *Harness) GatheringWith(g store.Collect, key string, tags map[string]string) (*Log, store.Create) {
	g.Key = h.WorkflowID(key)
	l := NewLog(h.IDs, h.Clock, h.IDs.Run(h.Clock.Now(), event.SlotOf(g.Key)), event.Spec{Workflow: Orders.Workflow, Queue: Orders.Queue, Tags: tags})
	c := l.Create()
	c.Collect, c.Items = &g, []store.Item{h.Item()}
	return l, c
}

// Handed compares the log, inbox and log size in the answer of a claim with the answer of Load. It
// returns the claimed run without them.
func (h *Harness) Handed(c store.ClaimedRun) store.ClaimedRun {
	h.Helper()
	if c.Loaded != nil {
		want := h.Load(c.Run)
		want.Record = store.Record{}
		h.Equal("run that the claim hands over", *c.Loaded, want)
		c.Loaded = nil
	}
	if c.Bytes != 0 {
		bytes := 0
		for _, f := range h.Load(c.Run).Frames {
			bytes += len(f)
		}
		h.Equal("length of the log that a claim tells", c.Bytes, bytes)
		c.Bytes = 0
	}
	return c
}

// HandedAll calls Handed for each claimed run, and returns the results.
func (h *Harness) HandedAll(claimed []store.ClaimedRun) []store.ClaimedRun {
	h.Helper()
	for i := range claimed {
		claimed[i] = h.Handed(claimed[i])
	}
	return claimed
}

// LineUp creates a run that waits in the queue of starts of its workflow ID. It returns the log of
// the run and the cancel item for the active run.
func (h *Harness) LineUp(wid string) (*Log, store.Item) {
	h.Helper()
	cancel := h.Item()
	l := h.StartAs(Orders, wid, Canceling, func(c *store.Create) { c.Cancel = cancel })
	return l, cancel
}

// OwnedBy makes a session the owner of a run from its creation.
func (h *Harness) OwnedBy(s store.SessionID) func(*store.Create) {
	return func(c *store.Create) { c.Owner = &store.Owner{Session: s, Token: h.IDs.Token()} }
}

// Bear creates a run that a session owns. It returns the log of the run and the request.
func (h *Harness) Bear(s store.SessionID, change ...func(*store.Create)) (*Log, store.Create) {
	h.Helper()
	return h.BearAs(s, "", change...)
}

// BearAs is like Bear, with a workflow ID.
func (h *Harness) BearAs(s store.SessionID, wid string, change ...func(*store.Create)) (*Log, store.Create) {
	h.Helper()
	l := h.NewLog(Orders, wid)
	c := l.Create()
	h.OwnedBy(s)(&c)
	for _, f := range change {
		f(&c)
	}
	h.Equal("create", h.Create(c), store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()})
	return l, c
}

// Reconcile returns the runs that a session owns.
func (h *Harness) Reconcile(s store.SessionID) []store.Owned {
	h.Helper()
	owned, err := h.Store.Reconcile(h.Ctx, 0, s)
	h.Check("reconcile", err)
	return owned
}

// Together calls f n times concurrently and returns when all calls have returned.
func Together(n int, f func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			f(i)
		})
	}
	start.Done()
	done.Wait()
}

// Reopen closes the store and opens it again with the same data.
func (h *Harness) Reopen() {
	h.Helper()
	h.Check("close", h.Store.Close())
	h.Store = h.Config.Reopen(h.T, h.Store, h.Clock)
}

// Refunds is a second route. Its queue and workflow differ from those of Orders.
var Refunds = store.Route{Queue: "slow", Workflow: "orders.refund"}
