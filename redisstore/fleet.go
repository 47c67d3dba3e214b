package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.FleetTeller = (*Store)(nil)

// Fleet returns the sessions and the routes. The server knows how many runs of a route have not ended, are ready
// and are blocked; those that are owned it looks at, and at the lines for permits, as far as the budget lasts.
func (s *Store) Fleet(ctx context.Context) (store.Fleet, error) {
	return s.fleet(ctx, max(store.FleetBudget/len(s.parts), 1))
}

// fleet is Fleet with a budget for each partition.
func (s *Store) fleet(ctx context.Context, budget int) (store.Fleet, error) {
	if err := s.enter(ctx); err != nil {
		return store.Fleet{}, err
	}
	var (
		mu       sync.Mutex
		sessions []store.FleetSession
		loads    []store.RouteLoad
	)
	err := each(s.all(), func(p *partition, _ struct{}) error {
		c := &call{
			script: scriptFleet, p: p, keys: []string{p.routes(), p.leases()},
			args: []any{budget, store.FleetFirst},
		}
		if err := s.do(ctx, c); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		sessions, loads = s.addFleet(p, c.answer(), sessions, loads)
		return nil
	})
	if err != nil {
		return store.Fleet{}, fmt.Errorf("ask for the fleet: %w", err)
	}
	return store.FleetOf(s.Clock().Now(), sessions, loads), nil
}

// addFleet adds what a partition has answered.
func (s *Store) addFleet(p *partition, a answer, sessions []store.FleetSession, loads []store.RouteLoad) ([]store.FleetSession, []store.RouteLoad) {
	inexact, rest := a.text(0) != "", a[min(2, len(a)):]
	for i, one := range rest {
		values, ok := one.([]any)
		switch {
		case !ok:
			s.findings(p, rest.texts(i))
			return sessions, loads
		case i < int(a.number(1)):
			load := routeLoad(values, inexact)
			s.names.learnRoute(answer(values).text(0), load.Route)
			loads = append(loads, load)
		default:
			sessions = append(sessions, fleetSession(p, values))
		}
	}
	return sessions, loads
}

// fleetSession reads what a partition says of a session.
func fleetSession(p *partition, a answer) store.FleetSession {
	f := store.FleetSession{
		Lease: store.Lease{
			Session: store.SessionID(a.text(0)), Partition: p.number, Worker: a.text(1), Fingerprint: a.text(3), Expires: a.time(6),
			TTL: time.Duration(parseNumber(a.text(2))) * time.Millisecond, Recovering: a.text(5) != "",
		},
		Owned: int(a.number(7)),
	}
	names, _ := unpackTexts(a.text(4)) // a session whose names are damaged is shown without them
	for _, name := range names {
		f.Routes = append(f.Routes, parseRoute(name))
	}
	return f
}

// routeLoad reads what a partition says of a route.
func routeLoad(a answer, inexact bool) store.RouteLoad {
	l := store.RouteLoad{
		Route: parseRoute(a.text(1)), Ready: int(a.number(3)), Waiting: int(a.number(4)), Owned: int(a.number(5)), Blocked: int(a.number(6)),
		Inexact: inexact, First: longAll(a.texts(7)),
	}
	l.Parked = max(int(a.number(2))-l.Ready-l.Waiting-l.Owned-l.Blocked, 0)
	return l
}
