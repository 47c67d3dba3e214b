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
	// maxTries is how many times a process tries to read a log whose spans must be exported.
	maxTries = 10
	// maxUnread is the number of logs that cannot be read at which a sweep is abandoned: then the
	// cause is the store and not the runs.
	maxUnread = 100
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

	// Tries is the number of sweeps that could not read the logs of all runs. Unread are these runs,
	// and all other runs are exported. If there are none, the last sweep was abandoned.
	Tries  int           `json:"tries,omitempty"`
	Unread []event.RunID `json:"unread,omitempty"`
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
	if t.tracing.Load() == nil || !ok {
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
				k.exportUnread()
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
		k.exportUnread()
		err := k.flush(last)
		if n := k.unread.count(); err == nil && n > 0 {
			err = fmt.Errorf("the logs of %d runs cannot be read", n)
		}
		if err != nil {
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
	tr := t.tracing.Load()
	if tr == nil {
		return nil
	}
	if f, ok := tr.provider.(flusher); ok {
		if err := f.ForceFlush(ctx); err != nil {
			return err
		}
	}
	if b, ok := breakers.Load(tr.provider); ok {
		return b.(*breaker).failing()
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
		if value, err = json.Marshal(progress{Worker: k.worker, Exported: k.unread.oldest(now).Add(-margin), Renewed: now}); err == nil {
			err = k.entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: journalSpace, Key: k.key, Value: value}})
		}
	}
	if err != nil && !k.down { // an outage is logged once
		k.failed("spans are not exported, or their export is not recorded", err)
	}
	k.down = err != nil
}
