package worker

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

// rescuer claims the blocked runs of a partition after the keys of the worker have changed. The store
// does not offer a run to the session that has blocked it, even if the fingerprint of the session has
// changed. A run that still cannot be opened is blocked again, once per change.
type rescuer struct {
	*env
	outage    *outage.Log
	partition int
	claim     func(ctx context.Context, run event.RunID) error
}

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
			if r.stopping.Load() {
				return nil
			}
			if run.QueueState != store.StateBlocked || r.partitionOf(run.Run) != r.partition || !r.served.claims(run.Route) {
				continue
			}
			if err := r.claim(ctx, run.Run); err != nil {
				return err
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}
