package worker

import (
	goruntime "runtime"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// A commit that gives back a run and its permits also claims runs that waited for these permits, in
// the same atomic action. The claimed runs begin one round trip and one wake earlier, and no other
// worker is notified.
//
// Such claims do not keep a worker from serving other partitions. The worker makes them only while
// it has spare slots, and still claims after each wake. A full worker serves the partitions in
// turn; see [claimer.inTurn]. One worker also does not keep work from others: it makes such claims
// only while it executes fewer steps than it has processors, and while its steps succeed. Otherwise
// a broken worker would get every attempt of all the runs that wait for a limit.
//
// A worker with local capacity (Config.Capacity) makes no claims by commits. Its free capacity may
// be offered only to one claim at a time, because two concurrent claims could both use it.

// nextMost is how many runs a commit claims at most. One run uses the slot of the run that is given
// back, and a slot is reserved for the other. By trying two runs, the store determines whether a
// second run may begin, and wakes no worker if none may.
const nextMost = 2

// nextClaim is the claim that a commit makes.
type nextClaim struct {
	lease    *lease.Lease // nil if the commit makes no claim
	session  store.SessionID
	answered func() // must be called after the claimed runs were adopted
}

// claimNext adds a claim to a commit that gives back permits.
func (t *runLoop) claimNext(s *sending, claim *runloop.Claim) {
	if len(t.cfg.Capacity) > 0 || t.steps.slots.taken() >= min(goruntime.GOMAXPROCS(0), t.cfg.Concurrency) {
		return
	}
	l := t.leases[claim.Partition]
	answered := l.Claiming() // before the routes are read, see mover.update
	routes := t.runs.reserve(claim.Route)
	if routes == nil {
		answered()
		return
	}
	s.Req.Next = &store.Claim{
		Partition: claim.Partition, Session: claim.Session, Token: event.NewToken(), Routes: routes, Max: nextMost,
		Exempt: t.exemptAfter(), Hinted: true,
	}
	s.next = nextClaim{l, claim.Session, answered}
}

// adoptNext posts the claims that a commit has made to the run loops of the claimed runs.
func (c *claimer) adoptNext(next nextClaim, claimed store.Claimed) {
	c.runs.passOver(claimed.Skipped)
	for _, run := range claimed.Runs {
		c.adopt(next.lease, next.session, run)
	}
	next.answered()
	c.runs.unreserve()
}

// reserve reserves a slot for a run that a commit claims, and returns the routes to claim from.
// These are the routes of runs with permits that this worker has given back, without routes of
// queues with a bound. It returns nil if no slot is free or if the queue of route has a bound.
func (r *runs) reserve(route store.Route) []store.Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping.Load() || r.turns.now.Load() != nil || r.cfg.AtOnce[queueOf(route)] != 0 || !r.served.claims(route) || r.occupied() >= r.cfg.Runs {
		return nil
	}
	r.reserved++
	if !slices.Contains(r.limited, route) {
		r.limited = append(r.limited, route)
	}
	return r.limited
}

// reroute forgets the routes from which the worker does not claim any more.
func (r *runs) reroute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []store.Route
	for _, route := range r.limited {
		if r.served.claims(route) {
			left = append(left, route)
		}
	}
	r.limited = left
}

func (r *runs) unreserve() {
	r.mu.Lock()
	r.reserved--
	r.checkAlone()
	r.mu.Unlock()
	r.freed.Notify()
}
