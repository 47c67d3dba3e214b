package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// FleetTeller is a store that reports its sessions and routes. The cost grows with the number of
// sessions, routes and limiter queues, not with the number of runs: see FleetBudget.
type FleetTeller interface {
	// Fleet returns all sessions, and all routes that they serve or that have runs which have not
	// ended. Each partition is read as of one moment. Fleet changes nothing.
	Fleet(ctx context.Context) (Fleet, error)
}

// FleetBudget is the maximum number of runs and limiter queues that a store reads for a Fleet if it
// does not keep their number.
const FleetBudget = 100_000

// FleetFirst is the maximum number of priorities for which a partition reports the first ready run
// of a route.
const FleetFirst = 4

// Fleet contains the sessions and routes of a store.
type Fleet struct {
	Now      time.Time
	Sessions []FleetSession // ordered by worker, partition and ID
	Routes   []RouteLoad    // ordered by CompareRoutes
}

// FleetSession is a session with its routes and its load.
type FleetSession struct {
	Lease

	Routes []Route // the served routes, ordered by CompareRoutes
	Owned  int     // number of runs that it owns
}

// Live reports whether the lease of the session has not expired at now and its recovery has not
// begun.
func (l *Lease) Live(now time.Time) bool { return !l.Recovering && !l.Expires.Before(now) }

// RouteLoad contains the numbers of runs of a route that have not ended.
type RouteLoad struct {
	Route

	// Ready is the number of runs that wait for a worker. Of each limiter queue the first run
	// counts as Ready if its limits have free capacity; all other runs of limiter queues count as
	// Waiting.
	Ready, Waiting int
	Owned          int
	Blocked        int
	// Parked is the number of runs that wait for a time, for an item, or for the end of the run
	// before them.
	Parked int
	// Inexact reports that the budget was exhausted: Waiting and Owned may be too low, and so may
	// Ready, Blocked and Parked if the store does not keep their numbers. Parked may be too high by
	// the runs missing from Waiting and Owned.
	Inexact bool
	// First contains runs that are Ready, sorted: for each partition and each of its FleetFirst
	// highest priorities the run that has been ready for longest, and possibly others.
	First []event.RunID
}

// sort orders the sessions, their routes, the routes and the first runs.
func (f *Fleet) sort() {
	slices.SortFunc(f.Sessions, func(a, b FleetSession) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Session, b.Session))
	})
	for i := range f.Sessions {
		slices.SortFunc(f.Sessions[i].Routes, CompareRoutes)
		f.Sessions[i].Routes = slices.Compact(f.Sessions[i].Routes)
	}
	slices.SortFunc(f.Routes, func(a, b RouteLoad) int { return CompareRoutes(a.Route, b.Route) })
	for i := range f.Routes {
		slices.Sort(f.Routes[i].First)
	}
}

// FleetOf adds up the loads that partitions report for the same routes. It adds routes that only
// sessions have, with zeros, and leaves out routes that have no runs and that no session serves.
func FleetOf(now time.Time, sessions []FleetSession, loads []RouteLoad) Fleet {
	all := map[Route]*RouteLoad{}
	load := func(c Route) *RouteLoad {
		if all[c] == nil {
			all[c] = &RouteLoad{Route: c}
		}
		return all[c]
	}
	for i := range loads {
		if !loads[i].idle() {
			load(loads[i].Route).add(&loads[i])
		}
	}
	for i := range sessions {
		for _, c := range sessions[i].Routes {
			load(c)
		}
	}
	f := Fleet{Now: now, Sessions: sessions}
	for _, l := range all {
		f.Routes = append(f.Routes, *l)
	}
	f.sort()
	return f
}

func (l *RouteLoad) idle() bool {
	return l.Ready+l.Waiting+l.Owned+l.Parked+l.Blocked == 0
}

// add adds the load of the route in another partition.
func (l *RouteLoad) add(o *RouteLoad) {
	l.Ready, l.Waiting, l.Owned = l.Ready+o.Ready, l.Waiting+o.Waiting, l.Owned+o.Owned
	l.Parked, l.Blocked = l.Parked+o.Parked, l.Blocked+o.Blocked
	l.Inexact = l.Inexact || o.Inexact
	l.First = append(l.First, o.First...)
}

// UnservedMost is the maximum number of unserved runs that a heartbeat reports.
const UnservedMost = 100

// CompareRoutes orders routes by queue, then by workflow.
func CompareRoutes(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

// UnservedTurn is the position of a store in reporting the runs of routes that no session serves.
// It is for implementations of stores and is not safe for concurrent use.
type UnservedTurn struct {
	route Route
	rank  int
}

// Next returns the next runs of the routes, which must be sorted. ready returns up to limit ready
// runs of a route after skipping the first skip. A run that becomes ready or leaves meanwhile may
// move another run past the current position; the next round reports that run.
func (t *UnservedTurn) Next(routes []Route, ready func(c Route, skip, limit int) ([]event.RunID, error)) ([]event.RunID, error) {
	at, same := slices.BinarySearchFunc(routes, t.route, CompareRoutes)
	if !same {
		t.rank = 0
	}
	var all []event.RunID
	for range routes {
		at %= len(routes)
		left := UnservedMost - len(all)
		found, err := ready(routes[at], t.rank, left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(found) == left {
			t.route, t.rank = routes[at], t.rank+left
			return all, nil
		}
		at, t.rank = at+1, 0
		t.route = routes[at%len(routes)]
	}
	return all, nil
}
