package chaos

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pauseSome pauses a limit, a key of a limit or a run, one at a time, until harm ends, and resumes
// each of them. Nothing under a pause begins, everything else continues, and in the end every run
// has its result.
func (x *experiment) pauseSome(harm, ctx context.Context) {
	r := rand.New(rand.NewPCG(x.seed, 4))
	keys, _ := flows.Keys()
	for n := 0; pause(harm, x.every/2+randomTime(r, x.every)); n++ {
		switch n % 3 {
		case 0:
			x.pauseLimit(harm, ctx, flows.Capacities[r.IntN(len(flows.Capacities))].Limit)
		case 1:
			x.pauseLimit(harm, ctx, keys[r.IntN(len(keys))])
		default:
			if run := x.anyRun(r); run != "" {
				x.pauseRun(harm, ctx, run)
			}
		}
		x.count(func(h *harms) { h.Pauses++ })
	}
}

// pauseLimit prevents failovers, because the last resume may not have reached the replica.
func (x *experiment) pauseLimit(harm, ctx context.Context, l limit.Limit) {
	x.capacities.Lock()
	defer x.capacities.Unlock()
	x.insist(ctx, func(ctx context.Context) error { return x.client.Limits().Pause(ctx, l) })
	pause(harm, x.every)
	x.insist(ctx, func(ctx context.Context) error { return x.client.Limits().Resume(ctx, l) })
}

// pauseRun pauses a run, which may end or be canceled before that.
func (x *experiment) pauseRun(harm, ctx context.Context, run event.RunID) {
	h := x.client.Run(run)
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
	if x.insist(ctx, order(h.Pause)); !over {
		pause(harm, x.every)
		x.insist(ctx, order(h.Resume))
	}
}

// anyRun returns a random run that has begun, or "" if there is none.
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
