package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func CanTellFleet(s store.Store) bool {
	_, ok := store.As[store.FleetTeller](s)
	return ok
}

func (h *harness) Fleet() store.Fleet {
	h.Helper()
	teller, _ := store.As[store.FleetTeller](h.Store)
	f, err := teller.Fleet(h.Ctx)
	h.Check("fleet", err)
	return f
}

// loadOf returns the load of a route, or zeros if the fleet does not name the route.
func (h *harness) loadOf(c store.Route) store.RouteLoad {
	h.Helper()
	f := h.Fleet()
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
	if !CanTellFleet(h.Store) || !h.Shows() {
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
	h.Equal("fleet", got, want)
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
		h.Equal("sessions of an empty store", h.Fleet().Sessions, []store.FleetSession(nil))
		s := store.Session{ID: h.IDs.Session(), Worker: "host/2", TTL: TTL, Routes: []store.Route{Refunds, Orders}, Fingerprint: "v7"}
		h.Check("open session", h.Store.OpenSession(h.Ctx, s))
		h.Start()
		h.Start()
		h.Claim(s.ID, 1)
		other := h.SessionWith("v8", Refunds)
		at := h.Clock.Now()
		h.Equal("sessions", h.Fleet().Sessions, []store.FleetSession{
			{Lease: store.Lease{Session: other, Worker: "host/1", Fingerprint: "v8", Expires: at.Add(TTL), TTL: TTL}, Routes: []store.Route{Refunds}},
			{Lease: store.Lease{Session: s.ID, Worker: "host/2", Fingerprint: "v7", Expires: at.Add(TTL), TTL: TTL}, Routes: []store.Route{Orders, Refunds}, Owned: 1},
		})
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, other))
		h.Clock.Advance(TTL + time.Second)
		f := h.Fleet()
		if len(f.Sessions) != 1 || f.Sessions[0].Live(f.Now) || !f.Sessions[0].Live(f.Sessions[0].Expires) {
			h.Errorf("sessions after the lease of the other one: got %+v at %v, want one that does not live", f.Sessions, f.Now)
		}
	}},
	{"OPS1_TheFleetCountsTheRunsOfEachRouteByTheirQueueStates", func(h *harness) {
		s := h.Session(Orders, Refunds)
		ended, fence := h.StartOwned(s)
		h.Finish(ended, fence, event.StatusCompleted)
		h.Equal("load of a route without open runs", h.loadOf(Orders), store.RouteLoad{Route: Orders})
		parked, fence := h.StartOwned(s)
		h.Park(parked, fence, time.Time{})
		h.StartAs(Orders, "", func(c *store.Create) { c.Delay = time.Hour })
		blocked, fence := h.StartOwned(s)
		h.Commit(blocked, WithEffect(blocked.Commit(fence), store.EffectBlock, event.StatusBlocked))
		h.StartOwned(s)
		first := h.Start()
		for range 2 {
			h.Start()
		}
		other := h.startFor(Refunds)
		h.Equal("load", h.loadOf(Orders), store.RouteLoad{Route: Orders, Ready: 3, Owned: 1, Parked: 2, Blocked: 1, First: []event.RunID{first.Run}})
		h.Equal("load of another route", h.loadOf(Refunds), store.RouteLoad{Route: Refunds, Ready: 1, First: []event.RunID{other.Run}})
	}},
	{"OPS1_TheFleetCountsChildrenAsOtherRuns", func(h *harness) {
		s := h.Session(Orders)
		begin := func() *Log {
			l := h.NewLog(Orders, "")
			l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
			h.Create(l.Create())
			return l
		}
		parked := begin()
		h.Park(parked, h.Own(s, parked), time.Time{})
		begin()
		h.Claim(s, 1)
		ready := begin()
		h.Equal("load", h.loadOf(Orders), store.RouteLoad{Route: Orders, Ready: 1, Owned: 1, Parked: 1, First: []event.RunID{ready.Run}})
	}},
	{"OPS1_TheFleetCountsRunsThatAreQueuedAsParked", func(h *harness) {
		id := h.WorkflowID("order-1")
		active := h.StartAs(Orders, id)
		for range 2 {
			l := h.NewLog(Orders, id)
			c := l.Create()
			c.Active = store.ActiveQueue
			if got := h.Create(c); !got.New {
				h.Fatalf("create a queued run: got %+v", got)
			}
		}
		got := h.loadOf(Orders)
		got.First = nil
		h.Equal("load", got, store.RouteLoad{Route: Orders, Ready: 1, Parked: 2})
		h.Finish(active, h.Own(h.Session(Orders), active), event.StatusCompleted)
		got = h.loadOf(Orders)
		got.First = nil
		h.Equal("load once the next one is ready", got, store.RouteLoad{Route: Orders, Ready: 1, Parked: 1})
	}},
	{"OPS1_TheFleetHasRoutesThatNobodyServesAndThoseWithoutRuns", func(h *harness) {
		l := h.startFor(Refunds)
		h.Equal("routes", h.Fleet().Routes, []store.RouteLoad{{Route: Refunds, Ready: 1, First: []event.RunID{l.Run}}})
		h.Session(Orders)
		h.Equal("routes", h.Fleet().Routes, []store.RouteLoad{{Route: Orders}, {Route: Refunds, Ready: 1, First: []event.RunID{l.Run}}})
	}},
	{"OPS1_TheFleetNamesTheFirstReadyRunOfEachPriority", func(h *harness) {
		var want []event.RunID
		for priority := range 2 * store.FleetFirst {
			first := h.StartAs(Orders, "", func(c *store.Create) { c.Priority = priority })
			h.StartAs(Orders, "", func(c *store.Create) { c.Priority = priority })
			want = append(want, first.Run)
		}
		want = want[store.FleetFirst:]
		slices.Sort(want)
		h.Equal("first runs", h.loadOf(Orders).First, want)
	}},
	{"OPS1_TheFleetKeepsNamesOfRoutesApart", func(h *harness) {
		routes := []store.Route{{Queue: "a", Workflow: "b"}, {Queue: "a b", Workflow: "c"}, {Queue: "a", Workflow: "b c"}, {Queue: "ü\u202e", Workflow: "{x}:y"}}
		var want []store.RouteLoad
		for _, c := range routes {
			want = append(want, store.RouteLoad{Route: c, Ready: 1, First: []event.RunID{h.startFor(c).Run}})
		}
		h.Session(routes...)
		slices.SortFunc(want, func(a, b store.RouteLoad) int { return store.CompareRoutes(a.Route, b.Route) })
		slices.SortFunc(routes, store.CompareRoutes)
		h.Equal("routes", h.Fleet().Routes, want)
		h.Equal("routes of the session", h.Fleet().Sessions[0].Routes, routes)
	}},
	{"OPS1_ManySessionsAndRunsAreCountedExactly", func(h *harness) {
		const each = 20
		for n := range 5 {
			c := store.Route{Queue: fmt.Sprint("queue ", n), Workflow: Orders.Workflow}
			s := h.Session(c)
			for range each {
				h.startFor(c)
			}
			h.Claim(s, n, c)
		}
		f := h.Fleet()
		for n, l := range f.Routes {
			l.First = nil
			h.Equal("load", l, store.RouteLoad{Route: store.Route{Queue: fmt.Sprint("queue ", n), Workflow: Orders.Workflow}, Ready: each - n, Owned: n})
		}
		h.Equal("routes", len(f.Routes), 5)
		h.Equal("sessions", len(f.Sessions), 5)
	}},
}

var fleetLimitBehaviors = []behavior{
	{"OPS1_TheFleetCountsTheFirstRunOfALineWithRoomAsReady", func(h *harness) {
		s := h.Session(Orders)
		limiter, _ := store.As[store.Limiter](h.Store)
		gpu := store.LimitID{Name: "gpu"}
		h.Check("set limits", limiter.SetLimits(h.Ctx, 0, []store.SetLimit{{LimitID: gpu, Config: store.LimitConfig{AtOnce: 1}}}))
		logs := map[event.RunID]*Log{}
		for range 3 {
			l := h.StartAs(Orders, "", func(c *store.Create) { c.Uses = []store.Use{{LimitID: gpu, Weight: 1}} })
			logs[l.Run] = l
		}
		got := h.loadOf(Orders)
		h.Equal("first runs", len(got.First), 1)
		got.First = nil
		h.Equal("load with room", got, store.RouteLoad{Route: Orders, Ready: 1, Waiting: 2})
		claimed := h.Claim(s, 10)
		h.Equal("claimed", len(claimed), 1)
		h.Equal("load without room", h.loadOf(Orders), store.RouteLoad{Route: Orders, Owned: 1, Waiting: 2})
		h.Finish(logs[claimed[0].Run], claimed[0].Fence, event.StatusCompleted)
		got = h.loadOf(Orders)
		h.Equal("first runs of the line that was called", len(got.First), 1)
		got.First = nil
		h.Equal("load of the line that was called", got, store.RouteLoad{Route: Orders, Ready: 1, Waiting: 1})
	}},
}
