package worker

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

const (
	// purgeEvery is about how often a worker looks for runs whose retention is
	// over. It looks earlier if it knows of one.
	purgeEvery = time.Minute
	// purgePause is how long it lets the store alone at least.
	purgePause = 10 * time.Second
	// purgeBatch bounds one call, which holds up others that use the partition.
	purgeBatch = 100
)

// purger forgets what the store must not keep any longer.
type purger struct {
	*env
	outage *outage.Log
}

// run forgets runs whose retention is over until ctx ends. Every worker
// does so for all runs of the store, whatever it serves: several at once are
// harmless, each run is removed once.
func (p *purger) run(ctx context.Context) {
	from, ok := store.As[store.Purger](p.store)
	if !ok {
		return
	}
	for {
		next, err := p.purge(ctx, from)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return
		case err != nil:
			// The next round tries again.
		}
		if !wait.For(ctx, p.clock, purgeDelay(p.clock.Now(), next, p.chance())) {
			return
		}
	}
}

// purge removes what is over in every partition, batch by batch, and returns when
// the next run is due; zero: there is none. A partition that fails does not
// keep it from the others.
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

// purgeDelay returns how long to wait if the next run is due at that time; zero:
// there is none. Chance, in [0, 1), keeps the workers of a fleet apart.
func purgeDelay(now, next time.Time, chance float64) time.Duration {
	d := time.Duration((0.8 + 0.4*chance) * float64(purgeEvery))
	if until := next.Sub(now); !next.IsZero() && until < d {
		d = max(until, purgePause)
	}
	return d
}
