package worker

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
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
	full      func() bool
	reserve   func(*store.Record) (done func())
	claim     func(ctx context.Context, run event.RunID) error
}

const (
	// rescuePause is the interval at which a rescuer checks whether the worker has free capacity.
	rescuePause = 100 * time.Millisecond
	// waitingPause is the interval at which a rescuer tries again to claim runs that wait for permits
	// or for local capacity.
	// waitingMost bounds the runs of one interval that are tried in vain.
	waitingPause, waitingMost = time.Second, 100
)

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
	var waiting []*store.Record // runs whose permits or local capacity were not free
	q := store.Query{Statuses: []event.Status{event.StatusBlocked}, Oldest: true}
	for {
		page, err := lister.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			run := &page.Runs[i]
			if run.QueueState != store.StateBlocked || r.partitionOf(run.Run) != r.partition || !r.served.claims(run.Route) || !r.fits(run) {
				continue
			}
			claimed, err := r.claimOne(ctx, run)
			if err != nil {
				return err
			}
			if !claimed {
				waiting = append(waiting, run)
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return r.retry(ctx, waiting)
		}
	}
}

// fits reports whether the run uses no more of a local limit than this worker has in total.
func (r *rescuer) fits(run *store.Record) bool {
	return !slices.ContainsFunc(run.Uses, func(u store.Use) bool {
		most, bounded := r.cfg.Capacity[u.Name]
		return u.Local && bounded && u.Weight > most
	})
}

// claimOne claims a run when the worker has a free slot. It reports false if the run must wait for its
// permits, or for capacity that other runs of the worker use.
func (r *rescuer) claimOne(ctx context.Context, run *store.Record) (bool, error) {
	for r.full() {
		if r.stopping.Load() || !wait.For(ctx, r.clock, rescuePause) {
			return true, nil
		}
	}
	done := r.reserve(run)
	if done == nil {
		return false, nil
	}
	defer done()
	err := r.claim(ctx, run.Run)
	if errors.Is(err, store.ErrNotClaimable) {
		return false, nil
	}
	return true, err
}

// retry claims runs that must wait, until none is left. A blocked run has no position
// in a limiter queue.
func (r *rescuer) retry(ctx context.Context, waiting []*store.Record) error {
	for len(waiting) > 0 && !r.stopping.Load() && wait.For(ctx, r.clock, waitingPause) {
		var still []*store.Record
		for len(waiting) > 0 && len(still) < waitingMost {
			run := waiting[0]
			waiting = waiting[1:]
			claimed, err := r.claimOne(ctx, run)
			if err != nil {
				return err
			}
			if !claimed {
				still = append(still, run)
			}
		}
		waiting = append(waiting, still...)
	}
	return nil
}

// reviveEvery is the approximate interval at which a worker searches for runs whose blobs are back.
const reviveEvery = time.Minute

// reviver claims runs that are blocked because of a missing blob when the blob is back. No other event
// makes a worker try such a run again, because neither the log nor the worker has changed.
type reviver struct {
	*env
	outage *outage.Log
	claim  func(ctx context.Context, run event.RunID) error
}

// missingBlob finds the name of the blob in the reason for which a run is blocked.
var missingBlob = regexp.MustCompile(`\bblob (\S+/[0-9a-f]{64}): ` + regexp.QuoteMeta(store.ErrBlobNotFound.Error()))

// run searches until ctx ends. It does nothing if the client has no codec with blobs.
func (r *reviver) run(ctx context.Context) {
	blobs := sealed.Blobs(r.store)
	lister, lists := store.As[store.Lister](r.store)
	reasons, keeps := store.As[store.StepDataStore](sealed.Raw(r.store)) // reasons are not sealed
	if blobs == nil || !lists || !keeps {
		return
	}
	for wait.For(ctx, r.clock, time.Duration((0.8+0.4*r.chance())*float64(reviveEvery))) {
		r.outage.Note(ctx, "find runs whose blobs are back", r.revive(ctx, blobs, lister, reasons), 0)
	}
}

func (r *reviver) revive(ctx context.Context, blobs store.BlobStore, lister store.Lister, reasons store.StepDataStore) error {
	q := store.Query{Statuses: []event.Status{event.StatusBlocked}}
	for {
		page, err := lister.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			if !r.served.executes(page.Runs[i].Route) {
				continue
			}
			run := page.Runs[i].Run
			data, err := reasons.StepData(ctx, run)
			if err != nil {
				return err
			}
			name := missingBlob.FindSubmatch(data[flow.BlockedKey])
			if name == nil {
				continue
			}
			found, err := blobs.List(ctx, string(name[1]), "", 1)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				continue
			}
			if err := r.claim(ctx, run); err != nil && !errors.Is(err, store.ErrNotClaimable) {
				return err
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}
