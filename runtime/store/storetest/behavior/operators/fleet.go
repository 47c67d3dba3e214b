package operators

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// loadOf returns the load of a route. All its counts are zero if the fleet does not contain the
// route.
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

var fleetBehaviors = []behavior{
	{"EV11_TheFleetHasEachSessionWithWhatItServesAndOwns", func(h *harness) {
		h.Equal("sessions of an empty store", h.Fleet().Sessions, []store.FleetSession(nil))
		s := store.Session{ID: h.IDs.Session(), Worker: "host/2", TTL: suite.TTL, Routes: []store.Route{suite.Refunds, suite.Orders}, Fingerprint: "v7"}
		h.Check("open session", h.Store.OpenSession(h.Ctx, s))
		h.Start()
		h.Start()
		h.Claim(s.ID, 1)
		other := h.SessionWith("v8", suite.Refunds)
		at := h.Clock.Now()
		h.Equal("sessions", h.Fleet().Sessions, []store.FleetSession{
			{Lease: store.Lease{Session: other, Worker: "host/1", Fingerprint: "v8", Expires: at.Add(suite.TTL), TTL: suite.TTL}, Routes: []store.Route{suite.Refunds}},
			{Lease: store.Lease{Session: s.ID, Worker: "host/2", Fingerprint: "v7", Expires: at.Add(suite.TTL), TTL: suite.TTL}, Routes: []store.Route{suite.Orders, suite.Refunds}, Owned: 1},
		})
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, other))
		h.Clock.Advance(suite.TTL + time.Second)
		f := h.Fleet()
		if len(f.Sessions) != 1 || f.Sessions[0].Live(f.Now) || !f.Sessions[0].Live(f.Sessions[0].Expires) {
			h.Errorf("sessions after the lease of the other one: got %+v at %v, want one that does not live", f.Sessions, f.Now)
		}
	}},
	{"OPS1_TheFleetCountsTheRunsOfEachRouteByTheirQueueStates", func(h *harness) {
		s := h.Session(suite.Orders, suite.Refunds)
		ended, fence := h.StartOwned(s)
		h.Finish(ended, fence, event.StatusCompleted)
		h.Equal("load of a route without open runs", h.loadOf(suite.Orders), store.RouteLoad{Route: suite.Orders})
		parked, fence := h.StartOwned(s)
		h.Park(parked, fence, time.Time{})
		h.StartAs(suite.Orders, "", func(c *store.Create) { c.Delay = time.Hour })
		blocked, fence := h.StartOwned(s)
		h.Commit(blocked, suite.WithEffect(blocked.Commit(fence), store.EffectBlock, event.StatusBlocked))
		h.StartOwned(s)
		first := h.Start()
		for range 2 {
			h.Start()
		}
		other := h.startFor(suite.Refunds)
		h.Equal("load", h.loadOf(suite.Orders), store.RouteLoad{Route: suite.Orders, Ready: 3, Owned: 1, Parked: 2, Blocked: 1, First: []event.RunID{first.Run}})
		h.Equal("load of another route", h.loadOf(suite.Refunds), store.RouteLoad{Route: suite.Refunds, Ready: 1, First: []event.RunID{other.Run}})
	}},
	{"OPS1_TheFleetCountsChildrenAsOtherRuns", func(h *harness) {
		s := h.Session(suite.Orders)
		begin := func() *suite.Log {
			l := h.NewLog(suite.Orders, "")
			l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
			h.Create(l.Create())
			return l
		}
		parked := begin()
		h.Park(parked, h.Own(s, parked), time.Time{})
		begin()
		h.Claim(s, 1)
		ready := begin()
		h.Equal("load", h.loadOf(suite.Orders), store.RouteLoad{Route: suite.Orders, Ready: 1, Owned: 1, Parked: 1, First: []event.RunID{ready.Run}})
	}},
	{"OPS1_TheFleetCountsRunsThatAreQueuedAsParked", func(h *harness) {
		id := h.WorkflowID("order-1")
		active := h.StartAs(suite.Orders, id)
		for range 2 {
			l := h.NewLog(suite.Orders, id)
			c := l.Create()
			c.Active = store.ActiveQueue
			if got := h.Create(c); !got.New {
				h.Fatalf("create a queued run: got %+v", got)
			}
		}
		got := h.loadOf(suite.Orders)
		got.First = nil
		h.Equal("load", got, store.RouteLoad{Route: suite.Orders, Ready: 1, Parked: 2})
		h.Finish(active, h.Own(h.Session(suite.Orders), active), event.StatusCompleted)
		got = h.loadOf(suite.Orders)
		got.First = nil
		h.Equal("load once the next one is ready", got, store.RouteLoad{Route: suite.Orders, Ready: 1, Parked: 1})
	}},
	{"OPS1_TheFleetHasRoutesThatNobodyServesAndThoseWithoutRuns", func(h *harness) {
		l := h.startFor(suite.Refunds)
		h.Equal("routes", h.Fleet().Routes, []store.RouteLoad{{Route: suite.Refunds, Ready: 1, First: []event.RunID{l.Run}}})
		h.Session(suite.Orders)
		h.Equal("routes", h.Fleet().Routes, []store.RouteLoad{{Route: suite.Orders}, {Route: suite.Refunds, Ready: 1, First: []event.RunID{l.Run}}})
	}},
	{"OPS1_TheFleetNamesTheFirstReadyRunOfEachPriority", func(h *harness) {
		var want []event.RunID
		for priority := range 2 * store.FleetFirst {
			first := h.StartAs(suite.Orders, "", func(c *store.Create) { c.Priority = priority })
			h.StartAs(suite.Orders, "", func(c *store.Create) { c.Priority = priority })
			want = append(want, first.Run)
		}
		want = want[store.FleetFirst:]
		slices.Sort(want)
		h.Equal("first runs", h.loadOf(suite.Orders).First, want)
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
			c := store.Route{Queue: fmt.Sprint("queue ", n), Workflow: suite.Orders.Workflow}
			s := h.Session(c)
			for range each {
				h.startFor(c)
			}
			h.Claim(s, n, c)
		}
		f := h.Fleet()
		for n, l := range f.Routes {
			l.First = nil
			h.Equal("load", l, store.RouteLoad{Route: store.Route{Queue: fmt.Sprint("queue ", n), Workflow: suite.Orders.Workflow}, Ready: each - n, Owned: n})
		}
		h.Equal("routes", len(f.Routes), 5)
		h.Equal("sessions", len(f.Sessions), 5)
	}},
}

var fleetLimitBehaviors = []behavior{
	{"OPS1_TheFleetCountsTheFirstRunOfALineWithRoomAsReady", func(h *harness) {
		s := h.Session(suite.Orders)
		limiter, _ := store.As[store.Limiter](h.Store)
		gpu := store.LimitID{Name: "gpu"}
		h.Check("set limits", limiter.SetLimits(h.Ctx, 0, []store.SetLimit{{LimitID: gpu, Config: store.LimitConfig{AtOnce: 1}}}))
		logs := map[event.RunID]*suite.Log{}
		for range 3 {
			l := h.StartAs(suite.Orders, "", func(c *store.Create) { c.Uses = []store.Use{{LimitID: gpu, Weight: 1}} })
			logs[l.Run] = l
		}
		got := h.loadOf(suite.Orders)
		h.Equal("first runs", len(got.First), 1)
		got.First = nil
		h.Equal("load with room", got, store.RouteLoad{Route: suite.Orders, Ready: 1, Waiting: 2})
		claimed := h.Claim(s, 10)
		h.Equal("claimed", len(claimed), 1)
		h.Equal("load without room", h.loadOf(suite.Orders), store.RouteLoad{Route: suite.Orders, Owned: 1, Waiting: 2})
		h.Finish(logs[claimed[0].Run], claimed[0].Fence, event.StatusCompleted)
		got = h.loadOf(suite.Orders)
		h.Equal("first runs of the line that was called", len(got.First), 1)
		got.First = nil
		h.Equal("load of the line that was called", got, store.RouteLoad{Route: suite.Orders, Ready: 1, Waiting: 1})
	}},
}
