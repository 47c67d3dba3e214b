package operators

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// ready returns the first ready runs of two routes.
func (h *harness) ready(limit int) []event.RunID {
	h.Helper()
	l, _ := store.As[store.ReadyLister](h.Store)
	runs, err := l.Ready(h.Ctx, 0, []store.Route{suite.Orders, suite.Refunds, {Queue: "none", Workflow: "none"}}, limit)
	h.Check("list ready runs", err)
	return runs
}

// claimed returns the runs that a claim of the same routes takes, in order.
func (h *harness) claimed(s store.SessionID) (runs []event.RunID) {
	h.Helper()
	for _, r := range h.Claim(s, 100, suite.Orders, suite.Refunds) {
		runs = append(runs, r.Run)
	}
	return runs
}

var readyBehaviors = []behavior{
	{"OPS7_ReadyRunsAreListedInTheOrderOfClaims", func(h *harness) {
		h.Equal("ready runs of an empty store", h.ready(10), []event.RunID(nil))
		var want []event.RunID
		for _, priority := range []int{2, 0, -1} {
			for i := range 4 {
				want = append(want, h.StartAs([]store.Route{suite.Orders, suite.Refunds}[i%2], "", func(r *store.Create) { r.Priority = priority }).Run)
				h.Clock.Advance(time.Millisecond)
			}
		}
		h.startFor(store.Route{Queue: "slow", Workflow: "orders.audit"})
		h.Equal("ready runs", h.ready(100), want)
		h.Equal("the first ready runs", h.ready(5), want[:5])
		h.Equal("claimed runs", h.claimed(h.Session(suite.Orders, suite.Refunds)), want)
		h.Equal("ready runs after the claim", h.ready(100), []event.RunID(nil))
	}},
	{"OPS7_OnlyReadyRunsAreListed", func(h *harness) {
		s := h.Session(suite.Orders)
		h.StartAs(suite.Orders, "", func(r *store.Create) { r.Delay = time.Hour })
		h.Own(s, h.startFor(suite.Orders))
		h.Equal("ready runs", h.ready(100), []event.RunID(nil))
	}},
	{"OPS7_AListOfReadyRunsChangesNothing", func(h *harness) {
		s := h.Session(suite.Orders)
		l := h.startFor(suite.Orders)
		for range 3 {
			h.Equal("ready runs", h.ready(100), []event.RunID{l.Run})
		}
		h.Equal("claimed runs", h.claimed(s), []event.RunID{l.Run})
	}},
}

var readyLimitBehaviors = []behavior{
	{"OPS7_OnlyTheFirstRunOfAQueueWithRoomIsListed", func(h *harness) {
		s := h.Session(suite.Orders)
		limiter, _ := store.As[store.Limiter](h.Store)
		gpu := store.LimitID{Name: "gpu"}
		h.Check("set limits", limiter.SetLimits(h.Ctx, 0, []store.SetLimit{{LimitID: gpu, Config: store.LimitConfig{AtOnce: 1}}}))
		var logs []*suite.Log
		for range 3 {
			logs = append(logs, h.StartAs(suite.Orders, "", func(c *store.Create) { c.Uses = []store.Use{{LimitID: gpu, Weight: 1}} }))
		}
		h.Equal("ready runs", h.ready(100), []event.RunID{logs[0].Run})
		claimed := h.Claim(s, 10)
		h.Equal("claimed runs", len(claimed), 1)
		h.Equal("ready runs without room", h.ready(100), []event.RunID(nil))
		h.startFor(suite.Orders)
		h.Finish(logs[0], claimed[0].Fence, event.StatusCompleted)
		h.Equal("number of ready runs with room again", len(h.ready(100)), 2)
		h.Equal("claimed runs", len(h.Claim(s, 10)), 2)
		h.Equal("ready runs after the claim", h.ready(100), []event.RunID(nil))
	}},
}
