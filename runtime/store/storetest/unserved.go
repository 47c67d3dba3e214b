package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canTellWhoServes(s store.Store) bool {
	_, ok := store.As[store.Roster](s)
	return ok
}

// startFor starts a run of a route.
func (h *harness) startFor(c store.Route) *Log {
	h.Helper()
	return h.startAs(c, "")
}

// unserved returns the runs that a heartbeat names after a pause, sorted. The pause is long enough
// for runs to be named again.
func (h *harness) unserved(s store.SessionID) []event.RunID {
	h.Helper()
	h.clock.Advance(store.CountedPause(ttl))
	found := h.heartbeat(s).Unserved
	slices.Sort(found)
	return found
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
			if there && !l.Expires.Before(h.clock.Now()) && slices.Contains(s.Routes, r.Route) {
				h.Fatalf("heartbeat: nobody is said to serve run %s of %v, but session %s does", run, r.Route, s.ID)
			}
		}
	}
}

var unservedBehaviors = []behavior{
	{"U1_AHeartbeatNamesReadyRunsThatNobodyServes", func(h *harness) {
		s := h.session(orders)
		h.startFor(orders)
		one, two := h.startFor(refunds), h.startFor(refunds)
		want := []event.RunID{one.Run, two.Run}
		slices.Sort(want)
		h.equal("unserved", h.unserved(s), want)
		h.equal("unserved, asked again", h.unserved(s), want)
	}},
	{"U1_AHeartbeatNamesNoRunThatAnotherSessionServes", func(h *harness) {
		s, other := h.session(orders), h.session(orders, refunds)
		h.startFor(refunds)
		h.equal("unserved", h.unserved(s), []event.RunID(nil))
		h.equal("unserved", h.unserved(other), []event.RunID(nil))
	}},
	{"U1_AHeartbeatNamesRunsWhoseSessionHasLeft", func(h *harness) {
		s, other := h.session(orders), h.session(refunds)
		l := h.startFor(refunds)
		h.equal("unserved", h.unserved(s), []event.RunID(nil))
		h.check("close session", h.store.CloseSession(h.ctx, 0, other))
		h.equal("unserved", h.unserved(s), []event.RunID{l.Run})
	}},
	{"U1_AHeartbeatNamesRunsWhoseSessionIsSilent", func(h *harness) {
		s := h.session(orders)
		h.session(refunds)
		l := h.startFor(refunds)
		h.clock.Advance(ttl - store.CountedPause(ttl))
		h.equal("unserved", h.unserved(s), []event.RunID(nil))
		h.equal("unserved when the lease is past", h.unserved(s), []event.RunID{l.Run})
	}},
	{"U1_ASessionThatIsOpenedAgainServesWhatItSaysThen", func(h *harness) {
		s := h.session(orders)
		other := store.Session{ID: h.ids.Session(), TTL: ttl, Routes: []store.Route{refunds}}
		h.check("open session", h.store.OpenSession(h.ctx, other))
		l := h.startFor(refunds)
		other.Routes = []store.Route{orders}
		h.check("open session again", h.store.OpenSession(h.ctx, other))
		h.equal("unserved", h.unserved(s), []event.RunID{l.Run})
	}},
	{"U1_AHeartbeatNamesOnlyRunsThatAreReady", func(h *harness) {
		s := h.session(orders)
		later := h.startAs(refunds, "", func(r *store.Create) { r.Delay = time.Hour })
		owned := h.startFor(refunds)
		h.own(s, owned)
		h.equal("unserved", h.unserved(s), []event.RunID(nil))
		h.deliver(later.Run)
		h.equal("unserved, once something has come", h.unserved(s), []event.RunID{later.Run})
	}},
	{"U1_EachOfManyRunsThatNobodyServesComesUp", func(h *harness) {
		s := h.session(orders)
		want := map[event.RunID]bool{}
		for i := range 2*store.UnservedMost + 50 {
			l := h.startFor([]store.Route{refunds, {Queue: "slow", Workflow: "orders.audit"}}[i%2])
			want[l.Run] = true
		}
		for range 4 {
			got := h.unserved(s)
			if len(got) > store.UnservedMost {
				h.Errorf("a heartbeat names %d runs, want at most %d", len(got), store.UnservedMost)
			}
			for _, run := range got {
				delete(want, run)
			}
		}
		if len(want) > 0 {
			h.Errorf("%d runs were never named", len(want))
		}
	}},
	{"U1_APartitionNamesRunsOnceInAPauseOnly", func(h *harness) {
		s, other := h.session(orders), h.session(orders)
		l := h.startFor(refunds)
		h.equal("unserved", h.unserved(s), []event.RunID{l.Run})
		h.equal("unserved, asked at once", h.heartbeat(s).Unserved, []event.RunID(nil))
		h.equal("unserved, asked by another", h.heartbeat(other).Unserved, []event.RunID(nil))
	}},
}

var servesBehaviors = []behavior{
	{"U1_TheStoreTellsWhetherARouteIsServed", func(h *harness) {
		r, _ := store.As[store.Roster](h.store)
		serves := func(what string, want bool) {
			h.Helper()
			got, err := r.Serves(h.ctx, 0, refunds)
			h.check("ask who serves", err)
			h.equal(what, got, want)
		}
		serves("nobody", false)
		h.session(orders)
		serves("somebody else", false)
		s := h.session(orders, refunds)
		serves("somebody", true)
		h.clock.Advance(2 * ttl)
		serves("somebody whose lease is past", false)
		h.heartbeat(s)
		serves("somebody who was heard again", true)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		serves("nobody any more", false)
	}},
}
