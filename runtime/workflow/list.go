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
	Statuses []Status // any of them
	Workflow string   // stored name
	Queue    string
	Tags     map[string]string // all of them
	Parent   RunID
	Root     RunID     // that run, if it has no parent, and all below it
	From, To time.Time // created in [From, To)
	Cursor   string    // of a store.Page; empty: from the newest
	// Internal selects the runs, too, by which other runs have a [Token] of their own
	// or a step on another queue: children of theirs, of workflows "flowgen.hook" and
	// "flowgen.step/" + step. A Workflow of these names asks for them as well. One that
	// is blocked keeps its parent waiting.
	Internal bool
}

func (f Filter) query() store.Query {
	return store.Query{
		Statuses: f.Statuses, Workflow: f.Workflow, Queue: f.Queue, Tags: f.Tags,
		Parent: f.Parent, Root: f.Root, From: f.From, To: f.To, Cursor: f.Cursor,
		Started: !f.Internal && !event.Internal(f.Workflow),
	}
}

// List delivers the runs that match, newest first, without a cap: it reads page by page as
// the loop goes on. It is sorted by the time at which the store created the runs, those
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
			page, err := lister.List(ctx, q)
			c.tellDamage()
			if err != nil {
				yield(RunInfo{}, fmt.Errorf("list runs: %w", err))
				return
			}
			infos, err := c.infos(ctx, page.Runs)
			if err != nil {
				yield(RunInfo{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for _, info := range infos {
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

// infos returns what a page of records says. How deep a run is stands in the first frame
// of its log only, which is read for those that have a parent: all of them in one
// request. One that was purged meanwhile, or whose frame cannot be read, has no depth.
func (c *Client) infos(ctx context.Context, records []store.Record) ([]RunInfo, error) {
	infos := make([]RunInfo, len(records))
	var children []int
	var loads []store.Load
	for i := range records {
		infos[i] = infoOf(&records[i])
		if records[i].Parent != "" {
			children, loads = append(children, i), append(loads, store.Load{Run: records[i].Run, Limit: 1})
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

// Count returns how many of the matching runs have each status; Cursor is not
// looked at. What List leaves out is not counted. [ErrNotSupported]: the store cannot be searched.
func (c *Client) Count(ctx context.Context, f Filter) (map[Status]int, error) {
	lister, err := c.lister()
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	counts, err := lister.Count(ctx, f.query())
	c.tellDamage()
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
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
