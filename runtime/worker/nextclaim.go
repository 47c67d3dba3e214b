package worker

import (
	goruntime "runtime"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// A commit that gives back a run and its permits also claims runs that waited for these permits, in
// the same action. They begin one round trip and one wake earlier, and the other workers are not
// notified.
//
// This takes nothing from other partitions, because a worker does it only while it has spare slots,
// and it still claims whatever it is woken for. A full worker serves the partitions in turn; see
// [claimer.inTurn]. Nor does one worker keep work from many: it claims this way only while it
// executes fewer steps than it has processors, and while its steps succeed. A broken worker must
// not get every attempt of all the runs that wait for a limit.
//
// Local capacity (Config.Capacity) is offered to one claim at a time, because two concurrent claims
// would both be given what is left. So a worker with local capacity makes no claims by commits.

// nextMost is how many runs such a commit requests. One takes the slot of the run that is given
// back, and a slot is reserved for the other. With two, the store finds out whether a second run
// may begin and need not wake a worker that would find none.
const nextMost = 2

// nextClaim is the claim that a commit in flight makes.
type nextClaim struct {
	lease    *lease.Lease // nil if the commit makes no claim
	session  store.SessionID
	answered func() // called once the claimed runs were adopted
}

// claimNext adds a claim to a commit that gives back permits.
func (t *runLoop) claimNext(c *commit) {
	switch c.req.Effect {
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
	default: // a run that yields does so for other runs
		return
	}
	if !t.givesPermits(c.req.Effect) || !t.alive() || len(t.cfg.Capacity) > 0 ||
		t.draft.failuregroup(c.req.Effect).Group != "" || t.steps.slots.taken() >= min(goruntime.GOMAXPROCS(0), t.cfg.Concurrency) {
		return
	}
	routes := t.runs.reserve(t.route)
	if routes == nil {
		return
	}
	c.req.Next = &store.Claim{
		Partition: t.partition, Session: t.session, Token: event.NewToken(), Routes: routes, Max: nextMost,
		Exempt: t.exemptAfter(), Hinted: true,
	}
	c.next = nextClaim{t.lease, t.session, t.lease.Claiming()}
}

// givesPermits reports whether the run gives back permits with effect.
func (t *runLoop) givesPermits(effect store.Effect) bool {
	if t.run == nil || t.leftQueue {
		return false
	}
	spec := t.run.State().Spec
	if spec == nil || spec.PermitSlot != 0 || spec.Whole && effect == store.EffectPark {
		return false
	}
	return slices.ContainsFunc(spec.Uses, func(u event.Use) bool { return !u.Local })
}

// adoptNext passes the runs that a commit has claimed to their run loops.
func (c *claimer) adoptNext(next nextClaim, claimed store.Claimed) {
	c.runs.passOver(claimed.Skipped)
	for _, run := range claimed.Runs {
		c.adopt(next.lease, next.session, run)
	}
	next.answered()
	c.runs.unreserve()
}

// reserve reserves a slot for a run that a commit claims, and returns the routes to claim from: the
// routes, of queues without a bound, of which this worker has seen runs with permits. It returns
// nil if no slot is free, or if the run that is given back belongs to a queue with a bound.
func (r *runs) reserve(route store.Route) []store.Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping.Load() || r.turns.now.Load() != nil || r.cfg.AtOnce[route.Queue] != 0 || r.occupied() >= r.cfg.Runs {
		return nil
	}
	r.reserved++
	if !slices.Contains(r.limited, route) {
		r.limited = append(r.limited, route)
	}
	return r.limited
}

// unreserve releases the reserved slot.
func (r *runs) unreserve() {
	r.mu.Lock()
	r.reserved--
	r.checkAlone()
	r.mu.Unlock()
	r.freed.Notify()
}
