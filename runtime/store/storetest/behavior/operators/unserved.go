package operators

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// startFor starts a run of a route.
func (h *harness) startFor(c store.Route) *suite.Log {
	h.Helper()
	return h.StartAs(c, "")
}

// unserved returns the unserved runs that a heartbeat names, sorted. It first advances the clock
// far enough that a store may name the same runs again.
func (h *harness) unserved(s store.SessionID) []event.RunID {
	h.Helper()
	h.Clock.Advance(store.CountedPause(suite.TTL))
	found := h.Heartbeat(s).Unserved
	slices.Sort(found)
	return found
}

var unservedBehaviors = []behavior{
	{"U1_AHeartbeatNamesReadyRunsThatNobodyServes", func(h *harness) {
		s := h.Session(suite.Orders)
		h.startFor(suite.Orders)
		one, two := h.startFor(suite.Refunds), h.startFor(suite.Refunds)
		want := []event.RunID{one.Run, two.Run}
		slices.Sort(want)
		h.Equal("unserved", h.unserved(s), want)
		h.Equal("unserved, asked again", h.unserved(s), want)
	}},
	{"U1_AHeartbeatNamesNoRunThatAnotherSessionServes", func(h *harness) {
		s, other := h.Session(suite.Orders), h.Session(suite.Orders, suite.Refunds)
		h.startFor(suite.Refunds)
		h.Equal("unserved", h.unserved(s), []event.RunID(nil))
		h.Equal("unserved", h.unserved(other), []event.RunID(nil))
	}},
	{"U1_AHeartbeatNamesRunsWhoseSessionHasLeft", func(h *harness) {
		s, other := h.Session(suite.Orders), h.Session(suite.Refunds)
		l := h.startFor(suite.Refunds)
		h.Equal("unserved", h.unserved(s), []event.RunID(nil))
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, other))
		h.Equal("unserved", h.unserved(s), []event.RunID{l.Run})
	}},
	{"U1_AHeartbeatNamesRunsWhoseSessionIsSilent", func(h *harness) {
		s := h.Session(suite.Orders)
		h.Session(suite.Refunds)
		l := h.startFor(suite.Refunds)
		h.Clock.Advance(suite.TTL - store.CountedPause(suite.TTL))
		h.Equal("unserved", h.unserved(s), []event.RunID(nil))
		h.Equal("unserved when the lease is past", h.unserved(s), []event.RunID{l.Run})
	}},
	{"U1_ASessionThatIsOpenedAgainServesWhatItSaysThen", func(h *harness) {
		s := h.Session(suite.Orders)
		other := store.Session{ID: h.IDs.Session(), TTL: suite.TTL, Routes: []store.Route{suite.Refunds}}
		h.Check("open session", h.Store.OpenSession(h.Ctx, other))
		l := h.startFor(suite.Refunds)
		other.Routes = []store.Route{suite.Orders}
		h.Check("open session again", h.Store.OpenSession(h.Ctx, other))
		h.Equal("unserved", h.unserved(s), []event.RunID{l.Run})
	}},
	{"U1_AHeartbeatNamesOnlyRunsThatAreReady", func(h *harness) {
		s := h.Session(suite.Orders)
		later := h.StartAs(suite.Refunds, "", func(r *store.Create) { r.Delay = time.Hour })
		owned := h.startFor(suite.Refunds)
		h.Own(s, owned)
		h.Equal("unserved", h.unserved(s), []event.RunID(nil))
		h.Deliver(later.Run)
		h.Equal("unserved, once something has come", h.unserved(s), []event.RunID{later.Run})
	}},
	{"U1_EachOfManyRunsThatNobodyServesComesUp", func(h *harness) {
		s := h.Session(suite.Orders)
		want := map[event.RunID]bool{}
		for i := range 2*store.UnservedMost + 50 {
			l := h.startFor([]store.Route{suite.Refunds, {Queue: "slow", Workflow: "orders.audit"}}[i%2])
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
		s, other := h.Session(suite.Orders), h.Session(suite.Orders)
		l := h.startFor(suite.Refunds)
		h.Equal("unserved", h.unserved(s), []event.RunID{l.Run})
		h.Equal("unserved, asked at once", h.Heartbeat(s).Unserved, []event.RunID(nil))
		h.Equal("unserved, asked by another", h.Heartbeat(other).Unserved, []event.RunID(nil))
	}},
}

var servesBehaviors = []behavior{
	{"U1_TheStoreTellsWhetherARouteIsServed", func(h *harness) {
		r, _ := store.As[store.Roster](h.Store)
		serves := func(what string, want bool) {
			h.Helper()
			got, err := r.Serves(h.Ctx, 0, suite.Refunds)
			h.Check("ask who serves", err)
			h.Equal(what, got, want)
		}
		serves("nobody", false)
		h.Session(suite.Orders)
		serves("somebody else", false)
		s := h.Session(suite.Orders, suite.Refunds)
		serves("somebody", true)
		h.Clock.Advance(2 * suite.TTL)
		serves("somebody whose lease is past", false)
		h.Heartbeat(s)
		serves("somebody who was heard again", true)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		serves("nobody any more", false)
	}},
}
