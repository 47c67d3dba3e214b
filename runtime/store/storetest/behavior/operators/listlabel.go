package operators

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// labelledLog returns the log of a run with tags. The run does not exist in the store yet.
func (h *harness) labelledLog(route store.Route, workflowID string, tags map[string]string) *suite.Log {
	l := h.NewLog(route, workflowID)
	l.Spec.Tags = tags
	return l
}

// finds fails the test unless the query returns exactly these runs, which are given oldest first.
// It reads pages of every size in both orders, and counts the runs.
func (h *harness) finds(what string, q store.Query, want ...event.RunID) {
	h.Helper()
	newest := slices.Clone(want)
	slices.Reverse(newest)
	for q.Limit = 1; q.Limit <= len(want)+1; q.Limit++ {
		q.Oldest = false
		h.Equal("list of "+what, h.List(q), newest)
		q.Oldest = true
		h.Equal("list of "+what+", oldest first", h.List(q), want)
	}
	sum := 0
	for _, n := range h.Count(q) {
		sum += n
	}
	h.Equal("count of "+what, sum, len(want))
}

// tag returns a query for a tag.
func tag(name, value string) store.Query {
	return store.Query{Tags: map[string]string{name: value}}
}

var labelBehaviors = []behavior{
	{"ListByTagsSelectsAmongOtherFilters", func(h *harness) {
		s := h.Session()
		parent := h.RunID()
		var runs []event.RunID
		var created []time.Time
		for n := range 12 {
			if n%4 == 0 { // some runs have the same creation time
				h.Clock.Advance(time.Second)
			}
			route := []store.Route{suite.Orders, suite.Refunds}[n%2]
			wid := ""
			if n%6 == 5 {
				wid = h.WorkflowID(fmt.Sprintf("order-%d", n))
			}
			l := h.labelledLog(route, wid, map[string]string{"plan": "basic", "region": []string{"eu", "us", "moon"}[n%3]})
			if n >= 8 {
				l.Spec.Parent, l.Spec.Root = parent, parent
			}
			h.Create(l.Create())
			if fence := h.Own(s, l); n%4 == 3 {
				h.Finish(l, fence, event.StatusFailed)
			}
			runs, created = append(runs, l.Run), append(created, h.Clock.Now())
		}
		of := func(at ...int) (picked []event.RunID) {
			for _, i := range at {
				picked = append(picked, runs[i])
			}
			return picked
		}
		basic, us := map[string]string{"plan": "basic"}, map[string]string{"region": "us"}
		h.finds("a tag that all have", store.Query{Tags: basic}, runs...)
		h.finds("a tag", store.Query{Tags: us}, of(1, 4, 7, 10)...)
		h.finds("two tags", store.Query{Tags: map[string]string{"plan": "basic", "region": "us"}}, of(1, 4, 7, 10)...)
		h.finds("two tags that no run has both", store.Query{Tags: map[string]string{"plan": "premium", "region": "us"}})
		h.finds("a tag that none has", tag("region", "sea"))
		h.finds("a tag and a status", store.Query{Tags: us, Statuses: []event.Status{event.StatusFailed}}, of(7)...)
		h.finds("a tag that all have, and a status", store.Query{Tags: basic, Statuses: []event.Status{event.StatusFailed}}, of(3, 7, 11)...)
		h.finds("a tag and a status that none has", store.Query{Tags: us, Statuses: []event.Status{event.StatusPaused}})
		h.finds("a tag and a workflow", store.Query{Tags: us, Workflow: suite.Refunds.Workflow}, of(1, 7)...)
		h.finds("a tag and a workflow that there is not", store.Query{Tags: us, Workflow: "none"})
		h.finds("a tag and a queue", store.Query{Tags: us, Queue: suite.Orders.Queue}, of(4, 10)...)
		h.finds("a tag of roots", store.Query{Tags: us, Roots: true}, of(1, 4, 7)...)
		h.finds("a tag of children", store.Query{Tags: us, Parent: parent}, of(10)...)
		h.finds("a tag in a tree", store.Query{Tags: basic, Root: parent}, of(8, 9, 10, 11)...)
		h.finds("a tag from a time", store.Query{Tags: us, From: created[4]}, of(4, 7, 10)...)
		h.finds("a tag to a time", store.Query{Tags: basic, To: created[4]}, of(0, 1, 2, 3)...)
		h.finds("a tag between times", store.Query{Tags: us, From: created[4], To: created[8]}, of(4, 7)...)
		h.finds("a tag and a workflow id", store.Query{Tags: basic, WorkflowID: h.WorkflowID("order-5")}, of(5)...)
		h.finds("another tag and a workflow id", store.Query{Tags: us, WorkflowID: h.WorkflowID("order-5")})
	}},
	{"ListByTagsTellsTextsApart", func(h *harness) {
		long := strings.Repeat("long ", 40)
		all := []map[string]string{
			{"a": "b"}, {"a": "b:c"}, {"a:b": "c"}, {"a": ""}, {"": "a"}, {"": ""}, {"1:a": "1:b"}, {"a1:b": ""},
			{"A": "B"}, {"a=b": "c"}, {"a": "b=c"}, {"é": "é"}, {"é": "e\u0301"}, {"wa": ""},
			{long: "a"}, {"a": long}, {long: long, "b": "c"}, {"+": "+"},
		}
		var runs []event.RunID
		for _, tags := range all {
			h.Clock.Advance(time.Millisecond)
			l := h.labelledLog(suite.Orders, "", tags)
			h.Equal("answer", h.Create(l.Create()), store.Created{Run: l.Run, New: true})
			runs = append(runs, l.Run)
		}
		for i, tags := range all {
			h.finds(fmt.Sprintf("tags %q", tags), store.Query{Tags: tags}, runs[i])
		}
		named := h.StartAs(suite.Orders, h.WorkflowID("a"))
		far := h.StartAs(suite.Orders, h.WorkflowID(long))
		h.finds("a short workflow id", store.Query{WorkflowID: h.WorkflowID("a")}, named.Run)
		h.finds("a long workflow id", store.Query{WorkflowID: h.WorkflowID(long)}, far.Run)
	}},
	{"ListByTagsFollowsRunsToTheirPurge", func(h *harness) {
		s := h.Session()
		var logs []*suite.Log
		wid := h.WorkflowID("order")
		for range 3 {
			h.Clock.Advance(time.Second)
			l := h.labelledLog(suite.Orders, wid, map[string]string{"customer": "7", "note": strings.Repeat("x", 100)})
			h.Create(l.Create())
			h.Finish(l, h.Own(s, l), event.StatusCompleted)
			logs = append(logs, l)
		}
		finds := func(what string, want ...event.RunID) {
			h.Helper()
			h.finds("a tag "+what, tag("customer", "7"), want...)
			h.finds("a long tag "+what, tag("note", strings.Repeat("x", 100)), want...)
			h.finds("a workflow id "+what, store.Query{WorkflowID: wid}, want...)
			h.sound()
		}
		finds("of runs that have ended", logs[0].Run, logs[1].Run, logs[2].Run)
		h.Check("delete", h.Delete(logs[1].Run))
		finds("of runs of which one was deleted", logs[0].Run, logs[2].Run)
		h.Clock.Advance(store.DefaultRetention - time.Second)
		h.Purged(2) // one of the purged runs is the deleted run
		finds("of runs of which one was purged", logs[2].Run)
		h.Clock.Advance(time.Second)
		h.Purged(1)
		finds("of runs that were purged")
	}},
	{"ListByTagsHasRunsHoweverTheyCameToBe", func(h *harness) {
		s := h.Session()
		tags := map[string]string{"customer": "7"}
		plain := h.labelledLog(suite.Orders, h.WorkflowID("order"), tags)
		h.Create(plain.Create())
		fence := h.Own(s, plain)
		want := []event.RunID{plain.Run}
		add := func(run event.RunID) {
			h.Helper()
			want = append(want, run)
			h.finds("a tag", tag("customer", "7"), want...)
			h.Clock.Advance(time.Second)
		}
		h.Clock.Advance(time.Second)
		c, next := plain.Continue(fence, nil)
		h.Commit(plain, c)
		add(next.Run)
		h.finds("the workflow id of a chain", store.Query{WorkflowID: h.WorkflowID("order")}, plain.Run, next.Run)

		child := h.labelledLog(suite.Orders, "", tags)
		child.Spec.Parent, child.Spec.Root = plain.Run, plain.Run
		of := child.Create()
		of.CreatedBy = h.IDs.Item()
		h.Equal("created by a record", h.Create(of).New, true)
		add(child.Run)
		owned := h.labelledLog(suite.Orders, "", tags)
		born := owned.Create()
		h.OwnedBy(s)(&born)
		h.Equal("created with an owner", h.Create(born).New, true)
		add(owned.Run)
		delayed := h.labelledLog(suite.Orders, "", tags)
		later := delayed.Create()
		later.Delay = time.Hour
		h.Equal("created for later", h.Create(later).New, true)
		add(delayed.Run)
		queued := h.labelledLog(suite.Orders, h.WorkflowID("order"), tags)
		line := queued.Create()
		line.Active = store.ActiveQueue
		h.Equal("created to wait in line", h.Create(line).New, true)
		add(queued.Run)
		h.finds("a workflow id with a line", store.Query{WorkflowID: h.WorkflowID("order")}, plain.Run, next.Run, queued.Run)
		for _, g := range []store.Collect{suite.Debounce, suite.Batch} {
			l, start := h.GatheringWith(g, fmt.Sprintf("key-%d", g.Full), tags)
			h.Equal("created to gather", h.Create(start).New, true)
			add(l.Run)
		}
	}},
}

var labelImportBehaviors = []behavior{
	{"ListByTagsHasImportedRuns", func(h *harness) {
		src := h.elsewhere()
		wid := h.WorkflowID("order")
		l := src.Ended(func(l *suite.Log) { l.Spec.WorkflowID, l.Spec.Tags = wid, map[string]string{"customer": "7"} })
		h.imports(src.exported(l.Run), true)
		h.finds("a tag", tag("customer", "7"), l.Run)
		h.finds("a workflow id", store.Query{WorkflowID: wid}, l.Run)
	}},
}
