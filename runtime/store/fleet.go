package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// FleetTeller is a store that can report its sessions and routes. The cost depends on the number of
// sessions, routes and limiter queues, but not on the number of runs: see FleetBudget.
type FleetTeller interface {
	// Fleet returns all sessions. It also returns all routes that a session serves or that have
	// runs which have not ended. The data of each partition are consistent. Fleet changes nothing.
	Fleet(ctx context.Context) (Fleet, error)
}

// FleetBudget is the maximum number of runs and limiter queues that a store reads for a call of
// Fleet, if it does not maintain their number.
const FleetBudget = 100_000

// FleetFirst is the maximum number of priorities of a route for which a partition reports the first
// ready run.
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

	Routes []Route // served routes, ordered by CompareRoutes
	Owned  int     // number of runs that the session owns
}

// Live reports whether the session is alive at the time now: its lease has not expired and its
// recovery has not begun.
func (l *Lease) Live(now time.Time) bool { return !l.Recovering && !l.Expires.Before(now) }

// RouteLoad contains the numbers of runs of a route that have not ended, by queue state.
type RouteLoad struct {
	Route

	// Ready is the number of runs that wait for a worker. The first run of a limiter queue counts
	// as Ready if its limits have free capacity. All other runs of limiter queues count as Waiting.
	Ready, Waiting int
	Owned          int
	Blocked        int
	// Parked is the number of runs that wait for a time, for an item, or for the end of the
	// preceding run of their workflow ID.
	Parked int
	// Inexact reports that the budget was exhausted. Waiting and Owned may be too low. Ready,
	// Blocked and Parked may be too low if the store does not maintain their numbers. Parked may
	// include the runs that are missing from Waiting and Owned.
	Inexact bool
	// First contains ready runs, sorted. For each partition and each of its FleetFirst highest
	// priorities, it contains the run that has been ready for longest. It may contain further ready
	// runs.
	First []event.RunID
}

// sort sorts the sessions, the routes of each session, all routes, and the first runs.
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

// FleetOf builds a Fleet from the loads that partitions report. It adds the loads of the same
// route. It includes routes with zero runs that a session serves, and omits routes without runs
// that no session serves.
func FleetOf(now time.Time, sessions []FleetSession, loads []RouteLoad) Fleet {
	all := map[Route]*RouteLoad{}
	load := func(c Route) *RouteLoad {
		if all[c] == nil {
			all[c] = &RouteLoad{Route: c}
		}
		return all[c]
	}
	for i := range loads {
		if !loads[i].Idle() {
			load(loads[i].Route).Add(&loads[i])
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

// Idle reports whether the route has no open runs.
func (l *RouteLoad) Idle() bool {
	return l.Ready+l.Waiting+l.Owned+l.Parked+l.Blocked == 0
}

// Add adds another load, for example of the same route in another partition.
func (l *RouteLoad) Add(o *RouteLoad) {
	l.Ready, l.Waiting, l.Owned = l.Ready+o.Ready, l.Waiting+o.Waiting, l.Owned+o.Owned
	l.Parked, l.Blocked = l.Parked+o.Parked, l.Blocked+o.Blocked
	l.Inexact = l.Inexact || o.Inexact
	l.First = slices.Concat(l.First, o.First)
}

// UnservedMost is the maximum number of unserved runs that the answer to a heartbeat contains.
const UnservedMost = 100

// CompareRoutes orders routes by queue, then by workflow.
func CompareRoutes(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

// UnservedTurn is the position of a store in its rounds over the ready runs of routes that no
// session serves. It helps to implement a store, and is not safe for concurrent use.
type UnservedTurn struct {
	route Route
	rank  int
}

// Next returns the next runs of the given routes, which must be sorted. ready returns at most limit
// ready runs of a route after the first skip runs. If a run enters or leaves the ready runs between
// two calls, another run may be passed over until the next round.
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
