package paging

import (
	"cmp"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// defaultLimit is the size of a page if the query sets no limit.
const defaultLimit = 100

// Position is the position of a run in lists. It consists of the creation time in milliseconds
// since 1970 and the run ID. The zero value precedes all runs.
type Position struct {
	Created int64
	Run     event.RunID
}

// Of returns the position of the run r.
func Of(r *store.Record) Position { return Position{r.CreatedAt.UnixMilli(), r.Run} }

// compare compares positions, the oldest first.
func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Created, o.Created), cmp.Compare(p.Run, o.Run))
}

// Page is a page of a list under construction.
type Page struct {
	q     *store.Query
	after Position
	limit int
	page  store.Page
	last  Position // position of the last examined run
	done  bool
}

// New returns an empty page for a query. It returns an error if the cursor of the query is invalid.
func New(q *store.Query) (*Page, error) {
	created, run, err := q.After()
	if err != nil {
		return nil, err
	}
	p := &Page{q: q, limit: min(q.Limit, 1<<30)}
	if p.limit <= 0 {
		p.limit = defaultLimit
	}
	if run != "" {
		p.after = Position{created.UnixMilli(), run}
	}
	return p, nil
}

// Limit returns the maximum number of runs in the page.
func (p *Page) Limit() int { return p.limit }

// More reports whether the page can take another run.
func (p *Page) More() bool { return !p.done && p.Left() > 0 }

// Left returns the number of runs that the budget of the query permits to examine.
func (p *Page) Left() int { return p.q.Work() - p.page.Looked }

// Wanted returns the number of runs that the page lacks, plus one run to determine whether the page
// is the last.
func (p *Page) Wanted() int { return min(p.limit+1-len(p.page.Runs), p.Left()) }

// Add records that the run at a position was examined. r is nil if the run does not match or was
// removed. Add must not be called after More has returned false.
func (p *Page) Add(at Position, r *store.Record) {
	p.page.Looked++
	if r == nil {
		p.last = at
		return
	}
	if len(p.page.Runs) == p.limit {
		p.page.Cursor, p.done = store.CursorAfter(&p.page.Runs[p.limit-1]), true
		return
	}
	p.last = at
	p.page.Runs = append(p.page.Runs, *r)
}

// End records that there are no further runs.
func (p *Page) End() { p.done = true }

// Done returns the completed page.
func (p *Page) Done() store.Page {
	if !p.done {
		p.page.Partial = true
		p.page.Cursor = store.CursorAfter(&store.Record{Run: p.last.Run, CreatedAt: time.UnixMilli(p.last.Created)})
	}
	return p.page
}

// Counter counts runs within the budget of a query.
type Counter struct {
	q      *store.Query
	Counts store.Counts
}

// Count returns a new Counter for a query.
func Count(q *store.Query) *Counter { return &Counter{q: q, Counts: store.Counts{Exact: true}} }

// More reports whether the budget permits another run. If it does not, More marks the counts as
// inexact.
func (c *Counter) More() bool {
	c.Counts.Exact = c.Counts.Exact && c.Counts.Looked < c.q.Work()
	return c.Counts.Exact
}

// Add records that a run was examined, and counts the run if it matches.
func (c *Counter) Add(matches bool, status event.Status, route store.Route) {
	c.Counts.Looked++
	if matches {
		c.Counts.Add(status, route, 1)
	}
}
