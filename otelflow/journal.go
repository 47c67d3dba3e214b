package otelflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
)

// A process that is killed loses the spans that it has not exported. They are exported again from the
// logs of their runs, by other processes or by the next one:
//
//   - The worker that takes over a run of a worker that has died exports the spans of the log.
//   - The worker that ends a run exports the spans of all events that it has not committed itself
//     since it has read the log.
//   - A process keeps an entry in the store with the time up to which it has exported all spans. If
//     the entry is not renewed, one other process claims it and exports the runs that have ended
//     since. It removes the entry afterwards. If it dies before, its claim becomes stale.
//
// So each span is exported at least once, and at most once per process and takeover.

const (
	// journalSpace is the space of the entries. The key of an entry identifies a process.
	journalSpace = "otelflow"
	// renewal is the interval at which a process exports its spans and renews its entry.
	renewal = 5 * time.Second
	// stale is the age at which the process of an entry, or the one that has claimed it, is considered
	// dead.
	stale = 30 * time.Second
	// margin is the longest time between the commit of an event and its report to the observers.
	margin = time.Minute
	// lookback is the longest time between the creation and the end of a run whose last spans are
	// exported for a dead process.
	lookback = 24 * time.Hour
)

// progress is the value of an entry.
type progress struct {
	Worker   string    `json:"worker"`
	Exported time.Time `json:"exported"` // the spans of runs that ended before are exported
	Renewed  time.Time `json:"renewed"`

	// Sweeper is the key of the process that exports the runs of this one, which is dead, and Claimed
	// is when it has renewed its claim.
	Sweeper string    `json:"sweeper,omitempty"`
	Claimed time.Time `json:"claimed,omitzero"`
}

// flusher is a tracer provider that exports its spans on request.
type flusher interface {
	ForceFlush(context.Context) error
}

// keeper renews the entry of a worker and exports the spans of dead processes.
type keeper struct {
	*Telemetry
	entries store.Entries
	store   store.Store
	key     string
	worker  string
	down    bool // whether the last renewal failed
}

// journal begins to keep the entry of a worker. stop exports the remaining spans.
func (t *Telemetry) journal(w observe.Worker) (stop func()) {
	t.mu.Lock()
	t.store = w.Store
	t.mu.Unlock()
	entries, ok := store.As[store.Entries](w.Store)
	if !t.traces || !ok {
		return func() {}
	}
	k := t.keeper(w.Store, entries, w.Name)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	k.renew(ctx) // before the worker commits anything
	work.Go(func() {
		tick := time.NewTicker(t.cfg.renewal)
		defer tick.Stop()
		for {
			if !k.down {
				k.failed("export the spans of dead processes", k.sweep(ctx))
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				k.renew(ctx)
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
		last, cancel := context.WithTimeout(context.Background(), t.cfg.renewal)
		defer cancel()
		if err := k.flush(last); err != nil {
			k.failed("export the last spans", err)
			return // the entry remains, so that another process exports them
		}
		k.failed("remove the entry of the process", k.entries.WriteEntry(last, store.EntryWrite{Entry: store.Entry{Space: journalSpace, Key: k.key}}))
	}
}

func (t *Telemetry) keeper(s store.Store, entries store.Entries, worker string) *keeper {
	return &keeper{Telemetry: t, entries: entries, store: s, worker: worker, key: string(event.NewItemID())}
}

func (t *Telemetry) failed(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		t.cfg.Logger.Warn(what, "error", err)
	}
}

func (t *Telemetry) flush(ctx context.Context) error {
	if f, ok := t.cfg.TracerProvider.(flusher); ok {
		return f.ForceFlush(ctx)
	}
	return nil
}

// renew exports the spans that are waiting and renews the entry.
func (k *keeper) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(k.cfg.renewal, 5*time.Second))
	defer cancel()
	now := k.store.Clock().Now()
	err := k.flush(ctx)
	if err == nil {
		var value []byte
		if value, err = json.Marshal(progress{Worker: k.worker, Exported: now.Add(-margin), Renewed: now}); err == nil {
			err = k.entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: journalSpace, Key: k.key, Value: value}})
		}
	}
	if err != nil && !k.down { // an outage is logged once
		k.failed("spans are not exported, or their export is not recorded", err)
	}
	k.down = err != nil
}

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
}

// settle claims the entry, exports the runs of its process, and removes the entry.
func (c *claim) settle(ctx context.Context) (n int, err error) {
	if err := c.write(ctx); err != nil {
		return 0, err
	}
	n, err = c.exportEnded(ctx)
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
				c.exportAgain(r.Run, int(r.Seq))
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return n, nil
		}
	}
}

// exportAgain exports the spans that the first events of the log of a run end.
func (t *Telemetry) exportAgain(id event.RunID, events int) {
	record, log, err := t.read(id)
	if err != nil {
		t.failed("read the log of a run to export its spans", err)
		return
	}
	r := t.run(&observe.Run{ID: id, WorkflowID: record.WorkflowID, Workflow: record.Route.Workflow, Queue: record.Route.Queue})
	if r.spans == nil {
		return
	}
	for i := range log[:min(events, len(log))] {
		if !r.follow(&log[i]) {
			return
		}
	}
}

// read returns the record and the log of a run.
func (t *Telemetry) read(id event.RunID) (*store.Record, []event.Event, error) {
	t.mu.Lock()
	s := t.store
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got, err := s.Load(ctx, []store.Load{{Run: id}})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", id, err)
	}
	var log []event.Event
	for _, frame := range got[0].Frames {
		f, err := event.DecodeFrame(frame)
		if err != nil {
			return nil, nil, fmt.Errorf("run %s: %w", id, err)
		}
		log = append(log, f.Events...)
	}
	return &got[0].Record, log, nil
}
