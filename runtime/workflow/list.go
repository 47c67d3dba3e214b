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

// ErrNotSupported means that the store does not have the capability that the call needs.
var ErrNotSupported = errors.New("workflow: the store does not support this")

// Filter selects runs that match all its fields. The zero Filter selects all runs that users or
// their code have started.
type Filter struct {
	Statuses   []Status // the status is one of these
	Workflow   string   // stored name of the workflow
	Queue      string
	WorkflowID string
	Tags       map[string]string // the run has all these tags
	Parent     RunID
	Root       RunID     // the run with this ID, if it has no parent, and its descendants
	Roots      bool      // only runs without a parent
	From, To   time.Time // creation time in [From, To)
	Group      string    // failure group, see ops.FailureGroup
	Failing    bool      // only runs in a failure group
	Oldest     bool      // sort the oldest run first
	Cursor     string    // Cursor of a [RunPage] or a store.Page in the same order; empty: the first page
	// Budget is the maximum number of runs that the store examines for one page or count; 0 means
	// 20,000. See [RunPage] and [Counts].
	Budget int
	// Internal also selects the internal runs that hold a [Token] or execute a step on another
	// queue for other runs. They are children of these runs, and their workflows are "flowgen.hook"
	// and "flowgen.step/" + step. Such runs are also selected if Workflow contains one of these
	// names. A blocked internal run keeps its parent waiting.
	Internal bool
	// Waits sets [RunInfo].WaitsFor. The log of a run contains the steps that wait for limits. Each
	// list reads at most 16 frames of a log beyond those that were read earlier. Therefore WaitsFor
	// may be less complete than in [Handle.Info] if the log is long.
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

// List returns an iterator over all runs that match, newest first. It reads pages as the loop
// proceeds, each within the budget, until all candidates were examined. This takes long if only few
// of millions of runs match. To stop, end ctx or break out of the loop. [Client.Page] reads a
// single page.
//
// Runs are sorted by the time at which the store created them, and by ID within one millisecond. A
// child is sorted by its own creation time, although its ID contains the time of its parent. Each
// run that exists during the whole loop is returned exactly once, even if other runs start, end or
// are purged meanwhile. A run with damaged data may be left out. The client logs such data. Blocked
// is not set, see [Handle.Info]. If an error occurs, it is in the last pair, with a zero RunInfo.
// The error matches [ErrNotSupported] if the store cannot be searched.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[RunInfo, error] {
	return func(yield func(RunInfo, error) bool) {
		for q := f.query(); ; {
			page, err := c.inner().page(ctx, q, f.Waits)
			if err != nil {
				yield(RunInfo{}, err)
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
	// Cursor is the [Filter.Cursor] of the next page. It is empty if there is no next page.
	Cursor string
	// Partial reports that the store has used up the budget before the page was full or the last
	// run was examined. The next page continues after the last examined run and may be empty.
	Partial bool
	// Looked is the number of runs that the store has examined.
	Looked int
}

// Page returns one page of the result of [Client.List], with at most limit runs. If limit is 0, it
// is 100. The store examines at most [Filter.Budget] runs for the page.
func (c *Client) Page(ctx context.Context, f Filter, limit int) (RunPage, error) {
	q := f.query()
	q.Limit = limit
	return c.inner().page(ctx, q, f.Waits)
}

func (c *client) page(ctx context.Context, q store.Query, waits bool) (RunPage, error) {
	var page store.Page
	var infos []RunInfo
	lister, err := c.lister()
	if err == nil {
		page, err = lister.List(ctx, q)
		c.LogDamage()
	}
	if err == nil {
		infos, err = c.infos(ctx, page.Runs, waits)
	}
	if err != nil {
		return RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	return RunPage{Runs: infos, Cursor: page.Cursor, Partial: page.Partial, Looked: page.Looked}, nil
}

// infos converts a page of records. Only the first frame of a log contains the depth of a run.
// infos reads that frame for all runs with a parent in one request. The depth is 0 if the run was
// purged after it was listed or if the frame cannot be read.
func (c *client) infos(ctx context.Context, records []store.Record, waits bool) ([]RunInfo, error) {
	infos, all := make([]RunInfo, len(records)), make([]*store.Record, len(records))
	var children []int
	var loads []store.Load
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
	loaded, err := c.loadAll(ctx, loads)
	if err != nil {
		return nil, err
	}
	for n, i := range children {
		if events, err := (&logReader{}).events(loaded[n].Frames); err == nil {
			infos[i].Depth = events[0].Spec.Depth
		}
	}
	return infos, nil
}

// Counts contains the numbers of runs that match a filter, by status and route. ByStatus,
// ByWorkflow, ByQueue and Total return sums. If Exact is false, the store has used up the budget,
// and the numbers are lower bounds. Open runs that were not examined have an empty status.
type Counts = store.Counts

// Counted identifies runs that are counted together.
type Counted = store.Counted

// Count returns the numbers of runs that match. It ignores Cursor and Oldest. If the filter has
// only statuses, workflows, queues and Roots, SQLite and Redis do not examine runs that have ended,
// regardless of their number. In that case, runs with damaged data are counted. The error matches
// [ErrNotSupported] if the store cannot be searched.
func (c *Client) Count(ctx context.Context, f Filter) (Counts, error) {
	var counts Counts
	lister, err := c.inner().lister()
	if err == nil {
		counts, err = lister.Count(ctx, f.query())
		c.inner().LogDamage()
	}
	if err != nil {
		return Counts{}, fmt.Errorf("count runs: %w", err)
	}
	return counts.Unpinned(), nil
}

func (c *client) LogDamage() {
	damage, _ := store.As[store.DamageTeller](c.store)
	outage.LogDamage(c.logger, damage, slog.String("by", "client"))
}

func (c *client) lister() (store.Lister, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	l, ok := store.As[store.Lister](c.store)
	if !ok {
		return nil, ErrNotSupported
	}
	return l, nil
}
