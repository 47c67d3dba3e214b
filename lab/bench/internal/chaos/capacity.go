package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/runtime/limit"
)

// capacities contains the current capacities by the names of limits. Its lock is held during
// changes and failovers.
type capacities struct {
	sync.Mutex

	now, before map[string]int
}

func newCapacities() *capacities {
	c := &capacities{now: map[string]int{}, before: map[string]int{}}
	for _, l := range flows.Capacities {
		c.now[l.Limit.Name()], c.before[l.Limit.Name()] = l.Declared, l.Declared
	}
	return c
}

// changeCapacities sets random capacities of the limits in turn until harm ends, and then the
// declared ones.
func (x *experiment) changeCapacities(harm, ctx context.Context) {
	r := rand.New(rand.NewPCG(x.seed, 3))
	pause(harm, x.every)
	for n := 0; harm.Err() == nil; n++ {
		c := flows.Capacities[n%len(flows.Capacities)]
		next, cancel := context.WithTimeout(harm, x.every/2+randomTime(r, x.every))
		x.changeCapacity(ctx, next, c.Limit, c.Least+r.IntN(c.Most-c.Least+1))
		<-next.Done()
		cancel()
		x.count(func(h *harms) { h.Changes++ })
	}
	for _, c := range flows.Capacities {
		x.changeCapacity(ctx, ctx, c.Limit, c.Declared)
	}
}

func (x *experiment) changeCapacity(ctx, next context.Context, l limit.Limit, atOnce int) {
	x.capacities.Lock()
	defer x.capacities.Unlock()
	x.capacities.before[l.Name()], x.capacities.now[l.Name()] = x.capacities.now[l.Name()], atOnce
	x.setCapacity(ctx, next, l, atOnce)
}

// setCapacity sets a capacity and retries until it succeeds. Then it polls, at most until next
// ends, until no more than the new capacity is held. From that time on the new capacity must not be
// exceeded.
func (x *experiment) setCapacity(ctx, next context.Context, l limit.Limit, atOnce int) {
	change := check.Change{Limit: l.Name(), AtOnce: atOnce, Asked: time.Now()}
	x.insist(ctx, func(ctx context.Context) error {
		return x.client.Limits().Set(ctx, l, limit.Config{AtOnce: atOnce})
	})
	x.insist(next, func(ctx context.Context) error {
		held, err := x.held(ctx, l)
		if err == nil && held > atOnce {
			err = errHeld
		}
		if err == nil {
			change.Settled = time.Now()
		}
		return err
	})
	x.noteChange(change)
}

func (x *experiment) noteChange(c check.Change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changes = append(x.changes, c)
}

// errHeld reports that more of a limit is held than its capacity.
var errHeld = errors.New("more is held")

func (x *experiment) held(ctx context.Context, l limit.Limit) (int, error) {
	all, err := x.client.Limits().List(ctx)
	for _, info := range all {
		if info.Name == l.Name() && info.Key == "" {
			return info.Held, err
		}
	}
	return 0, err
}
