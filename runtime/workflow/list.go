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

// ErrNotSupported means that the store does not have the capability.
var ErrNotSupported = errors.New("workflow: the store does not support this")

// Filter selects runs that match all its fields. The zero Filter selects all runs started by users
// or their code.
type Filter struct {
	Statuses   []Status // any of them
	Workflow   string   // stored name
	Queue      string
	WorkflowID string
	Tags       map[string]string // all of them
	Parent     RunID
	Root       RunID     // the run with this ID, if it has no parent, and all runs below it
	Roots      bool      // only runs without a parent
	From, To   time.Time // created in [From, To)
	Group      string    // failure group: see ops.FailureGroup
	Failing    bool      // only runs in a failure group
	Oldest     bool      // oldest first
	Cursor     string    // Cursor of a [RunPage] or a store.Page in the same order; empty: the first page
	// Budget is the maximum number of runs that the store examines for one page or count; 0 means
	// 20,000. See [RunPage] and [Counts].
	Budget int
	// Internal also selects the internal runs that hold a [Token] or execute a step on another
	// queue for other runs: their children of workflows "flowgen.hook" and "flowgen.step/" + step.
	// Naming one of these in Workflow selects them as well. A blocked internal run keeps its parent
	// waiting.
	Internal bool
	// Waits sets [RunInfo].WaitsFor. Steps that wait for limits are found in the log of their run,
	// of which each list reads at most 16 frames beyond those read before; for a long log it may
	// report less than [Handle.Info].
	Waits bool
}

func (f Filter) query() store.Query {
	return store.Query{
		Statuses: f.Statuses, Workflow: f.Workflow, Queue: f.Queue, WorkflowID: f.WorkflowID, Tags: f.Tags,
		Parent: f.Parent, Root: f.Root, Roots: f.Roots, From: f.From, To: f.To, Oldest: f.Oldest, Cursor: f.Cursor, Budget: f.Budget,
		Group: f.Group, Failing: f.Failing,
		Started: !f.Internal && !event.Internal(f.Workflow),
	}
}

// List delivers all runs that match, newest first. It reads pages as the loop proceeds, each within
// the budget, until all candidates were examined. This takes long if few of millions of runs match;
// ctx ends it, and [Client.Page] reads a single page. Runs are sorted by the time at which the
// store created them, and by ID within one millisecond; so a child is sorted by its own creation
// time, although its ID contains the time of its parent. Runs that start, end or are purged
// meanwhile do not make another run appear twice or not at all. A run with damaged data may be left
// out; the client logs that. Blocked is not set; see [Handle.Info]. An error is delivered as the
// last pair, with a zero RunInfo. The error matches [ErrNotSupported] if the store cannot be
// searched.
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

// RunPage is one page of a list.
type RunPage struct {
	Runs []RunInfo
	// Cursor is the [Filter.Cursor] of the next page; empty: there is none.
	Cursor string
	// Partial reports that the budget was used up before the page was full, or before the end was
	// reached. The next page, which may be empty, continues after the last examined run.
	Partial bool
	// Looked is the number of runs that the store has examined.
	Looked int
}

// Page returns one page of the result of [Client.List], with up to limit runs; limit 0 means 100.
// The store examines at most [Filter.Budget] runs for it.
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
	c.logDamage()
	if err != nil {
		return RunPage{}, err
	}
	infos, err := c.infos(ctx, page.Runs, waits)
	return RunPage{Runs: infos, Cursor: page.Cursor, Partial: page.Partial, Looked: page.Looked}, err
}

// infos converts a page of records. The depth of a run is only in the first frame of its log, which
// is read for runs with a parent, all in one request. A run that was purged meanwhile, or whose
// frame cannot be read, has depth 0.
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

// Counts contains the number of runs that match a filter, by status and route. ByStatus,
// ByWorkflow, ByQueue and Total add them up. If Exact is false, the budget was used up and the
// numbers are lower bounds; open runs that were not examined have an empty status.
type Counts = store.Counts

// Counted identifies runs that are counted together.
type Counted = store.Counted

// Count returns how many runs match. Cursor and Oldest are ignored. If the filter has only
// statuses, workflows, queues and Roots, SQLite and Redis do not examine runs that have ended,
// regardless of their number; runs with damaged data are counted in that case. The error matches
// [ErrNotSupported] if the store cannot be searched.
func (c *Client) Count(ctx context.Context, f Filter) (Counts, error) {
	lister, err := c.lister()
	if err != nil {
		return Counts{}, fmt.Errorf("count runs: %w", err)
	}
	counts, err := lister.Count(ctx, f.query())
	c.logDamage()
	if err != nil {
		return Counts{}, fmt.Errorf("count runs: %w", err)
	}
	return counts, nil
}

// logDamage logs the damaged data that the store has left out.
func (c *Client) logDamage() {
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
