package worker

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// rescuer claims the blocked runs of a partition after the keys of the worker have changed. The store
// does not offer a run to the session that has blocked it, even if the fingerprint of the session has
// changed. A run that still cannot be opened is blocked again, once per change.
type rescuer struct {
	*env
	outage    *outage.Log
	partition int
	reserve   func(*store.Record) (done func())
	claim     func(ctx context.Context, run event.RunID) error
}

// rescuePause is the interval at which a rescuer checks whether the worker has free capacity.
const rescuePause = 100 * time.Millisecond

func (r *rescuer) start() {
	r.work.Go(func() {
		r.outage.Note(r.io, "claim blocked runs after a change of the keys", r.rescue(r.io), r.partition)
	})
}

func (r *rescuer) rescue(ctx context.Context) error {
	lister, ok := store.As[store.Lister](r.store)
	if !ok {
		return nil
	}
	q := store.Query{Statuses: []event.Status{event.StatusBlocked}, Oldest: true}
	for {
		page, err := lister.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			run := &page.Runs[i]
			if run.QueueState != store.StateBlocked || r.partitionOf(run.Run) != r.partition || !r.served.claims(run.Route) {
				continue
			}
			done := r.reserve(run)
			for ; done == nil; done = r.reserve(run) {
				if r.stopping.Load() || !wait.For(ctx, r.clock, rescuePause) {
					return nil
				}
			}
			err := r.claim(ctx, run.Run)
			if done(); err != nil {
				return err
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}
