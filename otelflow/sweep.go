package otelflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// sweep exports the runs that dead processes may have ended without exporting their spans.
func (k *keeper) sweep(ctx context.Context) error {
	const limit = 100
	for from := ""; ; {
		page, err := k.entries.Entries(ctx, store.EntryQuery{Space: journalSpace, From: from, Limit: limit})
		if err != nil {
			return err
		}
		for _, e := range page {
			from = e.Key + "+" // follows the key: keys have the same length
			if err := k.succeed(ctx, e); err != nil {
				return fmt.Errorf("entry %s: %w", e.Key, err)
			}
		}
		if len(page) < limit {
			return nil
		}
	}
}

// succeed exports the runs of the process of an entry if the process is dead and no other process
// does so.
func (k *keeper) succeed(ctx context.Context, e store.Entry) error {
	c := &claim{keeper: k, entry: e}
	if err := json.Unmarshal(e.Value, &c.progress); err != nil {
		return err
	}
	now := k.store.Clock().Now()
	if e.Key == k.key || now.Sub(c.progress.Renewed) < k.cfg.stale || now.Sub(c.progress.Claimed) < k.cfg.stale {
		return nil
	}
	n, err := c.settle(ctx)
	if errors.Is(err, store.ErrEntryChanged) {
		return nil // the process lives, or another one has claimed or removed the entry
	}
	if err == nil {
		k.cfg.Logger.Info("exported the spans of a process that has died", "worker", c.progress.Worker, "since", c.progress.Exported, "runs", n)
	}
	return err
}

// claim is the claim of the entry of a dead process.
type claim struct {
	*keeper
	entry    store.Entry // as this process has written it last
	progress progress
	unread   []event.RunID // runs whose logs could not be read
}

// settle claims the entry, exports the runs of its process, and removes the entry.
func (c *claim) settle(ctx context.Context) (n int, err error) {
	if err := c.write(ctx); err != nil {
		return 0, err
	}
	if before := c.progress.Unread; len(before) > 0 {
		n, err = c.exportRuns(ctx, before)
	} else {
		n, err = c.exportEnded(ctx)
	}
	if errors.Is(err, errUnreadable) || err == nil && len(c.unread) > 0 {
		return n, errors.Join(err, c.postpone(ctx))
	}
	if err == nil {
		err = c.flush(ctx)
	}
	if err == nil {
		err = c.entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: journalSpace, Key: c.entry.Key}, Match: true, Old: c.entry.Value})
	}
	return n, err
}

// write claims the entry or renews the claim, if the entry has not changed.
func (c *claim) write(ctx context.Context) error {
	c.progress.Sweeper, c.progress.Claimed = c.key, c.store.Clock().Now()
	value, err := json.Marshal(&c.progress)
	if err != nil {
		return err
	}
	next := store.Entry{Space: journalSpace, Key: c.entry.Key, Value: value}
	if err := c.entries.WriteEntry(ctx, store.EntryWrite{Entry: next, Match: true, Old: c.entry.Value}); err != nil {
		return err
	}
	c.entry = next
	return nil
}

// hold renews the claim, and the entry of this process, if that is due.
func (c *claim) hold(ctx context.Context) error {
	if c.store.Clock().Now().Sub(c.progress.Claimed) < c.cfg.renewal {
		return ctx.Err()
	}
	c.renew(ctx)
	return c.write(ctx)
}

// exportEnded exports the spans of the runs that have ended since the dead process has exported all
// spans.
func (c *claim) exportEnded(ctx context.Context) (n int, err error) {
	lister, ok := store.As[store.Lister](c.store)
	if !ok {
		return 0, nil
	}
	since := c.progress.Exported
	q := store.Query{Statuses: []event.Status{event.StatusCompleted, event.StatusFailed, event.StatusCanceled, event.StatusContinued}, From: since.Add(-lookback)}
	for {
		page, err := lister.List(ctx, q)
		if err != nil {
			return n, err
		}
		for i := range page.Runs {
			if err := c.hold(ctx); err != nil {
				return n, err
			}
			if r := &page.Runs[i]; !r.EndedAt.Before(since) {
				n++
				if err := c.export(r.Run, int(r.Seq)); err != nil {
					return n, err
				}
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return n, nil
		}
	}
}

// exportRuns exports the spans of ended runs.
func (c *claim) exportRuns(ctx context.Context, runs []event.RunID) (n int, err error) {
	for n, id := range runs {
		if err := c.hold(ctx); err != nil {
			return n, err
		}
		if err := c.export(id, math.MaxInt); err != nil {
			return n, err
		}
	}
	return len(runs), nil
}

// errUnreadable reports that too many logs cannot be read.
var errUnreadable = errors.New("too many logs cannot be read")

// export exports the spans of a run. It notes a run whose log cannot be read.
func (c *claim) export(id event.RunID, events int) error {
	err := c.exportAgain(id, events)
	if err == nil {
		return nil
	}
	if c.unread = append(c.unread, id); len(c.unread) >= maxUnread && c.progress.Tries+1 < maxTries {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return nil
}

// postpone keeps the entry, so that a process tries again to read the logs when the claim is stale.
// After maxTries it returns the runs as an error and removes the entry.
func (c *claim) postpone(ctx context.Context) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	c.progress.Tries++
	if c.progress.Tries >= maxTries {
		gone := store.EntryWrite{Entry: store.Entry{Space: journalSpace, Key: c.entry.Key}, Match: true, Old: c.entry.Value}
		return errors.Join(fmt.Errorf("the spans of %d runs are lost, because their logs could not be read %d times: %v", len(c.unread), maxTries, c.unread), c.entries.WriteEntry(ctx, gone))
	}
	if c.progress.Unread = c.unread; len(c.unread) >= maxUnread {
		c.progress.Unread = nil // all runs are exported again
	}
	return c.write(ctx)
}
