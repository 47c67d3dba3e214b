package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// listing is a store whose List reads all runs, sorts them, and drops the runs of earlier pages.
type listing struct {
	wrapper
	change func(q *store.Query, runs *[]store.Record)
	sort   func(a, b *store.Record) int
	had    func(r *store.Record, created time.Time, last event.RunID) bool
}

func (l listing) List(ctx context.Context, q store.Query) (store.Page, error) {
	inner, _ := store.As[store.Lister](l.Store)
	created, last, err := q.After()
	if err != nil {
		return store.Page{}, err
	}
	all := q
	all.Cursor, all.Limit = "", 1000
	if l.change != nil {
		l.change(&all, nil)
	}
	page, err := inner.List(ctx, all)
	if err != nil {
		return store.Page{}, err
	}
	if l.change != nil {
		l.change(&q, &page.Runs)
	}
	sort, had := l.sort, l.had
	if sort == nil {
		sort = store.NewestFirst
	}
	if had == nil {
		had = func(r *store.Record, created time.Time, last event.RunID) bool {
			return sort(r, &store.Record{Run: last, CreatedAt: created}) <= 0
		}
	}
	slices.SortFunc(page.Runs, func(a, b store.Record) int { return sort(&a, &b) })
	if last != "" {
		page.Runs = slices.DeleteFunc(page.Runs, func(r store.Record) bool { return had(&r, created, last) })
	}
	limit := cmp.Or(max(q.Limit, 0), 100)
	page.Cursor = ""
	if len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		page.Cursor = store.CursorAfter(&page.Runs[limit-1])
	}
	return page, nil
}

func (l listing) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	inner, _ := store.As[store.Lister](l.Store)
	return inner.Count(ctx, q)
}

func byID(a, b *store.Record) int { return cmp.Compare(b.Run, a.Run) }

// listFaults are mistakes in List and Count.
var listFaults = map[string]fault{
	"lists are by id": {"ListHasAChildWhereItWasCreated", func(w wrapper) store.Store { return listing{wrapper: w, sort: byID} }},
	"a list ends at an id of an earlier day": {"ListHasAChildWhereItWasCreated", func(w wrapper) store.Store {
		return listing{wrapper: w, change: func(q *store.Query, runs *[]store.Record) {
			if runs != nil && !q.From.IsZero() {
				*runs = slices.DeleteFunc(*runs, func(r store.Record) bool { return r.Run.Time().Before(q.From.Add(-24 * time.Hour)) })
			}
		}}
	}},
	"runs of one millisecond are in any order": {"ListPagesTheRunsOfOneMillisecondByTheirIDs", func(w wrapper) store.Store {
		return listing{wrapper: w, sort: func(a, b *store.Record) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Run, b.Run))
		}}
	}},
	"a cursor is a time": {"ListPagesTheRunsOfOneMillisecondByTheirIDs", func(w wrapper) store.Store {
		return listing{wrapper: w, had: func(r *store.Record, created time.Time, _ event.RunID) bool { return !r.CreatedAt.Before(created) }}
	}},
	"a cursor is an id": {"ListHasAChildWhereItWasCreated", func(w wrapper) store.Store {
		return listing{wrapper: w, had: func(r *store.Record, _ time.Time, last event.RunID) bool { return r.Run >= last }}
	}},
	"a page begins with the last run of the one before": {"ListPagesWithoutACap", func(w wrapper) store.Store {
		return listing{wrapper: w, had: func(r *store.Record, created time.Time, last event.RunID) bool {
			return r.Run != last && store.NewestFirst(r, &store.Record{Run: last, CreatedAt: created}) <= 0
		}}
	}},
	"a cursor needs its run": {"ListPagesAreStableWhileRunsEndAndArePurged", func(w wrapper) store.Store {
		return listing{wrapper: w, had: func(r *store.Record, created time.Time, last event.RunID) bool {
			return w.state(context.Background(), last) != nil && store.NewestFirst(r, &store.Record{Run: last, CreatedAt: created}) <= 0
		}}
	}},
	"times are cut to milliseconds": {"ListTakesItsTimesExactly", func(w wrapper) store.Store {
		return listing{wrapper: w, change: func(q *store.Query, _ *[]store.Record) {
			q.From, q.To = q.From.Truncate(time.Millisecond), q.To.Truncate(time.Millisecond)
		}}
	}},
	"the runs of steps are shown as those of users": {"ListLeavesOutWhatNoUserHasStarted", func(w wrapper) store.Store {
		return listing{wrapper: w, change: func(q *store.Query, _ *[]store.Record) { q.Started = false }}
	}},
	"what no user has started is counted": {"ListLeavesOutWhatNoUserHasStarted", func(w wrapper) store.Store { return countsAll{listing{wrapper: w}} }},
	"a budget counts for nothing": {"NoListLooksAtMoreThanItsBudget", func(w wrapper) store.Store {
		return budgeting{wrapper: w, ask: func(q *store.Query) { q.Budget = 1000 }}
	}},
	"a page whose budget is spent is the last one": {"NoListLooksAtMoreThanItsBudget", func(w wrapper) store.Store {
		return budgeting{wrapper: w, answer: func(_ *store.Query, p *store.Page) {
			if p.Partial {
				p.Cursor, p.Partial = "", false
			}
		}}
	}},
	"a page whose budget is spent goes on behind its last run": {"NoListLooksAtMoreThanItsBudget", func(w wrapper) store.Store {
		return budgeting{wrapper: w, answer: func(q *store.Query, p *store.Page) {
			switch {
			case p.Partial && len(p.Runs) == 0 && q.Cursor != "":
				p.Cursor = q.Cursor
			case p.Partial && len(p.Runs) > 0:
				p.Cursor = store.CursorAfter(&p.Runs[len(p.Runs)-1])
			}
		}}
	}},
	"a page whose budget is spent skips a run": {"APartialPageGoesOnBehindWhatWasLookedAt", func(w wrapper) store.Store {
		return budgeting{wrapper: w, answer: func(q *store.Query, p *store.Page) {
			if p.Partial && len(p.Runs) > 0 {
				p.Runs = p.Runs[:len(p.Runs)-1]
			}
		}}
	}},
	"a page does not say that its budget is spent": {"NoListLooksAtMoreThanItsBudget", func(w wrapper) store.Store {
		return budgeting{wrapper: w, answer: func(_ *store.Query, p *store.Page) { p.Partial = false }}
	}},
	"the oldest come last, whatever is asked": {"ListIsOldestFirstIfAsked", func(w wrapper) store.Store {
		return budgeting{wrapper: w, ask: func(q *store.Query) { q.Oldest = false }}
	}},
	"children are taken for roots": {"ListSelectsRoots", func(w wrapper) store.Store {
		return budgeting{wrapper: w, ask: func(q *store.Query) { q.Roots = false }}
	}},
	"workflow ids select nothing": {"ListSelectsAWorkflowID", func(w wrapper) store.Store {
		return budgeting{wrapper: w, ask: func(q *store.Query) { q.WorkflowID = "" }}
	}},
	"every count is exact": {"ACountThatIsNotExactSaysSo", func(w wrapper) store.Store {
		return budgeting{wrapper: w, counted: func(c *store.Counts) { c.Exact = true }}
	}},
	"what was deleted is counted": {"CountFollowsRunsToTheirPurge", func(w wrapper) store.Store { return &tallying{budgeting: budgeting{wrapper: w}} }},
	"routes are counted together": {"CountIsByRouteAndStatus", func(w wrapper) store.Store {
		return budgeting{wrapper: w, counted: func(c *store.Counts) {
			all := store.Counts{}
			for of, n := range c.Runs {
				all.Add(of.Status, store.Route{}, n)
			}
			c.Runs = all.Runs
		}}
	}},
	"what is no cursor is none": {"ListRefusesACursorThatIsNone", func(w wrapper) store.Store { return anyCursor{w} }},
}

// countsAll is a store whose Count ignores Query.Started, so that it includes the runs of hooks and
// steps.
type countsAll struct{ listing }

func (c countsAll) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	q.Started = false
	return c.listing.Count(ctx, q)
}

// anyCursor is a store whose List begins with the newest run if the cursor is invalid.
type anyCursor struct{ wrapper }

func (c anyCursor) List(ctx context.Context, q store.Query) (store.Page, error) {
	if _, _, err := q.After(); err != nil {
		q.Cursor = ""
	}
	inner, _ := store.As[store.Lister](c.Store)
	return inner.List(ctx, q)
}

func (c anyCursor) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	inner, _ := store.As[store.Lister](c.Store)
	return inner.Count(ctx, q)
}

// budgeting is a store that changes list queries or their answers.
type budgeting struct {
	wrapper
	ask     func(q *store.Query)
	answer  func(q *store.Query, p *store.Page)
	counted func(c *store.Counts)
}

func (b budgeting) List(ctx context.Context, q store.Query) (store.Page, error) {
	inner, _ := store.As[store.Lister](b.Store)
	asked := q
	if b.ask != nil {
		b.ask(&asked)
	}
	page, err := inner.List(ctx, asked)
	if b.answer != nil && err == nil {
		b.answer(&q, &page)
	}
	return page, err
}

func (b budgeting) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	inner, _ := store.As[store.Lister](b.Store)
	counts, err := inner.Count(ctx, q)
	if b.counted != nil {
		b.counted(&counts)
	}
	return counts, err
}

// tallying is a store whose counts of ended runs never decrease, even if a purge removes the runs.
type tallying struct {
	budgeting
	most map[store.Counted]int
}

func (c *tallying) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	counts, err := c.budgeting.Count(ctx, q)
	if c.most == nil {
		c.most = map[store.Counted]int{}
	}
	for of, n := range counts.Runs {
		c.most[of] = max(c.most[of], n)
	}
	for of, n := range c.most {
		if of.Status.Terminal() {
			counts.Add(of.Status, of.Route, n-counts.Runs[of])
		}
	}
	return counts, err
}
