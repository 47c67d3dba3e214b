package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pages returns all pages of a query. It fails the test if a page exceeds the budget of the query
// or does not report whether another page follows.
func (h *harness) pages(q store.Query) (all []store.Page) {
	h.Helper()
	l, _ := store.As[store.Lister](h.store)
	for range 1000 {
		page, err := l.List(h.ctx, q)
		h.check("list", err)
		if page.Looked > q.Budget {
			h.Fatalf("list: %d runs were looked at with a budget of %d", page.Looked, q.Budget)
		}
		if page.Partial && page.Cursor == "" || !page.Partial && page.Cursor != "" && len(page.Runs) < q.Limit {
			h.Fatalf("list: a page of %d runs with limit %d is partial: %v, and its cursor is %q", len(page.Runs), q.Limit, page.Partial, page.Cursor)
		}
		all = append(all, page)
		if page.Cursor == "" {
			return all
		}
		q.Cursor = page.Cursor
	}
	h.Fatalf("list: no end after 1000 pages")
	return nil
}

// runsOfPages returns the runs of all pages.
func runsOfPages(pages []store.Page) (runs []event.RunID) {
	for _, page := range pages {
		for _, r := range page.Runs {
			runs = append(runs, r.Run)
		}
	}
	return runs
}

// needles starts 40 runs, few of which the query selects. The others have the same route and one of
// the selected tags, so that no single index excludes them.
func (h *harness) needles() (q store.Query, want []event.RunID) {
	h.Helper()
	q = store.Query{Tags: map[string]string{"hay": "x", "needle": "x"}, Queue: orders.Queue, Workflow: orders.Workflow, Roots: true}
	for n := range 40 {
		h.clock.Advance(time.Second)
		l := h.newLog(orders, "")
		l.Spec.Tags = map[string]string{"hay": "x", "n": string(rune('a' + n%20))}
		if n%13 == 0 {
			l.Spec.Tags["needle"] = "x"
			want = append(want, l.Run)
		} else {
			l.Spec.Tags["needle"] = []string{"y", "z"}[n%2]
		}
		h.create(l.Create())
	}
	slices.Reverse(want)
	return q, want
}

var budgetBehaviors = []behavior{
	{"NoListLooksAtMoreThanItsBudget", func(h *harness) {
		q, want := h.needles()
		for q.Limit = 1; q.Limit < 6; q.Limit++ {
			for _, q.Budget = range []int{1, 2, 3, 7, 39, 40, 41} {
				h.equal("runs", runsOfPages(h.pages(q)), want)
			}
		}
	}},
	{"APartialPageGoesOnBehindWhatWasLookedAt", func(h *harness) {
		q, want := h.needles()
		q.Limit, q.Budget = 3, 4
		pages := h.pages(q)
		for i, page := range pages {
			if page.Partial && page.Looked != q.Budget {
				h.Fatalf("page %d ends after %d runs, and the budget is %d", i, page.Looked, q.Budget)
			}
		}
		h.equal("runs", runsOfPages(pages), want)
		looked := 0
		for _, page := range pages {
			looked += page.Looked
		}
		if looked > 40+len(pages) { // the first run of the next page may be examined twice
			h.Fatalf("all pages together have looked at %d runs, and there are 40", looked)
		}
	}},
	{"PartialPagesAreStableWhileRunsAreCreatedAndEnd", func(h *harness) {
		s := h.session()
		q, want := h.needles()
		var got []event.RunID
		l, _ := store.As[store.Lister](h.store)
		q.Limit, q.Budget = 2, 5
		for range 1000 {
			page, err := l.List(h.ctx, q)
			h.check("list", err)
			got = append(got, runsOfPages([]store.Page{page})...)
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
			h.clock.Advance(time.Second)
			newer := h.newLog(orders, "")
			newer.Spec.Tags = q.Tags
			h.create(newer.Create())
			c, err := h.store.ClaimRun(h.ctx, int(newer.Run.Slot())%h.store.Partitions(), s, h.ids.Token(), newer.Run)
			h.check("claim run", err)
			h.finish(newer, c.Fence, event.StatusCompleted)
		}
		h.equal("runs", got, want)
	}},
	{"ListIsOldestFirstIfAsked", func(h *harness) {
		logs := h.listed()
		slices.Reverse(logs)
		h.equal("list", h.list(store.Query{Oldest: true}), runsOfLogs(logs))
		for limit := 1; limit <= len(logs)+1; limit++ {
			h.equal("list", h.list(store.Query{Oldest: true, Limit: limit}), runsOfLogs(logs))
			h.equal("list of a workflow", h.list(store.Query{Oldest: true, Limit: limit, Workflow: refunds.Workflow}), pick(logs, 1, 3, 5, 7))
		}
		at := h.record(logs[3].Run).CreatedAt
		h.equal("list from a time", h.list(store.Query{Oldest: true, Limit: 2, From: at}), runsOfLogs(logs[3:]))
		h.equal("list to a time", h.list(store.Query{Oldest: true, Limit: 2, To: at}), runsOfLogs(logs[:3]))
	}},
	{"OldestFirstPagesTheRunsOfOneMillisecondByTheirIDs", func(h *harness) {
		var all []event.RunID
		for n := range 40 {
			c := h.newLog(orders, "").Create()
			c.Run = h.ids.Run(h.clock.Now().Add(time.Duration(n%7)*time.Hour), uint16(n))
			h.create(c)
			all = append(all, c.Run)
		}
		slices.Sort(all)
		for _, limit := range []int{1, 7, 39, 40, 41} {
			h.equal("list", h.list(store.Query{Oldest: true, Limit: limit}), all)
		}
	}},
	{"ListSelectsRoots", func(h *harness) {
		logs := h.listed() // the newest two have a parent
		h.equal("list", h.list(store.Query{Roots: true}), runsOfLogs(logs[2:]))
		h.equal("list of a workflow", h.list(store.Query{Roots: true, Workflow: refunds.Workflow, Limit: 1}), pick(logs, 2, 4, 6))
		h.equal("list of a status", h.list(store.Query{Roots: true, Statuses: []event.Status{event.StatusPending}, Limit: 2}), pick(logs, 2, 3, 4))
		h.equal("count", h.count(store.Query{Roots: true}), map[event.Status]int{event.StatusCompleted: 2, event.StatusFailed: 1, event.StatusPending: 3})
		h.equal("list of the children of a run", h.list(store.Query{Roots: true, Parent: logs[0].Spec.Parent}), []event.RunID(nil))
	}},
	{"ListSelectsAWorkflowID", func(h *harness) {
		s := h.session()
		var want []event.RunID
		for range 3 {
			h.startAs(refunds, h.workflowID("other"), func(c *store.Create) { c.Active = store.ActiveQueue })
			h.clock.Advance(time.Second)
			l := h.startAs(orders, h.workflowID("order"))
			h.finish(l, h.own(s, l), event.StatusCompleted)
			want = append(want, l.Run)
		}
		h.clock.Advance(time.Second)
		want = append(want, h.startAs(orders, h.workflowID("order")).Run)
		h.start()
		slices.Reverse(want)
		for limit := 1; limit < 6; limit++ {
			h.equal("list", h.list(store.Query{WorkflowID: h.workflowID("order"), Limit: limit}), want)
		}
		h.equal("list of a status", h.list(store.Query{WorkflowID: h.workflowID("order"), Statuses: []event.Status{event.StatusPending}}), want[:1])
		h.equal("list of none", h.list(store.Query{WorkflowID: h.workflowID("nobody")}), []event.RunID(nil))
		h.equal("count", h.count(store.Query{WorkflowID: h.workflowID("order")}), map[event.Status]int{event.StatusCompleted: 3, event.StatusPending: 1})
	}},
	{"CountIsByRouteAndStatus", func(h *harness) {
		h.listed()
		l, _ := store.As[store.Lister](h.store)
		got, err := l.Count(h.ctx, store.Query{})
		h.check("count", err)
		h.equal("runs", got.Runs, map[store.Counted]int{
			{Status: event.StatusCompleted, Route: orders}: 2, {Status: event.StatusPending, Route: orders}: 2,
			{Status: event.StatusFailed, Route: refunds}: 1, {Status: event.StatusPending, Route: refunds}: 3,
		})
		h.equal("exact", got.Exact, true)
		h.equal("by workflow", got.ByWorkflow(), map[string]int{orders.Workflow: 4, refunds.Workflow: 4})
	}},
	{"CountFollowsRunsToTheirPurge", func(h *harness) {
		s := h.session()
		a, ofA := h.startOwned(s)
		b, ofB := h.startOwned(s)
		c, ofC := h.startOwned(s)
		counts := func(what string, want map[event.Status]int) {
			h.Helper()
			h.equal("count "+what, h.count(store.Query{}), want)
			h.equal("count of a route "+what, h.count(store.Query{Queue: orders.Queue, Roots: true}), want)
		}
		h.finish(a, ofA, event.StatusCompleted)
		h.finish(b, ofB, event.StatusFailed)
		next, _ := c.Continue(ofC, nil)
		h.commit(c, next)
		counts("at the ends", map[event.Status]int{event.StatusCompleted: 1, event.StatusFailed: 1, event.StatusContinued: 1, event.StatusPending: 1})
		h.check("delete", h.delete(a.Run))
		counts("once one is deleted", map[event.Status]int{event.StatusFailed: 1, event.StatusContinued: 1, event.StatusPending: 1})
		h.clock.Advance(store.DefaultRetention)
		h.purged(2)
		counts("after a purge", map[event.Status]int{event.StatusContinued: 1, event.StatusPending: 1})
	}},
	{"ACountThatIsNotExactSaysSo", func(h *harness) {
		q, want := h.needles()
		l, _ := store.As[store.Lister](h.store)
		for q.Budget = 1; q.Budget < 50; q.Budget++ {
			got, err := l.Count(h.ctx, q)
			h.check("count", err)
			n := got.Total()
			if got.Looked > q.Budget || got.Exact && n != len(want) || n > len(want) {
				h.Fatalf("count: %d runs are %+v, with a budget of %d; want %d", n, got, q.Budget, len(want))
			}
			if q.Budget > 40 {
				h.equal("exact", got.Exact, true)
			}
		}
		for budget := 1; budget < 50; budget++ {
			got, err := l.Count(h.ctx, store.Query{Budget: budget})
			h.check("count", err)
			if got.Looked > budget || got.Exact && got.Total() != 40 || got.Total() > 40 {
				h.Fatalf("count: all runs are %+v, with a budget of %d; want 40", got, budget)
			}
		}
	}},
}
