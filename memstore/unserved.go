package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Roster = (*Store)(nil)

// unserved returns ready runs that no live session serves, if nobody has looked just now.
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

// attending yields the sessions whose lease has not expired.
func (p *partition) attending(yield func(*session) bool) {
	now := p.now()
	for _, l := range p.sessions {
		if !l.recovering && l.expires >= now && !yield(l) {
			return
		}
	}
}

// Serves reports whether a session whose lease has not expired serves the route.
func (s *Store) Serves(ctx context.Context, partition int, c store.Route) (bool, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return false, fmt.Errorf("ask who serves %s on queue %s: %w", c.Workflow, c.Queue, err)
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
