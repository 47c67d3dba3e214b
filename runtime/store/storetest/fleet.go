package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canTellFleet(s store.Store) bool {
	_, ok := store.As[store.FleetTeller](s)
	return ok
}

func (h *harness) fleet() store.Fleet {
	h.Helper()
	teller, _ := store.As[store.FleetTeller](h.store)
	f, err := teller.Fleet(h.ctx)
	h.check("fleet", err)
	return f
}

// loadOf returns the load of a route, or zeros if the fleet does not name the route.
func (h *harness) loadOf(c store.Route) store.RouteLoad {
	h.Helper()
	f := h.fleet()
	for _, l := range f.Routes {
		if l.Route == c {
			return l
		}
	}
	return store.RouteLoad{Route: c}
}

// compareFleet compares the fleet that the store returns with its whole state. A store may choose
// which ready runs it names first, as long as they include the run that is claimed first.
func (h *history) compareFleet() {
	h.Helper()
	if !canTellFleet(h.store) || !h.shows() {
		return
	}
	got, snap := h.fleet(), h.inspect()
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
		if !line.Shut {
			loads[line.Route].Waiting--
			loads[line.Route].Ready++
		}
	}
	var all []store.RouteLoad
	for _, l := range loads {
		all = append(all, *l)
	}
	want := store.FleetOf(got.Now, sessions, all)
	h.equal("fleet", got, want)
}

// checkFirst fails the test unless the first runs of a route are ready and include the run that is
// claimed first.
func (h *harness) checkFirst(l *store.RouteLoad, snap *store.Snapshot) {
	h.Helper()
	for _, run := range l.First {
		if r := snap.Runs[run]; r == nil || r.Route != l.Route || r.QueueState != store.StateReady {
			h.Fatalf("fleet: run %s is said to be ready on %v", run, l.Route)
		}
	}
	if ready := snap.Ready[l.Route]; len(ready) > 0 && !slices.Contains(l.First, ready[0]) {
		lines := slices.ContainsFunc(snap.Waiting, func(w store.WaitingLine) bool { return w.Route == l.Route && !w.Shut })
		if !lines { // otherwise the first run of an open limiter queue may come before it
			h.Fatalf("fleet: the first ready run of %v is %s, which is not among %v", l.Route, ready[0], l.First)
		}
	}
	if l.Ready > 0 && len(l.First) == 0 {
		h.Fatalf("fleet: %d runs of %v are ready, and none is named", l.Ready, l.Route)
	}
}

var fleetBehaviors = []behavior{
	{"EV11_TheFleetHasEachSessionWithWhatItServesAndOwns", func(h *harness) {
		h.equal("sessions of an empty store", h.fleet().Sessions, []store.FleetSession(nil))
		s := store.Session{ID: h.ids.Session(), Worker: "host/2", TTL: ttl, Routes: []store.Route{refunds, orders}, Fingerprint: "v7"}
		h.check("open session", h.store.OpenSession(h.ctx, s))
		h.start()
		h.start()
		h.claim(s.ID, 1)
		other := h.sessionWith("v8", refunds)
		at := h.clock.Now()
		h.equal("sessions", h.fleet().Sessions, []store.FleetSession{
			{Lease: store.Lease{Session: other, Worker: "host/1", Fingerprint: "v8", Expires: at.Add(ttl), TTL: ttl}, Routes: []store.Route{refunds}},
			{Lease: store.Lease{Session: s.ID, Worker: "host/2", Fingerprint: "v7", Expires: at.Add(ttl), TTL: ttl}, Routes: []store.Route{orders, refunds}, Owned: 1},
		})
		h.check("close session", h.store.CloseSession(h.ctx, 0, other))
		h.clock.Advance(ttl + time.Second)
		f := h.fleet()
		if len(f.Sessions) != 1 || f.Sessions[0].Live(f.Now) || !f.Sessions[0].Live(f.Sessions[0].Expires) {
			h.Errorf("sessions after the lease of the other one: got %+v at %v, want one that does not live", f.Sessions, f.Now)
		}
	}},
	{"OPS1_TheFleetCountsTheRunsOfEachRouteByTheirQueueStates", func(h *harness) {
		s := h.session(orders, refunds)
		ended, fence := h.startOwned(s)
		h.finish(ended, fence, event.StatusCompleted)
		h.equal("load of a route without open runs", h.loadOf(orders), store.RouteLoad{Route: orders})
		parked, fence := h.startOwned(s)
		h.park(parked, fence, time.Time{})
		h.startAs(orders, "", func(c *store.Create) { c.Delay = time.Hour })
		blocked, fence := h.startOwned(s)
		h.commit(blocked, withEffect(blocked.Commit(fence), store.EffectBlock, event.StatusBlocked))
		h.startOwned(s)
		first := h.start()
		for range 2 {
			h.start()
		}
		other := h.startFor(refunds)
		h.equal("load", h.loadOf(orders), store.RouteLoad{Route: orders, Ready: 3, Owned: 1, Parked: 2, Blocked: 1, First: []event.RunID{first.Run}})
		h.equal("load of another route", h.loadOf(refunds), store.RouteLoad{Route: refunds, Ready: 1, First: []event.RunID{other.Run}})
	}},
	{"OPS1_TheFleetCountsChildrenAsOtherRuns", func(h *harness) {
		s := h.session(orders)
		begin := func() *Log {
			l := h.newLog(orders, "")
			l.Spec.Parent, l.Spec.Root = h.runID(), h.runID()
			h.create(l.Create())
			return l
		}
		parked := begin()
		h.park(parked, h.own(s, parked), time.Time{})
		begin()
		h.claim(s, 1)
		ready := begin()
		h.equal("load", h.loadOf(orders), store.RouteLoad{Route: orders, Ready: 1, Owned: 1, Parked: 1, First: []event.RunID{ready.Run}})
	}},
	{"OPS1_TheFleetCountsRunsThatAreQueuedAsParked", func(h *harness) {
		id := h.workflowID("order-1")
		active := h.startAs(orders, id)
		for range 2 {
			l := h.newLog(orders, id)
			c := l.Create()
			c.Active = store.ActiveQueue
			if got := h.create(c); !got.New {
				h.Fatalf("create a queued run: got %+v", got)
			}
		}
		got := h.loadOf(orders)
		got.First = nil
		h.equal("load", got, store.RouteLoad{Route: orders, Ready: 1, Parked: 2})
		h.finish(active, h.own(h.session(orders), active), event.StatusCompleted)
		got = h.loadOf(orders)
		got.First = nil
		h.equal("load once the next one is ready", got, store.RouteLoad{Route: orders, Ready: 1, Parked: 1})
	}},
	{"OPS1_TheFleetHasRoutesThatNobodyServesAndThoseWithoutRuns", func(h *harness) {
		l := h.startFor(refunds)
		h.equal("routes", h.fleet().Routes, []store.RouteLoad{{Route: refunds, Ready: 1, First: []event.RunID{l.Run}}})
		h.session(orders)
		h.equal("routes", h.fleet().Routes, []store.RouteLoad{{Route: orders}, {Route: refunds, Ready: 1, First: []event.RunID{l.Run}}})
	}},
	{"OPS1_TheFleetNamesTheFirstReadyRunOfEachPriority", func(h *harness) {
		var want []event.RunID
		for priority := range 2 * store.FleetFirst {
			first := h.startAs(orders, "", func(c *store.Create) { c.Priority = priority })
			h.startAs(orders, "", func(c *store.Create) { c.Priority = priority })
			want = append(want, first.Run)
		}
		want = want[store.FleetFirst:]
		slices.Sort(want)
		h.equal("first runs", h.loadOf(orders).First, want)
	}},
	{"OPS1_TheFleetKeepsNamesOfRoutesApart", func(h *harness) {
		routes := []store.Route{{Queue: "a", Workflow: "b"}, {Queue: "a b", Workflow: "c"}, {Queue: "a", Workflow: "b c"}, {Queue: "ü\u202e", Workflow: "{x}:y"}}
		var want []store.RouteLoad
		for _, c := range routes {
			want = append(want, store.RouteLoad{Route: c, Ready: 1, First: []event.RunID{h.startFor(c).Run}})
		}
		h.session(routes...)
		slices.SortFunc(want, func(a, b store.RouteLoad) int { return store.CompareRoutes(a.Route, b.Route) })
		slices.SortFunc(routes, store.CompareRoutes)
		h.equal("routes", h.fleet().Routes, want)
		h.equal("routes of the session", h.fleet().Sessions[0].Routes, routes)
	}},
	{"OPS1_ManySessionsAndRunsAreCountedExactly", func(h *harness) {
		const each = 20
		for n := range 5 {
			c := store.Route{Queue: fmt.Sprint("queue ", n), Workflow: orders.Workflow}
			s := h.session(c)
			for range each {
				h.startFor(c)
			}
			h.claim(s, n, c)
		}
		f := h.fleet()
		for n, l := range f.Routes {
			l.First = nil
			h.equal("load", l, store.RouteLoad{Route: store.Route{Queue: fmt.Sprint("queue ", n), Workflow: orders.Workflow}, Ready: each - n, Owned: n})
		}
		h.equal("routes", len(f.Routes), 5)
		h.equal("sessions", len(f.Sessions), 5)
	}},
}

var fleetLimitBehaviors = []behavior{
	{"OPS1_TheFleetCountsTheFirstRunOfALineWithRoomAsReady", func(h *harness) {
		s := h.session(orders)
		limiter, _ := store.As[store.Limiter](h.store)
		gpu := store.LimitID{Name: "gpu"}
		h.check("set limits", limiter.SetLimits(h.ctx, 0, []store.SetLimit{{LimitID: gpu, Config: store.LimitConfig{AtOnce: 1}}}))
		logs := map[event.RunID]*Log{}
		for range 3 {
			l := h.startAs(orders, "", func(c *store.Create) { c.Uses = []store.Use{{LimitID: gpu, Weight: 1}} })
			logs[l.Run] = l
		}
		got := h.loadOf(orders)
		h.equal("first runs", len(got.First), 1)
		got.First = nil
		h.equal("load with room", got, store.RouteLoad{Route: orders, Ready: 1, Waiting: 2})
		claimed := h.claim(s, 10)
		h.equal("claimed", len(claimed), 1)
		h.equal("load without room", h.loadOf(orders), store.RouteLoad{Route: orders, Owned: 1, Waiting: 2})
		h.finish(logs[claimed[0].Run], claimed[0].Fence, event.StatusCompleted)
		got = h.loadOf(orders)
		h.equal("first runs of the line that was called", len(got.First), 1)
		got.First = nil
		h.equal("load of the line that was called", got, store.RouteLoad{Route: orders, Ready: 1, Waiting: 1})
	}},
}
