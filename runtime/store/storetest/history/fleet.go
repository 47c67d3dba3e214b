package history

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// compareFleet compares the answer of Fleet with the snapshot of the store. A store may choose
// which ready runs of a route it names, if they include the run that is claimed first.
func (h *history) compareFleet() {
	h.Helper()
	if !suite.Has[store.FleetTeller](h.Store) || !h.Shows() {
		return
	}
	got, snap := h.Fleet(), h.Inspect()
	for i := range got.Routes {
		h.checkFirst(&got.Routes[i], snap)
		got.Routes[i].First = nil
	}
	var sessions []store.FleetSession
	for id, l := range snap.Leases {
		i := slices.IndexFunc(h.sessions, func(s store.Session) bool { return s.ID == id })
		routes := slices.Clone(h.sessions[i].Routes)
		slices.SortFunc(routes, store.CompareRoutes)
		sessions = append(sessions, store.FleetSession{Lease: l, Routes: slices.Compact(routes), Owned: len(snap.Owned[id])})
	}
	loads := map[store.Route]*store.RouteLoad{}
	for _, r := range snap.Runs {
		l := loads[r.Route]
		if l == nil {
			l = &store.RouteLoad{Route: r.Route}
			loads[r.Route] = l
		}
		switch r.QueueState {
		case store.StateReady:
			if r.Waits() {
				l.Waiting++
			} else {
				l.Ready++
			}
		case store.StateOwned:
			l.Owned++
		case store.StateBlocked:
			l.Blocked++
		case store.StateParked, store.StateQueued:
			l.Parked++
		}
	}
	for _, line := range snap.Waiting {
		if !line.Closed {
			loads[line.Route].Waiting--
			loads[line.Route].Ready++
		}
	}
	var all []store.RouteLoad
	for _, l := range loads {
		all = append(all, *l)
	}
	want := store.FleetOf(got.Now, sessions, all)
	h.Equal("fleet", got, want)
}

// checkFirst fails the test unless the named runs of a route are ready and include the run that is
// claimed first.
func (h *history) checkFirst(l *store.RouteLoad, snap *store.Snapshot) {
	h.Helper()
	for _, run := range l.First {
		if r := snap.Runs[run]; r == nil || r.Route != l.Route || r.QueueState != store.StateReady {
			h.Fatalf("fleet: run %s is said to be ready on %v", run, l.Route)
		}
	}
	if ready := snap.Ready[l.Route]; len(ready) > 0 && !slices.Contains(l.First, ready[0]) {
		lines := slices.ContainsFunc(snap.Waiting, func(w store.WaitingQueue) bool { return w.Route == l.Route && !w.Closed })
		if !lines { // if there is an open limiter queue, its first run may be the first
			h.Fatalf("fleet: the first ready run of %v is %s, which is not among %v", l.Route, ready[0], l.First)
		}
	}
	if l.Ready > 0 && len(l.First) == 0 {
		h.Fatalf("fleet: %d runs of %v are ready, and none is named", l.Ready, l.Route)
	}
}

// checkUnserved fails the test if one of the runs is not ready, or if a session serves it.
func (h *history) checkUnserved(runs []event.RunID) {
	for _, run := range runs {
		r := h.m.runs[run]
		if r == nil || r.QueueState != store.StateReady {
			h.Fatalf("heartbeat: run %s is said to be ready, and not served", run)
		}
		for _, s := range h.sessions {
			l, there := h.m.leases[s.ID]
			if there && !l.Expires.Before(h.Clock.Now()) && slices.Contains(s.Routes, r.Route) {
				h.Fatalf("heartbeat: nobody is said to serve run %s of %v, but session %s does", run, r.Route, s.ID)
			}
		}
	}
}
