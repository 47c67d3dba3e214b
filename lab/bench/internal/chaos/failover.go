package chaos

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
)

// failOver kills the master the requested number of times at equal intervals.
func (x *experiment) failOver(harm, ctx context.Context) error {
	for n := range x.failovers {
		if !pause(harm, time.Until(x.began.Add(x.duration()*time.Duration(n+1)/time.Duration(x.failovers+1)))) {
			return nil
		}
		if err := x.failOverOnce(ctx); err != nil {
			return err
		}
		x.count(func(h *harms) { h.Failovers++ })
	}
	return nil
}

// failOverOnce performs a failover without loss of commits. The most recent capacity may not have
// reached the replica. In that case the previous one applies again.
func (x *experiment) failOverOnce(ctx context.Context) error {
	x.capacities.Lock()
	defer x.capacities.Unlock()
	if x.limits {
		for _, c := range flows.Capacities {
			x.noteChange(check.Change{Limit: c.Limit.Name(), AtOnce: x.capacities.before[c.Limit.Name()], Asked: time.Now()})
		}
	}
	if err := x.site.Pair.Failover(ctx); err != nil {
		return err
	}
	x.lookAgain()
	if x.limits {
		for _, c := range flows.Capacities {
			next, cancel := context.WithTimeout(ctx, x.every)
			x.setCapacity(ctx, next, c.Limit, x.capacities.now[c.Limit.Name()])
			cancel()
		}
	}
	return nil
}
