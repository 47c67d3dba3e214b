package memstore

import (
	"context"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

var _ store.FleetTeller = (*Store)(nil)

// Fleet returns the sessions and the routes. It reads every owned run, and no other.
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
		if l.mode != protocol.LineShut {
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
