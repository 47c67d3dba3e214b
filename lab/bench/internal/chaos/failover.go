package chaos

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
)

// failOver kills the master as often as that was asked for, in equal distances.
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

// failOverOnce does not lose what was committed. The capacity that was set last may not have
// come to the replica: then the one before it holds again.
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
