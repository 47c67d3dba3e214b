package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// FleetTeller is a store that tells how its sessions and routes stand. What that costs grows with
// the number of sessions, routes and lines for permits, not with that of runs: see FleetBudget.
type FleetTeller interface {
	// Fleet returns all sessions, and the routes that they serve or that have runs which
	// have not ended: each partition as of one moment. It changes nothing.
	Fleet(ctx context.Context) (Fleet, error)
}

// FleetBudget bounds how many runs and lines a store looks at for a Fleet, where no number that it keeps
// says how many there are.
const FleetBudget = 100_000

// FleetFirst bounds of how many priorities a partition names the first ready run of a route.
const FleetFirst = 4

// Fleet is the sessions and routes of a store.
type Fleet struct {
	Now      time.Time
	Sessions []FleetSession // by worker, partition and id
	Routes   []RouteLoad    // as CompareRoutes has them
}

// FleetSession is a session with what it does.
type FleetSession struct {
	Lease

	Routes []Route // that it serves, as CompareRoutes has them
	Owned  int     // runs
}

// Live reports whether the lease of the session lasts at a time, and nobody has begun to recover it.
func (l *Lease) Live(now time.Time) bool { return !l.Recovering && !l.Expires.Before(now) }

// RouteLoad is how many runs of a route there are that have not ended.
type RouteLoad struct {
	Route

	// Ready is how many wait for a worker. Of the runs that wait in one line for the same permits the first counts, if there is room for it in
	// its limits; the others, and those of lines for which there is no room, are Waiting.
	Ready, Waiting int
	Owned          int
	Blocked        int
	// Parked is how many wait for a time, for something to come, or for the end of the run before them.
	Parked int
	// Inexact says that the budget was spent: Waiting and Owned may be too low, and so may Ready, Blocked and Parked, as
	// far as the store keeps no number of them; Parked may be too high by what is missing of Waiting and Owned.
	Inexact bool
	// First has runs that are Ready, sorted: of each partition and of each of its FleetFirst highest priorities
	// the one that has been ready for longest, and maybe others.
	First []event.RunID
}

// sort puts all into order.
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

// FleetOf adds up what partitions say of the same routes. Routes that only sessions have are added, with
// zeros; those of which nothing is left and that no session serves are left out.
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

// add adds what another partition has of the route.
func (l *RouteLoad) add(o *RouteLoad) {
	l.Ready, l.Waiting, l.Owned = l.Ready+o.Ready, l.Waiting+o.Waiting, l.Owned+o.Owned
	l.Parked, l.Blocked = l.Parked+o.Parked, l.Blocked+o.Blocked
	l.Inexact = l.Inexact || o.Inexact
	l.First = append(l.First, o.First...)
}
