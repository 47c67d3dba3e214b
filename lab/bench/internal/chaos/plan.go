package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
)

// order describes a run to start and the operations to perform on it.
type order struct {
	check.Job

	at       time.Duration // time of the start after the beginning of the experiment
	delay    time.Duration // start delay that the run requests
	priority int
	starters int           // number of concurrent requests to start the run
	asked    bool          // the driver waits for the result of the run
	cancel   time.Duration // time of the cancellation after the start; 0 if the run is not canceled
	next     *order        // order that replaces the run of this one
	pauses   time.Duration // maximum pause between two messages of the same sender
}

// share is the percentage of runs that execute a workflow.
type share struct {
	of       int
	workflow string
	fate     check.Fate
}

var shares = []share{
	{40, flows.Chain.Name(), check.Completes},
	{20, flows.Fan.Name(), check.Completes},
	{20, flows.Mail.Name(), check.Completes},
	{10, flows.Endless.Name(), check.IsCanceled},
	{5, flows.Long.Name(), check.Completes},
	{5, flows.Doomed.Name(), check.Fails},
}

// limitedShares contains the shares of the runs that use limits. One in ten runs holds its permits
// until its end.
var limitedShares = []share{
	{90, flows.Crowd.Name(), check.Completes},
	{6, flows.Holder.Name(), check.Completes},
	{4, flows.Hoarder.Name(), check.Completes},
}

// plan generates the orders. It is deterministic for equal options.
func plan(o *options) []*order {
	r := rand.New(rand.NewPCG(o.Seed, 1))
	orders := make([]*order, o.runs)
	for i := range orders {
		orders[i] = draw(r, o, i)
	}
	// Some endless runs are replaced by the run of the next order.
	for i := 0; i+1 < len(orders); i++ {
		a, b := orders[i], orders[i+1]
		if a.Fate == check.IsCanceled && b.Workflow == flows.Chain.Name() && r.IntN(2) == 0 {
			a.cancel, a.next = 0, b
			b.WorkflowID, b.Replaces, b.starters = a.WorkflowID, true, 1
			i++
		}
	}
	return orders
}

func draw(r *rand.Rand, o *options, i int) *order {
	kind := o.drawShare(r)
	span := o.duration() * 3 / 4 // The rest of the time serves to disturb the last runs.
	d := &order{
		Job: check.Job{
			Workflow: kind.workflow, Fate: kind.fate, WorkflowID: fmt.Sprintf("chaos-%d", i),
			Input: flows.Job{
				ID: i, Seed: o.Seed, Steps: 2 + r.IntN(6), Nap: 20 + r.IntN(400),
				Work:    int(o.lease.Milliseconds()) * (5 + r.IntN(15)) / 10,
				Senders: 1 + r.IntN(3), Messages: 2 + r.IntN(4), Tenant: i % flows.Tenants,
			},
		},
		at: harm.Random(r, span), starters: 1, priority: r.IntN(3), asked: r.IntN(8) == 0, pauses: span / 20,
	}
	if r.IntN(5) == 0 {
		d.delay = harm.Random(r, 2*o.lease)
	}
	if r.IntN(10) == 0 {
		d.starters = 3
	}
	if kind.fate == check.IsCanceled {
		d.cancel = 1 + harm.Random(r, span/4)
	}
	if o.limits {
		d.Input.Steps, d.Input.Nested = 5+r.IntN(11), o.nested
	}
	return d
}

func (o *options) drawShare(r *rand.Rand) (kind share) {
	all := shares
	if o.limits {
		all = limitedShares
	}
	n := r.IntN(100)
	for _, kind = range all {
		if n < kind.of {
			break
		}
		n -= kind.of
	}
	return kind
}
