package operators

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// pages returns all pages of a query. It fails the test if a page exceeds the budget of the query,
// or reports incorrectly whether another page follows.
func (h *harness) pages(q store.Query) (all []store.Page) {
	h.Helper()
	l, _ := store.As[store.Lister](h.Store)
	for range 1000 {
		page, err := l.List(h.Ctx, q)
		h.Check("list", err)
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

// needles starts 40 runs and returns a query that selects few of them. The other runs have the same
// route and one of the selected tags, so no single index excludes them.
func (h *harness) needles() (q store.Query, want []event.RunID) {
	h.Helper()
	q = store.Query{Tags: map[string]string{"hay": "x", "needle": "x"}, Queue: suite.Orders.Queue, Workflow: suite.Orders.Workflow, Roots: true}
	for n := range 40 {
		h.Clock.Advance(time.Second)
		l := h.NewLog(suite.Orders, "")
		l.Spec.Tags = map[string]string{"hay": "x", "n": string(rune('a' + n%20))}
		if n%13 == 0 {
			l.Spec.Tags["needle"] = "x"
			want = append(want, l.Run)
		} else {
			l.Spec.Tags["needle"] = []string{"y", "z"}[n%2]
		}
		h.Create(l.Create())
	}
	slices.Reverse(want)
	return q, want
}

var budgetBehaviors = []behavior{
	{"NoListLooksAtMoreThanItsBudget", func(h *harness) {
		q, want := h.needles()
		for q.Limit = 1; q.Limit < 6; q.Limit++ {
			for _, q.Budget = range []int{1, 2, 3, 7, 39, 40, 41} {
				h.Equal("runs", runsOfPages(h.pages(q)), want)
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
		h.Equal("runs", runsOfPages(pages), want)
		looked := 0
		for _, page := range pages {
			looked += page.Looked
		}
		if looked > 40+len(pages) { // the first run of a page may also be examined for the page before it
			h.Fatalf("all pages together have looked at %d runs, and there are 40", looked)
		}
	}},
	{"PartialPagesAreStableWhileRunsAreCreatedAndEnd", func(h *harness) {
		s := h.Session()
		q, want := h.needles()
		var got []event.RunID
		l, _ := store.As[store.Lister](h.Store)
		q.Limit, q.Budget = 2, 5
		for range 1000 {
			page, err := l.List(h.Ctx, q)
			h.Check("list", err)
			got = append(got, runsOfPages([]store.Page{page})...)
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
			h.Clock.Advance(time.Second)
			newer := h.NewLog(suite.Orders, "")
			newer.Spec.Tags = q.Tags
			h.Create(newer.Create())
			c, err := h.Store.ClaimRun(h.Ctx, int(newer.Run.Slot())%h.Store.Partitions(), s, h.IDs.Token(), newer.Run)
			h.Check("claim run", err)
			h.Finish(newer, c.Fence, event.StatusCompleted)
		}
		h.Equal("runs", got, want)
	}},
	{"ListIsOldestFirstIfAsked", func(h *harness) {
		logs := h.Listed()
		slices.Reverse(logs)
		h.Equal("list", h.List(store.Query{Oldest: true}), suite.RunsOfLogs(logs))
		for limit := 1; limit <= len(logs)+1; limit++ {
			h.Equal("list", h.List(store.Query{Oldest: true, Limit: limit}), suite.RunsOfLogs(logs))
			h.Equal("list of a workflow", h.List(store.Query{Oldest: true, Limit: limit, Workflow: suite.Refunds.Workflow}), pick(logs, 1, 3, 5, 7))
		}
		at := h.Record(logs[3].Run).CreatedAt
		h.Equal("list from a time", h.List(store.Query{Oldest: true, Limit: 2, From: at}), suite.RunsOfLogs(logs[3:]))
		h.Equal("list to a time", h.List(store.Query{Oldest: true, Limit: 2, To: at}), suite.RunsOfLogs(logs[:3]))
	}},
	{"OldestFirstPagesTheRunsOfOneMillisecondByTheirIDs", func(h *harness) {
		var all []event.RunID
		for n := range 40 {
			c := h.NewLog(suite.Orders, "").Create()
			c.Run = h.IDs.Run(h.Clock.Now().Add(time.Duration(n%7)*time.Hour), uint16(n))
			h.Create(c)
			all = append(all, c.Run)
		}
		slices.Sort(all)
		for _, limit := range []int{1, 7, 39, 40, 41} {
			h.Equal("list", h.List(store.Query{Oldest: true, Limit: limit}), all)
		}
	}},
	{"ListSelectsRoots", func(h *harness) {
		logs := h.Listed() // the newest two have a parent
		h.Equal("list", h.List(store.Query{Roots: true}), suite.RunsOfLogs(logs[2:]))
		h.Equal("list of a workflow", h.List(store.Query{Roots: true, Workflow: suite.Refunds.Workflow, Limit: 1}), pick(logs, 2, 4, 6))
		h.Equal("list of a status", h.List(store.Query{Roots: true, Statuses: []event.Status{event.StatusPending}, Limit: 2}), pick(logs, 2, 3, 4))
		h.Equal("count", h.Count(store.Query{Roots: true}), map[event.Status]int{event.StatusCompleted: 2, event.StatusFailed: 1, event.StatusPending: 3})
		h.Equal("list of the children of a run", h.List(store.Query{Roots: true, Parent: logs[0].Spec.Parent}), []event.RunID(nil))
	}},
	{"ListSelectsAWorkflowID", func(h *harness) {
		s := h.Session()
		var want []event.RunID
		for range 3 {
			h.StartAs(suite.Refunds, h.WorkflowID("other"), func(c *store.Create) { c.Active = store.ActiveQueue })
			h.Clock.Advance(time.Second)
			l := h.StartAs(suite.Orders, h.WorkflowID("order"))
			h.Finish(l, h.Own(s, l), event.StatusCompleted)
			want = append(want, l.Run)
		}
		h.Clock.Advance(time.Second)
		want = append(want, h.StartAs(suite.Orders, h.WorkflowID("order")).Run)
		h.Start()
		slices.Reverse(want)
		for limit := 1; limit < 6; limit++ {
			h.Equal("list", h.List(store.Query{WorkflowID: h.WorkflowID("order"), Limit: limit}), want)
		}
		h.Equal("list of a status", h.List(store.Query{WorkflowID: h.WorkflowID("order"), Statuses: []event.Status{event.StatusPending}}), want[:1])
		h.Equal("list of none", h.List(store.Query{WorkflowID: h.WorkflowID("nobody")}), []event.RunID(nil))
		h.Equal("count", h.Count(store.Query{WorkflowID: h.WorkflowID("order")}), map[event.Status]int{event.StatusCompleted: 3, event.StatusPending: 1})
	}},
	{"CountIsByRouteAndStatus", func(h *harness) {
		h.Listed()
		l, _ := store.As[store.Lister](h.Store)
		got, err := l.Count(h.Ctx, store.Query{})
		h.Check("count", err)
		h.Equal("runs", got.Runs, map[store.Counted]int{
			{Status: event.StatusCompleted, Route: suite.Orders}: 2, {Status: event.StatusPending, Route: suite.Orders}: 2,
			{Status: event.StatusFailed, Route: suite.Refunds}: 1, {Status: event.StatusPending, Route: suite.Refunds}: 3,
		})
		h.Equal("exact", got.Exact, true)
		h.Equal("by workflow", got.ByWorkflow(), map[string]int{suite.Orders.Workflow: 4, suite.Refunds.Workflow: 4})
	}},
	{"CountFollowsRunsToTheirPurge", func(h *harness) {
		s := h.Session()
		a, ofA := h.StartOwned(s)
		b, ofB := h.StartOwned(s)
		c, ofC := h.StartOwned(s)
		counts := func(what string, want map[event.Status]int) {
			h.Helper()
			h.Equal("count "+what, h.Count(store.Query{}), want)
			h.Equal("count of a route "+what, h.Count(store.Query{Queue: suite.Orders.Queue, Roots: true}), want)
		}
		h.Finish(a, ofA, event.StatusCompleted)
		h.Finish(b, ofB, event.StatusFailed)
		next, _ := c.Continue(ofC, nil)
		h.Commit(c, next)
		counts("at the ends", map[event.Status]int{event.StatusCompleted: 1, event.StatusFailed: 1, event.StatusContinued: 1, event.StatusPending: 1})
		h.Check("delete", h.Delete(a.Run))
		counts("once one is deleted", map[event.Status]int{event.StatusFailed: 1, event.StatusContinued: 1, event.StatusPending: 1})
		h.Clock.Advance(store.DefaultRetention)
		h.Purged(2)
		counts("after a purge", map[event.Status]int{event.StatusContinued: 1, event.StatusPending: 1})
	}},
	{"ACountThatIsNotExactSaysSo", func(h *harness) {
		q, want := h.needles()
		l, _ := store.As[store.Lister](h.Store)
		for q.Budget = 1; q.Budget < 50; q.Budget++ {
			got, err := l.Count(h.Ctx, q)
			h.Check("count", err)
			n := got.Total()
			if got.Looked > q.Budget || got.Exact && n != len(want) || n > len(want) {
				h.Fatalf("count: %d runs are %+v, with a budget of %d; want %d", n, got, q.Budget, len(want))
			}
			if q.Budget > 40 {
				h.Equal("exact", got.Exact, true)
			}
		}
		for budget := 1; budget < 50; budget++ {
			got, err := l.Count(h.Ctx, store.Query{Budget: budget})
			h.Check("count", err)
			if got.Looked > budget || got.Exact && got.Total() != 40 || got.Total() > 40 {
				h.Fatalf("count: all runs are %+v, with a budget of %d; want 40", got, budget)
			}
		}
	}},
}
