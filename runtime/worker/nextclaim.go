package worker

import (
	goruntime "runtime"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// A commit that gives a run back, and its permits with it, claims those who waited for these in the same action: they begin a
// round trip and a hint earlier, and the other workers hear nothing of it.
//
// That takes nothing from other partitions: a worker does so only while it has places to spare, and claims
// whatever it is woken for. When it is full it waits for its turn with all of them, see [claimer.inTurn]. Nor does one worker do
// what many could: it keeps a permit so only while it executes fewer steps than it has processors, and while they succeed. A worker
// that is broken must not have each attempt of all who wait for a limit.
//
// What a worker has of its own (Config.Capacity) is offered to one claim at a time, as two would both be given what is left: such
// a worker makes no claims by commits.

// nextMost is for how many runs such a commit asks: one comes to the place of the run that is given back, for the other one a
// place is reserved. So the store finds out whether a second one may begin, and need not wake anybody to learn that it may not.
const nextMost = 2

// nextClaim is the claim of a commit that is under way.
type nextClaim struct {
	lease    *lease.Lease // nil: it makes none
	session  store.SessionID
	answered func() // what it was given was adopted
}

// claimNext lets a commit that gives back permits claim.
func (t *runLoop) claimNext(c *commit) {
	switch c.req.Effect {
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
	default: // who gives way does so for others
		return
	}
	if !t.givesPermits(c.req.Effect) || !t.alive() || len(t.cfg.Capacity) > 0 ||
		t.draft.trouble(c.req.Effect).Group != "" || t.steps.slots.taken() >= min(goruntime.GOMAXPROCS(0), t.cfg.Concurrency) {
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

// givesPermits reports whether the run gives permits back with an effect.
func (t *runLoop) givesPermits(effect store.Effect) bool {
	if t.run == nil || t.calledOff {
		return false
	}
	spec := t.run.State().Spec
	if spec == nil || spec.PermitSlot != 0 || spec.Whole && effect == store.EffectPark {
		return false
	}
	return slices.ContainsFunc(spec.Uses, func(u event.Use) bool { return !u.Local })
}

// adoptNext hands what a commit has claimed to its run loops.
func (c *claimer) adoptNext(next nextClaim, claimed store.Claimed) {
	c.runs.passOver(claimed.Passed)
	for _, run := range claimed.Runs {
		c.adopt(next.lease, next.session, run)
	}
	next.answered()
	c.runs.unreserve()
}

// reserve keeps a place for a run that a commit claims, and returns the routes to claim from: those of which this worker has met
// runs with permits, of queues without a bound. It returns nil if there is no place to spare, or the run that is given back is of a
// queue with one.
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

// unreserve gives that place up.
func (r *runs) unreserve() {
	r.mu.Lock()
	r.reserved--
	r.checkAlone()
	r.mu.Unlock()
	r.freed.Notify()
}
