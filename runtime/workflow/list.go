package workflow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrNotSupported says that the store does not have the ability.
var ErrNotSupported = errors.New("workflow: the store does not support this")

// Filter selects runs. The zero Filter selects all that users or their code have
// started; all fields must match.
type Filter struct {
	Statuses   []Status // any of them
	Workflow   string   // stored name
	Queue      string
	WorkflowID string
	Tags       map[string]string // all of them
	Parent     RunID
	Root       RunID     // that run, if it has no parent, and all below it
	Roots      bool      // only runs without a parent
	From, To   time.Time // created in [From, To)
	Group      string    // of trouble: see [Trouble]
	Troubled   bool      // only runs that are in trouble
	Oldest     bool      // the oldest first
	Cursor     string    // of a [RunPage] or a store.Page that was asked for in the same order; empty: from the first
	// Budget is how many runs the store may look at for one page, or to count; 0: 20,000. See
	// [RunPage] and [Counts].
	Budget int
	// Internal selects the runs, too, by which other runs have a [Token] of their own
	// or a step on another queue: children of theirs, of workflows "flowgen.hook" and
	// "flowgen.step/" + step. A Workflow of these names asks for them as well. One that
	// is blocked keeps its parent waiting.
	Internal bool
	// Waits sets [RunInfo].WaitsFor. A run whose steps wait for limits is found by its log, of which a list reads at most 16 frames
	// more than earlier lists have: of a long log it may report less than [Handle.Info].
	Waits bool
}

func (f Filter) query() store.Query {
	return store.Query{
		Statuses: f.Statuses, Workflow: f.Workflow, Queue: f.Queue, WorkflowID: f.WorkflowID, Tags: f.Tags,
		Parent: f.Parent, Root: f.Root, Roots: f.Roots, From: f.From, To: f.To, Oldest: f.Oldest, Cursor: f.Cursor, Budget: f.Budget,
		Group: f.Group, Troubled: f.Troubled,
		Started: !f.Internal && !event.Internal(f.Workflow),
	}
}

// List delivers the runs that match, newest first, without a cap: it reads page by page as
// the loop goes on, each within the budget, until it has looked at all that may match. With
// few that do among millions that takes its time: ctx ends it, and [Client.Page] takes one page. It is sorted by the time at which the store created the runs, those
// of one millisecond by their ids; so a child is listed by its own time of creation, although
// its id has the time of its parent. Runs that start, end or are purged meanwhile make no
// other run appear twice or not at all. A run of which something stored is damaged may be
// left out, with a line in the log of the client. Blocked is not set; see [Handle.Info]. An
// error is the last pair, with a zero RunInfo.
// [ErrNotSupported]: the store cannot be searched.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[RunInfo, error] {
	return func(yield func(RunInfo, error) bool) {
		lister, err := c.lister()
		if err != nil {
			yield(RunInfo{}, fmt.Errorf("list runs: %w", err))
			return
		}
		for q := f.query(); ; {
			page, err := c.page(ctx, lister, q, f.Waits)
			if err != nil {
				yield(RunInfo{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for _, info := range page.Runs {
				if !yield(info, nil) {
					return
				}
			}
			if page.Cursor == "" {
				return
			}
			q.Cursor = page.Cursor
		}
	}
}

// RunPage is a part of a list.
type RunPage struct {
	Runs []RunInfo
	// Cursor is the [Filter.Cursor] of the next page; empty: there is none.
	Cursor string
	// Partial says that the budget was spent before the page was full, or before it was known whether
	// there are more: the next page, which may be empty, goes on right behind the last run that was looked at.
	Partial bool
	// Looked is how many runs the store has looked at.
	Looked int
}

// Page returns one page of what [Client.List] delivers, with up to limit runs; limit 0: 100. It
// never takes the store longer than it takes to look at [Filter.Budget] runs.
func (c *Client) Page(ctx context.Context, f Filter, limit int) (RunPage, error) {
	lister, err := c.lister()
	if err != nil {
		return RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	q := f.query()
	q.Limit = limit
	page, err := c.page(ctx, lister, q, f.Waits)
	if err != nil {
		return RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

func (c *Client) page(ctx context.Context, lister store.Lister, q store.Query, waits bool) (RunPage, error) {
	page, err := lister.List(ctx, q)
	c.tellDamage()
	if err != nil {
		return RunPage{}, err
	}
	infos, err := c.infos(ctx, page.Runs, waits)
	return RunPage{Runs: infos, Cursor: page.Cursor, Partial: page.Partial, Looked: page.Looked}, err
}

// infos returns what a page of records says. How deep a run is stands in the first frame
// of its log only, which is read for those that have a parent: all of them in one
// request. One that was purged meanwhile, or whose frame cannot be read, has no depth.
func (c *Client) infos(ctx context.Context, records []store.Record, waits bool) ([]RunInfo, error) {
	infos := make([]RunInfo, len(records))
	var children []int
	var loads []store.Load
	all := make([]*store.Record, len(records))
	for i := range records {
		infos[i], all[i] = infoOf(&records[i]), &records[i]
		if records[i].Parent != "" {
			children, loads = append(children, i), append(loads, store.Load{Run: records[i].Run, Limit: 1})
		}
	}
	if waits {
		steps, err := c.listedSteps(ctx, all)
		if err == nil {
			err = c.fillWaits(ctx, infos, all, steps)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(loads) == 0 {
		return infos, nil
	}
	loaded, err := c.store.Load(ctx, loads)
	if err != nil {
		return nil, err
	}
	for n, i := range children {
		if len(loaded[n].Frames) == 0 {
			continue
		}
		if f, err := event.DecodeFrame(loaded[n].Frames[0]); err == nil && len(f.Events) > 0 && f.Events[0].Spec != nil {
			infos[i].Depth = f.Events[0].Spec.Depth
		}
	}
	return infos, nil
}

// Counts is how many runs match a filter, by status and route. ByStatus, ByWorkflow, ByQueue and Total
// add them up. If it is not Exact, the budget was spent, and there are at least so many; runs that have not ended
// and were not looked at then have an empty status.
type Counts = store.Counts

// Counted says which runs are counted together.
type Counted = store.Counted

// Count returns how many runs match; Cursor and Oldest are not looked at. Where the filter asks for statuses,
// workflows, queues and Roots alone, SQLite and Redis need not look at runs that have ended, however many there
// are; a run of which something stored is damaged is counted then. [ErrNotSupported]: the store cannot be searched.
func (c *Client) Count(ctx context.Context, f Filter) (Counts, error) {
	lister, err := c.lister()
	if err != nil {
		return Counts{}, fmt.Errorf("count runs: %w", err)
	}
	counts, err := lister.Count(ctx, f.query())
	c.tellDamage()
	if err != nil {
		return Counts{}, fmt.Errorf("count runs: %w", err)
	}
	return counts, nil
}

// tellDamage logs what the store has left out.
func (c *Client) tellDamage() {
	damage, _ := store.As[store.DamageTeller](c.store)
	outage.LogDamage(c.logger, damage, slog.String("by", "client"))
}

func (c *Client) lister() (store.Lister, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	l, ok := store.As[store.Lister](c.store)
	if !ok {
		return nil, ErrNotSupported
	}
	return l, nil
}
