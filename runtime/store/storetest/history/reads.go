package history

import (
	"cmp"
	"slices"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Reads in random histories, and the comparison of states.

// compare fails the test unless the whole state of the store equals the state of the model and
// satisfies fsck.
func (h *history) compare() {
	h.Helper()
	if !h.Shows() {
		h.compareAnswers()
		return
	}
	got := h.Inspect()
	for _, order := range got.Ready {
		h.adoptOrder(order)
	}
	for _, route := range h.emptied {
		if len(h.m.readyRuns(route)) == 0 && !got.Wakes[route] {
			delete(h.m.wakes, route)
		}
	}
	h.emptied = nil
	h.m.action++
	h.judgeLimits(got)
	want := h.m.snapshot()
	want.Waiting = h.limits.before
	for run := range got.Purges {
		if r := h.m.runs[run]; r != nil && h.m.heldBack(r) {
			delete(got.Purges, run) // a store may list such a run among Purges or omit it
		}
	}
	want.Labels = got.Labels // a store may keep labels or not; fsck checks them
	bySender(got.Outbox)
	bySender(want.Outbox)
	got.Audit, want.Audit = suite.SortedAudit(got.Audit), suite.SortedAudit(want.Audit)
	h.Equal("state", got, want)
	for _, f := range h.Findings(got) {
		h.Fatalf("fsck: %v", f)
	}
}

// bySender sorts records by sender. It keeps the order of the records of each sender.
func bySender(records []store.Outgoing) {
	slices.SortStableFunc(records, func(a, b store.Outgoing) int { return cmp.Compare(a.From, b.From) })
}

// adoptOrder copies the order of runs that became ready in one action from the store to the model.
// It fails the test if the order of other runs is wrong.
func (h *history) adoptOrder(order []event.RunID) {
	h.Helper()
	var before []*modelRun
	for _, id := range order {
		r := h.m.runs[id]
		if r == nil {
			h.Fatalf("ready: got run %s, which does not exist", id)
		}
		h.notAfter(before, r)
		before = append(before, r)
	}
	for i, r := range before {
		r.rank = i + 1
	}
}

// notAfter fails the test if one of the runs in before must come after r.
func (h *history) notAfter(before []*modelRun, r *modelRun) {
	h.Helper()
	for _, o := range before {
		if compareReady(o, r) > 0 {
			h.Fatalf("runs of %v: got run %s before run %s", r.Route, o.Run, r.Run)
		}
	}
}

func (h *history) drawRead(t *rapid.T) {
	l := h.log(t, func(*modelRun) bool { return true })
	q := store.Load{
		Run: l.Run, Inbox: rapid.Bool().Draw(t, "inbox"),
		After: rapid.Uint64Range(0, 4).Draw(t, "after"), Limit: rapid.IntRange(-1, 3).Draw(t, "limit"),
	}
	answers, err := h.Store.Load(h.Ctx, []store.Load{q})
	h.Check("load", err)
	r := h.m.find(l.Run)
	if r == nil {
		h.Is("load", answers[0].Err, store.ErrRunNotFound)
		return
	}
	want := store.Loaded{Record: r.Record}
	if q.Inbox {
		want.Inbox = r.Inbox
	}
	for i, f := range r.Frames {
		if uint64(i) >= q.After && q.Limit >= 0 && (q.Limit == 0 || len(want.Frames) < q.Limit) {
			want.Frames = append(want.Frames, f)
		}
	}
	h.Equal("load", answers[0], want)
}

// drawFind compares the answers of read operations: Resolve, List, Fleet, failure groups, and the
// audit of a run.
func (h *history) drawFind(t *rapid.T) {
	h.compareResolve(h.WorkflowID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "workflow id")))
	if suite.Has[store.Lister](h.Store) {
		h.compareList(h.drawQuery(t))
	}
	h.compareFleet()
	if l, ok := store.As[store.FailureGroupLister](h.Store); ok {
		page, err := l.FailureGroups(h.Ctx, store.FailureGroupQuery{})
		h.Check("troubles", err)
		h.Equal("troubles", page.Groups, h.m.listedFailureGroups())
	}
	if suite.Has[store.Auditor](h.Store) {
		run := h.log(t, func(r *modelRun) bool { return r.Recoveries > 0 }).Run
		var want []store.AuditEntry
		for _, e := range h.m.audit {
			if e.Run == run && h.m.find(run) != nil {
				want = append(want, e)
			}
		}
		h.Equal("audit", h.Audit(run), want)
	}
}

func (h *history) drawQuery(t *rapid.T) store.Query {
	q := store.Query{Limit: rapid.IntRange(1, 4).Draw(t, "page")}
	if chance(t, "by status", 30) {
		q.Statuses = []event.Status{event.StatusPending, rapid.SampledFrom([]event.Status{event.StatusRunning, event.StatusFailed}).Draw(t, "status")}
	}
	if chance(t, "by workflow", 30) {
		q.Workflow = suite.Orders.Workflow
	}
	if chance(t, "by queue", 30) {
		q.Queue = suite.Refunds.Queue
	}
	q.Started = q.Limit%2 == 0 // without effect, because histories have no internal runs
	if chance(t, "by workflow id", 20) {
		q.WorkflowID = h.WorkflowID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "workflow id"))
	}
	q.Roots, q.Oldest = chance(t, "roots", 30), chance(t, "oldest first", 30)
	if chance(t, "by tag", 30) {
		q.Tags = map[string]string{"tag": "x"}
	}
	if chance(t, "by parent", 30) {
		q.Parent, q.Root = h.ghost.Run, h.ghost.Run
	}
	if suite.Has[store.FailureGroupLister](h.Store) && chance(t, "by group", 20) {
		q.Failing = chance(t, "any group", 50)
		if !q.Failing || chance(t, "and one", 30) {
			q.Group = rapid.SampledFrom([]string{"f1-a", "f1-b"}).Draw(t, "group")
		}
	}
	if all := h.m.sorted(); len(all) > 0 && chance(t, "by time", 30) {
		q.From = all[rapid.IntRange(0, len(all)-1).Draw(t, "from")].CreatedAt
		q.To = all[rapid.IntRange(0, len(all)-1).Draw(t, "to")].CreatedAt
	}
	return q
}

// compareList compares the runs that a query finds, and their order.
func (h *history) compareList(q store.Query) {
	h.Helper()
	var found []*store.Record
	counts := map[event.Status]int{}
	for _, r := range h.m.sorted() {
		if selects(q, r) {
			found = append(found, &r.Record)
			counts[r.Status]++
		}
	}
	slices.SortFunc(found, store.NewestFirst)
	if q.Oldest {
		slices.Reverse(found)
	}
	var want []event.RunID
	for _, r := range found {
		want = append(want, r.Run)
	}
	h.Equal("list", h.List(q), want)
	h.Equal("count", h.Count(q), counts)
	q.Budget = 1 + len(found)%3
	h.Equal("list, little by little", h.List(q), want)
}

// selects reports whether a query selects a run. It does not use Query.Matches, because stores use
// it.
func selects(q store.Query, r *modelRun) bool {
	for key, value := range q.Tags {
		if r.Tags[key] != value {
			return false
		}
	}
	return !r.Hidden && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status)) &&
		(q.Workflow == "" || r.Route.Workflow == q.Workflow) &&
		(q.Queue == "" || r.Route.Queue == q.Queue) &&
		(q.WorkflowID == "" || r.WorkflowID == q.WorkflowID) &&
		(!q.Roots || r.Parent == "") &&
		(q.Group == "" || r.Group == q.Group) &&
		(!q.Failing || r.Group != "") &&
		(!q.Started || !event.Internal(r.Route.Workflow)) &&
		(q.Parent == "" || r.Parent == q.Parent) &&
		(q.Root == "" || r.Root == q.Root) &&
		(q.From.IsZero() || !r.CreatedAt.Before(q.From)) &&
		(q.To.IsZero() || r.CreatedAt.Before(q.To))
}
