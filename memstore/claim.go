package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// chores is the maximum number of runs that one claim recovers or makes due. A claim after a long
// stop then does not block others for long. The next claim continues.
const chores = 1000

// Claim recovers runs, makes due runs ready, and assigns ready runs to the session. The runs of all
// routes are ordered by priority, then by the time at which they became ready.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	p, err := s.enterPartition(ctx, c.Partition)
	if err != nil {
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.live(c.Session)
	if err != nil {
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, err)
	}
	p.recoverDead(l, chores)
	p.makeDue(chores)
	served := p.served(c.Routes)
	p.unblock(served, l, c.Max)
	free := protocol.FreeCapacityOf(&c)
	claimed := store.Claimed{Runs: p.take(served, c.Max, l, &c, free)}
	p.announce()
	if free != nil {
		claimed.Skipped = free.Skipped
	}
	for _, route := range served {
		if route.head(nil) != nil {
			p.wake(route)
		}
	}
	claimed.Next = timeOf(p.nextDue())
	return claimed, nil
}

// served returns those of the routes that have runs in the partition.
func (p *partition) served(routes []store.Route) []*route {
	served := make([]*route, 0, len(routes))
	for _, known := range routes {
		if route := p.routes[known]; route != nil {
			served = append(served, route)
		}
	}
	return served
}

// take visits the first ready runs of the routes, and grants those that the session may execute.
func (p *partition) take(routes []*route, limit int, to *session, c *store.Claim, free *protocol.FreeCapacity) (taken []store.ClaimedRun) {
	for vain := 0; len(taken) < limit && vain <= protocol.VainTries; {
		r := next(routes, free)
		if r == nil {
			break
		}
		if granted, _ := p.op.Take(r, to, c, free); granted { // a Tx in memory does not fail
			taken = append(taken, r.claimed())
			continue
		}
		vain++
		if free.HasSkipped(r.id) {
			free.Skipped[len(free.Skipped)-1].Route = r.route.Route
		}
	}
	return taken
}

// ClaimRun assigns a named run to a session.
func (s *Store) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return store.ClaimedRun{}, fmt.Errorf("claim run %s: %w", run, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.op.ClaimRun(session, token, run)
	p.announce()
	if err != nil {
		return store.ClaimedRun{}, fmt.Errorf("claim run %s: %w", run, err)
	}
	return r.claimed(), nil
}

// Seize assigns a named run to a session, and takes it from its owner or its queue.
func (s *Store) Seize(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID, owned bool) (store.ClaimedRun, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return store.ClaimedRun{}, fmt.Errorf("seize run %s: %w", run, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.op.Seize(session, token, run, owned)
	p.announce()
	if err != nil {
		return store.ClaimedRun{}, fmt.Errorf("seize run %s: %w", run, err)
	}
	return r.claimed(), nil
}

// Due makes up to limit due runs ready.
func (s *Store) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return time.Time{}, fmt.Errorf("make due runs ready: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.makeDue(limit)
	return timeOf(p.nextDue()), nil
}

// makeDue makes up to limit runs ready, in the order of their due times.
func (p *partition) makeDue(limit int) {
	if p.nextDue() == 0 {
		return
	}
	now := p.now()
	for n := 0; n < limit && len(p.limits.timed) > 0 && p.limits.timed[0].until <= now; n++ {
		_ = p.op.Turn(p.limits.timed[0].id)
	}
	for n := 0; n < limit && len(p.timers) > 0 && p.timers.next() <= now; n++ {
		_ = p.op.MakeReady(p.timers.first()) // a Tx in memory does not fail
	}
	p.announce()
}

// Release makes an owned run ready under a new fence. It does not count as a recovery.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.op.Release(run, fence)
	p.announce()
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}

// tellBlocked wakes the waiting sessions that serve the route of a blocked run, except those that
// have blocked the run.
func (p *partition) tellBlocked(r *run) {
	p.waiters.WakeAll(r.route.Route, func(id store.SessionID) bool {
		l := p.sessions[id]
		return l != nil && !p.cannotReplay(r, l)
	})
}

// cannotReplay reports whether a live session with the same code as s has blocked the run.
func (p *partition) cannotReplay(r *run, s *session) bool {
	return r.extra != nil && slices.ContainsFunc(r.extra.blockers, func(l *session) bool { return l.code == s.code && p.isLive(l) })
}

// blockers returns the live sessions whose code could not replay the run.
func (p *partition) blockers(r *run) []store.SessionID {
	var all []store.SessionID
	if r.extra != nil {
		for _, l := range r.extra.blockers {
			if p.isLive(l) {
				all = append(all, l.id)
			}
		}
	}
	slices.Sort(all)
	return all
}

// isLive reports whether a session exists and its recovery has not begun.
func (p *partition) isLive(l *session) bool { return p.sessions[l.id] == l && !l.recovering }

// unblock makes up to limit blocked runs of the routes ready. It skips runs that a session with the
// same code has blocked.
func (p *partition) unblock(routes []*route, by *session, limit int) {
	for _, c := range routes {
		for r := c.blocked.first; r != nil && limit > 0; {
			following := r.after
			if may, _ := p.op.MayTry(r, by); may { // a Tx in memory does not fail
				_ = p.op.MakeReady(r)
				limit--
			}
			r = following
		}
	}
}
