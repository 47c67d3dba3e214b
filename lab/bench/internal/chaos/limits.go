package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// capacities contains the current capacity of each limit by name. Changes of capacities and
// failovers hold its lock.
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

// changeCapacity sets a random capacity of a limit.
func (x *experiment) changeCapacity(ctx, harmed context.Context, r *rand.Rand) error {
	c := flows.Capacities[x.Count(changes)%len(flows.Capacities)]
	next, cancel := context.WithTimeout(harmed, x.every/2)
	defer cancel()
	x.change(ctx, next, c.Limit, c.Least+r.IntN(c.Most-c.Least+1))
	return nil
}

// restoreCapacities sets all limits to their declared capacities.
func (x *experiment) restoreCapacities(ctx context.Context) {
	for _, c := range flows.Capacities {
		x.change(ctx, ctx, c.Limit, c.Declared)
	}
}

func (x *experiment) change(ctx, next context.Context, l limit.Limit, atOnce int) {
	x.capacities.Lock()
	defer x.capacities.Unlock()
	x.capacities.before[l.Name()], x.capacities.now[l.Name()] = x.capacities.now[l.Name()], atOnce
	x.setCapacity(ctx, next, l, atOnce)
}

// setCapacity sets a capacity and retries until it succeeds. Then it polls the limit until the held
// permits fit the new capacity, or until next ends. From that time on, use must not exceed the new
// capacity.
func (x *experiment) setCapacity(ctx, next context.Context, l limit.Limit, atOnce int) {
	change := check.Change{Limit: l.Name(), AtOnce: atOnce, Asked: time.Now()}
	harm.Insist(ctx, func(ctx context.Context) error {
		return ops.New(x.Client).Limits().Set(ctx, l, limit.Config{AtOnce: atOnce})
	})
	harm.Insist(next, func(ctx context.Context) error {
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

// errHeld is returned while the held permits of a limit exceed its capacity.
var errHeld = errors.New("more is held")

func (x *experiment) held(ctx context.Context, l limit.Limit) (int, error) {
	all, err := ops.New(x.Client).Limits().List(ctx)
	for _, info := range all {
		if info.Name == l.Name() && info.Key == "" {
			return info.Held, err
		}
	}
	return 0, err
}

// failOver performs a failover without loss of commits. If the last capacity has not reached the
// replica, the previous one applies after the failover.
func (x *experiment) failOver(ctx context.Context) error {
	x.capacities.Lock()
	defer x.capacities.Unlock()
	if x.limits {
		for _, c := range flows.Capacities {
			x.noteChange(check.Change{Limit: c.Limit.Name(), AtOnce: x.capacities.before[c.Limit.Name()], Asked: time.Now()})
		}
	}
	if err := x.Pair.Failover(ctx); err != nil {
		return err
	}
	x.recheck()
	if x.limits {
		for _, c := range flows.Capacities {
			next, cancel := context.WithTimeout(ctx, x.every)
			x.setCapacity(ctx, next, c.Limit, x.capacities.now[c.Limit.Name()])
			cancel()
		}
	}
	return nil
}

// pauseSome pauses and resumes a limit, a key of a limit, and a run, one after the other.
// Executions under the pause do not begin, all others continue, and at the end every run must have
// its result.
func (x *experiment) pauseSome(ctx, harmed context.Context, r *rand.Rand) error {
	keys, _ := flows.Keys()
	switch x.Count(pauses) % 3 {
	case 0:
		x.pauseLimit(ctx, harmed, flows.Capacities[r.IntN(len(flows.Capacities))].Limit)
	case 1:
		x.pauseLimit(ctx, harmed, keys[r.IntN(len(keys))])
	default:
		if run := x.anyRun(r); run != "" {
			x.pauseRun(ctx, harmed, run)
		}
	}
	return nil
}

// pauseLimit pauses and resumes a limit. It prevents failovers in this time, because the resume may
// not have reached the replica.
func (x *experiment) pauseLimit(ctx, harmed context.Context, l limit.Limit) {
	x.capacities.Lock()
	defer x.capacities.Unlock()
	harm.Insist(ctx, func(ctx context.Context) error { return ops.New(x.Client).Limits().Pause(ctx, l) })
	harm.Pause(harmed, x.every)
	harm.Insist(ctx, func(ctx context.Context) error { return ops.New(x.Client).Limits().Resume(ctx, l) })
}

// pauseRun pauses and resumes a run. The run may end or be canceled before it is resumed.
func (x *experiment) pauseRun(ctx, harmed context.Context, run event.RunID) {
	h := x.Client.Run(run)
	over := false
	order := func(do func(context.Context, ...workflow.CommandOption) error) func(context.Context) error {
		return func(ctx context.Context) error {
			err := do(ctx)
			if over = errors.Is(err, workflow.ErrRunTerminal) || errors.As(err, new(*workflow.StatusError)); over {
				return nil
			}
			return err
		}
	}
	if harm.Insist(ctx, order(h.Pause)); !over {
		harm.Pause(harmed, x.every)
		harm.Insist(ctx, order(h.Resume))
	}
}

// anyRun returns a random run that has begun and not ended, or "" if there is none.
func (x *experiment) anyRun(r *rand.Rand) event.RunID {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := r.IntN(len(x.started) + 1)
	for run := range x.started {
		if n--; n < 0 {
			return run
		}
	}
	return ""
}
