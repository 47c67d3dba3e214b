package operators

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// childOf starts a run whose ID is the one that a parent run derives for its child.
func (h *harness) childOf(parent *suite.Log) *suite.Log {
	h.Helper()
	l := h.NewLog(suite.Orders, "")
	l.Run = event.DerivedRunID(parent.Run, "child", 0)
	l.Spec.Parent, l.Spec.Root = parent.Run, parent.Run
	h.Equal("created", h.Create(l.Create()).New, true)
	return l
}

func pick(logs []*suite.Log, at ...int) []event.RunID {
	var runs []event.RunID
	for _, i := range at {
		runs = append(runs, logs[i].Run)
	}
	return runs
}

var listBehaviors = []behavior{
	{"ListIsNewestFirst", func(h *harness) {
		logs := h.Listed()
		h.Equal("runs", h.List(store.Query{}), suite.RunsOfLogs(logs))
	}},
	{"ListPagesWithoutACap", func(h *harness) {
		logs := h.Listed()
		for limit := 1; limit <= len(logs)+1; limit++ {
			h.Equal("runs", h.List(store.Query{Limit: limit}), suite.RunsOfLogs(logs))
		}
	}},
	{"ListPagesAreStableWhileRunsAreCreated", func(h *harness) {
		logs := h.Listed()
		l, _ := store.As[store.Lister](h.Store)
		page, err := l.List(h.Ctx, store.Query{Limit: 3})
		h.Check("list", err)
		h.Clock.Advance(time.Second)
		h.Start()
		h.Equal("rest", h.List(store.Query{Limit: 3, Cursor: page.Cursor}), suite.RunsOfLogs(logs[3:]))
	}},
	{"ListHasAChildWhereItWasCreated", func(h *harness) {
		old := h.Start()
		h.Clock.Advance(48 * time.Hour)
		before := h.Start()
		h.Clock.Advance(time.Second)
		child := h.childOf(old)
		h.Clock.Advance(time.Second)
		late := h.NewLog(suite.Orders, "")
		late.Run = h.IDs.Run(h.Clock.Now().Add(-time.Hour), 0) // as if the clock of the starter were slow, or the request were delayed
		h.Create(late.Create())
		h.Clock.Advance(time.Second)
		after := h.Start()
		all := []*suite.Log{after, late, child, before, old}
		for limit := 1; limit <= len(all); limit++ {
			h.Equal("list", h.List(store.Query{Limit: limit}), suite.RunsOfLogs(all))
		}
		at := h.Record(child.Run).CreatedAt
		h.Equal("list from a second before", h.List(store.Query{From: at.Add(-time.Second)}), pick(all, 0, 1, 2, 3))
		h.Equal("list from its creation", h.List(store.Query{From: at}), pick(all, 0, 1, 2))
		h.Equal("list of its second", h.List(store.Query{From: at, To: at.Add(time.Second)}), pick(all, 2))
		h.Equal("list to its creation", h.List(store.Query{To: at}), pick(all, 3, 4))
		h.Equal("list by parent", h.List(store.Query{Parent: old.Run, From: at}), pick(all, 2))
		h.Equal("count", h.Count(store.Query{From: at}), map[event.Status]int{event.StatusPending: 3})
	}},
	{"ListTakesItsTimesExactly", func(h *harness) {
		l := h.Start()
		at := h.Record(l.Run).CreatedAt
		for _, c := range []struct {
			what     string
			from, to time.Time
			found    bool
		}{
			{"from then", at, time.Time{}, true},
			{"from less than a millisecond later", at.Add(1), time.Time{}, false},
			{"from less than a millisecond before", at.Add(-1), time.Time{}, true},
			{"to then", time.Time{}, at, false},
			{"to less than a millisecond later", time.Time{}, at.Add(1), true},
			{"to less than a millisecond before", time.Time{}, at.Add(-1), false},
		} {
			want, q := []event.RunID(nil), store.Query{From: c.from, To: c.to}
			if c.found {
				want = pick([]*suite.Log{l}, 0)
			}
			h.Equal("list "+c.what, h.List(q), want)
			h.Equal("count "+c.what, h.Count(q)[event.StatusPending], len(want))
		}
	}},
	{"ListPagesTheRunsOfOneMillisecondByTheirIDs", func(h *harness) {
		top := h.Start()
		var batch []store.Create
		for n := range 120 {
			c := h.NewLog(suite.Orders, "").Create()
			c.Run = h.IDs.Run(h.Clock.Now().Add(time.Duration(n%7)*time.Hour), uint16(n)) // distributes the runs over all partitions
			batch = append(batch, c)
		}
		answers, err := h.Store.Create(h.Ctx, batch)
		h.Check("create", err)
		all := []event.RunID{top.Run, h.childOf(top).Run}
		for _, a := range answers {
			all = append(all, a.Run)
		}
		slices.Sort(all)
		slices.Reverse(all)
		for _, limit := range []int{2, 7, 60, 61, 100, 121, 122, 123} {
			h.Equal("list", h.List(store.Query{Limit: limit}), all)
		}
	}},
	{"ListPagesAreStableWhileRunsEndAndArePurged", func(h *harness) {
		s := h.Session()
		var logs []*suite.Log
		var fences []store.Fence
		for n := range 9 {
			if n%3 == 0 {
				h.Clock.Advance(time.Second)
			}
			l := h.Start(func(c *store.Create) {
				if n == 4 || n == 5 {
					c.Retention = suite.Long
				}
			})
			logs, fences = append(logs, l), append(fences, h.Own(s, l))
		}
		lister, _ := store.As[store.Lister](h.Store)
		page, err := lister.List(h.Ctx, store.Query{Limit: 4})
		h.Check("list", err)
		for _, n := range []int{8, 5, 4, 1} { // run 5 is the last run of the page
			h.Finish(logs[n], fences[n], event.StatusCompleted)
		}
		h.Clock.Advance(suite.Long)
		h.Purged(2)
		h.Start()
		h.childOf(logs[0])
		h.Equal("rest", h.List(store.Query{Limit: 2, Cursor: page.Cursor}), pick(logs, 3, 2, 1, 0))
		h.Equal("rest by status", h.List(store.Query{Limit: 2, Cursor: page.Cursor, Statuses: []event.Status{event.StatusCompleted}}), pick(logs, 1))
	}},
	{"ListRefusesACursorThatIsNone", func(h *harness) {
		l, _ := store.As[store.Lister](h.Store)
		run := string(h.Start().Run)
		for _, bad := range []string{"page two", run, "1", "1.", "." + run, "x." + run, "1." + run + "x", "1.x." + run} {
			if page, err := l.List(h.Ctx, store.Query{Cursor: bad}); err == nil {
				h.Fatalf("list from cursor %q: got %d runs, want an error", bad, len(page.Runs))
			}
		}
	}},
	{"ListOfManyRunsHasPagesOfAHundred", func(h *harness) {
		var batch []store.Create
		for range 150 {
			batch = append(batch, h.NewLog(suite.Orders, "").Create())
		}
		_, err := h.Store.Create(h.Ctx, batch)
		h.Check("create", err)
		l, _ := store.As[store.Lister](h.Store)
		page, err := l.List(h.Ctx, store.Query{})
		h.Check("list", err)
		h.Equal("runs on the first page", len(page.Runs), 100)
		h.Equal("runs on all pages", len(h.List(store.Query{})), 150)
	}},
	{"ListReturnsRecordsAsLoadDoes", func(h *harness) {
		h.Listed()
		l, _ := store.As[store.Lister](h.Store)
		page, err := l.List(h.Ctx, store.Query{})
		h.Check("list", err)
		for _, r := range page.Runs {
			h.Equal("record", r, h.Record(r.Run))
		}
	}},
	{"ListFiltersByEveryField", func(h *harness) {
		logs := h.Listed() // newest first, so logs[7] is the oldest
		created := func(i int) time.Time { return h.Record(logs[i].Run).CreatedAt }
		for _, c := range []struct {
			what string
			q    store.Query
			want []event.RunID
		}{
			{"one status", store.Query{Statuses: []event.Status{event.StatusFailed}}, pick(logs, 6)},
			{"two statuses", store.Query{Statuses: []event.Status{event.StatusFailed, event.StatusCompleted}}, pick(logs, 5, 6, 7)},
			{"a status that none has", store.Query{Statuses: []event.Status{event.StatusPaused}}, nil},
			{"workflow", store.Query{Workflow: suite.Refunds.Workflow}, pick(logs, 0, 2, 4, 6)},
			{"queue", store.Query{Queue: suite.Orders.Queue}, pick(logs, 1, 3, 5, 7)},
			{"queue of another workflow", store.Query{Queue: suite.Orders.Queue, Workflow: suite.Refunds.Workflow}, nil},
			{"tag", store.Query{Tags: map[string]string{"even": "no"}}, pick(logs, 0, 2, 4, 6)},
			{"two tags", store.Query{Tags: map[string]string{"even": "no", "n": "3"}}, pick(logs, 4)},
			{"two tags that exclude each other", store.Query{Tags: map[string]string{"even": "yes", "n": "3"}}, nil},
			{"unknown tag", store.Query{Tags: map[string]string{"odd": ""}}, nil},
			{"parent", store.Query{Parent: logs[0].Spec.Parent}, pick(logs, 0, 1)},
			{"root", store.Query{Root: logs[0].Spec.Root}, pick(logs, 0, 1)},
			{"from", store.Query{From: created(2)}, pick(logs, 0, 1, 2)},
			{"to", store.Query{To: created(5)}, pick(logs, 6, 7)},
			{"from to", store.Query{From: created(4), To: created(2)}, pick(logs, 3, 4)},
			{"everything at once", store.Query{
				Statuses: []event.Status{event.StatusPending}, Workflow: suite.Refunds.Workflow, Queue: suite.Refunds.Queue,
				Tags: map[string]string{"even": "no"}, From: created(4), To: created(0),
			}, pick(logs, 2, 4)},
		} {
			h.Equal("list by "+c.what, h.List(c.q), c.want)
			c.q.Limit = 1
			h.Equal("list by "+c.what+", one by one", h.List(c.q), c.want)
			sum := 0
			for _, n := range h.Count(c.q) {
				sum += n
			}
			h.Equal("count by "+c.what, sum, len(c.want))
		}
	}},
	{"ListLeavesOutWhatNoUserHasStarted", func(h *harness) {
		top := h.Start()
		under := func(workflow string) event.RunID {
			h.Clock.Advance(time.Second)
			l := h.NewLog(store.Route{Queue: suite.Orders.Queue, Workflow: workflow}, "")
			l.Spec.Parent, l.Spec.Root = top.Run, top.Run
			h.Equal("created", h.Create(l.Create()).New, true)
			return l.Run
		}
		hook, step := under(event.HookRun), under(event.StepRun("orders.charge"))
		like := []event.RunID{under(event.HookRun + "s"), under("flowgen.step"), under("Flowgen.Step/x"), under("flowgen.stepx"), under("a" + event.StepRun("x"))}
		all := append([]event.RunID{top.Run, hook, step}, like...)
		started := append([]event.RunID{top.Run}, like...)
		slices.Reverse(all)
		slices.Reverse(started)
		pending := func(n int) map[event.Status]int { return map[event.Status]int{event.StatusPending: n} }
		h.Equal("list", h.List(store.Query{}), all)
		h.Equal("count", h.Count(store.Query{}), pending(8))
		for what, q := range map[string]store.Query{
			"": {}, " of a status": {Statuses: []event.Status{event.StatusPending}}, " from a time": {From: h.Record(top.Run).CreatedAt},
			" of a queue": {Queue: suite.Orders.Queue}, " of a tree": {Root: top.Run},
		} {
			q.Started = true
			h.Equal("count"+what, h.Count(q), pending(6))
			for q.Limit = 1; q.Limit <= 7; q.Limit++ {
				h.Equal("list"+what, h.List(q), started)
			}
		}
		h.Equal("list of a parent", h.List(store.Query{Parent: top.Run, Started: true}), started[:5])
		h.Equal("list of a workflow", h.List(store.Query{Workflow: event.HookRun}), []event.RunID{hook})
	}},
	{"ListByRootHasTheRootAndAllBelowIt", func(h *harness) {
		top, other := h.Start(), h.Start()
		under := func(parent, root event.RunID) *suite.Log {
			l := h.NewLog(suite.Orders, "")
			l.Spec.Parent, l.Spec.Root = parent, root
			h.Equal("created", h.Create(l.Create()).New, true)
			return l
		}
		child := under(top.Run, top.Run)
		grandchild := under(child.Run, top.Run)
		under(other.Run, other.Run)
		h.Equal("list by root", h.List(store.Query{Root: top.Run}), []event.RunID{grandchild.Run, child.Run, top.Run})
		h.Equal("count by root", h.Count(store.Query{Root: top.Run}), map[event.Status]int{event.StatusPending: 3})
		h.Equal("list by root and parent", h.List(store.Query{Root: top.Run, Parent: top.Run}), []event.RunID{child.Run})
		h.Equal("list by what is no root", h.List(store.Query{Root: child.Run}), []event.RunID(nil))
	}},
	{"ListFindsARunThatIsCreatedOwned", func(h *harness) {
		s := h.Session()
		waits := h.Start()
		l, _ := h.Bear(s, func(c *store.Create) { c.Status = event.StatusRunning })
		h.Equal("list", h.List(store.Query{}), []event.RunID{l.Run, waits.Run})
		h.Equal("list by status", h.List(store.Query{Statuses: []event.Status{event.StatusRunning}}), []event.RunID{l.Run})
		h.Equal("count", h.Count(store.Query{}), map[event.Status]int{event.StatusPending: 1, event.StatusRunning: 1})
	}},
	{"CountIsByStatus", func(h *harness) {
		h.Equal("count of nothing", h.Count(store.Query{}), map[event.Status]int(nil))
		h.Listed()
		h.Equal("count", h.Count(store.Query{}), map[event.Status]int{
			event.StatusCompleted: 2, event.StatusFailed: 1, event.StatusPending: 5,
		})
		h.Equal("count of a route", h.Count(store.Query{Workflow: suite.Refunds.Workflow}), map[event.Status]int{
			event.StatusFailed: 1, event.StatusPending: 3,
		})
	}},
	{"CountLooksAtNeitherCursorNorLimit", func(h *harness) {
		logs := h.Listed()
		l, _ := store.As[store.Lister](h.Store)
		page, err := l.List(h.Ctx, store.Query{Limit: 3})
		h.Check("list", err)
		sum := 0
		for _, n := range h.Count(store.Query{Limit: 1, Cursor: page.Cursor}) {
			sum += n
		}
		h.Equal("count", sum, len(logs))
	}},
}
