package worker

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

const (
	// purgeEvery is the approximate interval between searches for expired runs. A worker searches
	// earlier if a previous search returned an earlier expiry.
	purgeEvery = time.Minute
	// purgePause is the minimum pause between two searches.
	purgePause = 10 * time.Second
	// purgeBatch bounds the runs that one call removes. A call delays other requests to the
	// partition.
	purgeBatch = 100
)

// purger removes runs whose retention has expired.
type purger struct {
	*env
	outage *outage.Log
}

// run removes expired runs until ctx ends. Every worker does so for all runs of the store,
// including runs that it does not serve. Several purgers may run concurrently, because the store
// removes each run once.
func (p *purger) run(ctx context.Context) {
	from, ok := store.As[store.Purger](p.store)
	if !ok {
		return
	}
	for {
		next, err := p.purge(ctx, from)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return // after other errors, the next round retries
		}
		if !wait.For(ctx, p.clock, purgeDelay(p.clock.Now(), next, p.chance())) {
			return
		}
	}
}

// purge removes expired runs in every partition, batch by batch. It returns the time at which the
// next run expires, or zero if there is none. An error in one partition does not prevent purging
// the others.
func (p *purger) purge(ctx context.Context, from store.Purger) (next time.Time, failed error) {
	for partition := range p.store.Partitions() {
		for ctx.Err() == nil {
			n, due, err := from.Purge(ctx, partition, purgeBatch)
			p.outage.Note(ctx, "purge runs", err, partition)
			if err != nil {
				failed = errors.Join(failed, err)
				break
			}
			if n > 0 && !due.IsZero() && !due.After(p.clock.Now()) {
				continue
			}
			if next.IsZero() || !due.IsZero() && due.Before(next) {
				next = due
			}
			break
		}
	}
	return next, failed
}

// sweep removes blobs to which no run refers until ctx ends. Every worker does so for all runs of the
// store. It does nothing if the client has no codec with blobs.
func (p *purger) sweep(ctx context.Context) {
	blobs := sealed.Blobs(p.store)
	if blobs == nil {
		return
	}
	sweeper := sealed.NewSweeper(p.store, blobs, p.clock)
	for wait.For(ctx, p.clock, time.Duration((1+0.4*p.chance())*float64(sweeper.Wait()))) {
		err := sweeper.Pass(ctx)
		p.outage.Note(ctx, "remove blobs", err, 0)
		if errors.Is(err, store.ErrClosed) {
			return
		}
	}
}

// purgeDelay returns how long to wait before the next search. The next run expires at next; a zero
// next means that no run expires. chance, in [0, 1), spreads the searches of the workers of a fleet
// over time.
func purgeDelay(now, next time.Time, chance float64) time.Duration {
	d := time.Duration((0.8 + 0.4*chance) * float64(purgeEvery))
	if until := next.Sub(now); !next.IsZero() && until < d {
		d = max(until, purgePause)
	}
	return d
}
