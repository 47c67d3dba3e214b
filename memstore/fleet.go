package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

var _ store.FleetTeller = (*Store)(nil)

// Fleet returns the sessions and the routes. It reads every owned run, and no other run.
func (s *Store) Fleet(ctx context.Context) (store.Fleet, error) {
	if err := s.enter(ctx); err != nil {
		return store.Fleet{}, err
	}
	var sessions []store.FleetSession
	var loads []store.RouteLoad
	for _, p := range s.parts {
		sessions, loads = p.fleet(sessions, loads)
	}
	return store.FleetOf(s.clock.Now(), sessions, loads), nil
}

func (p *partition) fleet(sessions []store.FleetSession, loads []store.RouteLoad) ([]store.FleetSession, []store.RouteLoad) {
	p.mu.Lock()
	defer p.mu.Unlock()
	owned := map[*route]int{}
	for _, l := range p.sessions {
		sessions = append(sessions, store.FleetSession{Lease: p.lease(l), Routes: slices.Clone(l.routes), Owned: l.owned.n})
		for r := l.owned.first; r != nil; r = r.after {
			owned[r.route]++
		}
	}
	waiting := map[*route]int{}
	for _, l := range p.limits.lines {
		for i := range l.levels {
			waiting[l.route] += l.levels[i].size()
		}
		if l.mode != protocol.QueueClosed {
			waiting[l.route]--
		}
	}
	for _, c := range p.routes {
		load := store.RouteLoad{
			Route: c.Route, Ready: len(c.open), Waiting: waiting[c], Owned: owned[c], Parked: c.parked, Blocked: c.blocked.n,
		}
		for i := range c.levels {
			load.Ready += c.levels[i].size()
			if first := c.levels[i].first(); i < store.FleetFirst && first != nil {
				load.First = append(load.First, first.id)
			}
		}
		for _, l := range c.open[:min(len(c.open), store.FleetFirst)] {
			load.First = append(load.First, l.first().id)
		}
		loads = append(loads, load)
	}
	return sessions, loads
}

func (l *level) size() int { return l.runs.n + len(l.fair) }

func (p *partition) lease(l *session) store.Lease {
	return store.Lease{
		Session: l.id, Partition: p.number, Worker: l.worker, Fingerprint: l.code,
		Expires: timeOf(l.expires), TTL: l.ttl, Recovering: l.recovering,
	}
}

var _ store.Roster = (*Store)(nil)

// unserved returns ready runs that no live session serves. Shortly after the last search, unserved
// returns none.
func (p *partition) unserved(by *session) []event.RunID {
	if now := p.now(); p.looked != 0 && now >= p.looked && now-p.looked < store.CountedPause(by.ttl).Milliseconds() {
		return nil
	}
	var waiting []store.Route
	for c, known := range p.routes {
		if known.head(nil) != nil && !slices.Contains(by.routes, c) {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	p.looked = p.now()
	served := map[store.Route]bool{}
	for l := range p.attending {
		for _, c := range l.routes {
			served[c] = true
		}
	}
	waiting = slices.DeleteFunc(waiting, func(c store.Route) bool { return served[c] })
	slices.SortFunc(waiting, store.CompareRoutes)
	runs, _ := p.turn.Next(waiting, func(c store.Route, skip, limit int) ([]event.RunID, error) {
		var found []event.RunID
		for r := range p.routes[c].claimable() {
			if skip--; skip >= 0 {
				continue
			}
			if len(found) == limit {
				break
			}
			found = append(found, r.id)
		}
		return found, nil
	})
	return runs
}

// attending yields the sessions with an unexpired lease.
func (p *partition) attending(yield func(*session) bool) {
	now := p.now()
	for _, l := range p.sessions {
		if !l.recovering && l.expires >= now && !yield(l) {
			return
		}
	}
}

var _ store.ReadyLister = (*Store)(nil)

// Ready returns the first ready runs of the routes.
func (s *Store) Ready(ctx context.Context, partition int, routes []store.Route, limit int) ([]event.RunID, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("list ready runs: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*run
	for _, known := range routes {
		c := p.routes[known]
		if c == nil {
			continue
		}
		n := 0
		for r := range c.ready() {
			if n++; n > limit {
				break
			}
			found = append(found, r)
		}
		for _, l := range c.open[:min(len(c.open), limit)] {
			found = append(found, l.first())
		}
	}
	slices.SortStableFunc(found, func(a, b *run) int { return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.order, b.order)) })
	var all []event.RunID
	for _, r := range found[:min(len(found), limit)] {
		all = append(all, r.id)
	}
	return all, nil
}

// Serves reports whether a session with an unexpired lease serves the route.
func (s *Store) Serves(ctx context.Context, partition int, c store.Route) (bool, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return false, fmt.Errorf("read the workers that serve %s on queue %s: %w", c.Workflow, c.Queue, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.attending {
		if slices.Contains(l.routes, c) {
			return true, nil
		}
	}
	return false, nil
}
