package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// delayed creates a run that is due after d.
func (h *harness) delayed(d time.Duration) *suite.Log {
	h.Helper()
	return h.Start(func(c *store.Create) { c.Delay = d })
}

var dueBehaviors = []behavior{
	{"DueMakesRunsReadyWhoseTimeHasCome", func(h *harness) {
		s := h.Session()
		l := h.delayed(time.Minute)
		later := h.delayed(time.Hour)
		h.Poll(s, suite.Orders)
		h.Clock.Advance(time.Minute)
		h.Equal("next", h.Due(100), h.Record(later.Run).Due)
		snap := h.Inspect()
		h.Equal("queue state", snap.Runs[l.Run].QueueState, store.StateReady)
		h.Equal("due", snap.Runs[l.Run].Due, time.Time{})
		h.Equal("timers", snap.Timers, map[event.RunID]time.Time{later.Run: snap.Runs[later.Run].Due})
		h.Equal("wake", snap.Wakes[suite.Orders], true)
	}},
	{"DueLeavesRunsWhoseTimeHasNotCome", func(h *harness) {
		h.delayed(time.Minute)
		h.Clock.Advance(time.Minute - time.Millisecond)
		h.Unchanged("due", func() { h.Due(100) })
	}},
	{"DueMakesReadyInTheOrderOfDueTimes", func(h *harness) {
		var want []event.RunID
		c, a, d, b := h.delayed(3*time.Minute), h.delayed(time.Minute), h.delayed(4*time.Minute), h.delayed(2*time.Minute)
		for _, l := range []*suite.Log{a, b, c, d} {
			want = append(want, l.Run)
		}
		h.Clock.Advance(time.Hour)
		h.Due(100)
		h.Equal("ready", h.Inspect().Ready[suite.Orders], want)
	}},
	{"DueMakesAtMostLimitReady", func(h *harness) {
		h.Equal("next of an empty store", h.Due(10), time.Time{})
		a, b := h.delayed(time.Minute), h.delayed(2*time.Minute)
		h.Clock.Advance(time.Hour)
		h.Equal("next", h.Due(0), h.Record(a.Run).Due)
		h.State(a.Run, store.StateParked)
		h.Equal("next", h.Due(1), h.Record(b.Run).Due)
		h.State(a.Run, store.StateReady)
		h.State(b.Run, store.StateParked)
		h.Equal("next", h.Due(1), time.Time{})
	}},
	{"ClaimMakesDueRunsReady", func(h *harness) {
		s := h.Session()
		l := h.delayed(time.Minute)
		next := h.delayed(time.Hour)
		h.Clock.Advance(2 * time.Minute)
		h.Heartbeat(s)
		got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 10})
		h.Check("claim", err)
		h.Equal("claimed", suite.RunsOf(got.Runs), []event.RunID{l.Run})
		h.Equal("next", got.Next, h.Record(next.Run).Due)
	}},
	{"AClaimOfNothingMakesDueRunsReadyForOthers", func(h *harness) {
		s := h.Session()
		l := h.delayed(time.Minute)
		h.Clock.Advance(2 * time.Minute)
		h.Heartbeat(s)
		h.Claim(s, 0)
		h.State(l.Run, store.StateReady)
	}},
	{"ATimerSurvivesUntilItIsDueHoweverLong", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		due := h.Clock.Now().AddDate(30, 0, 0)
		h.Park(l, fence, due)
		h.Equal("due", h.Record(l.Run).Due, due)
		h.Clock.Advance(29 * 365 * 24 * time.Hour)
		h.Equal("next", h.Due(100), due)
		h.State(l.Run, store.StateParked)
	}},
	{"NothingIsEarly", func(h *harness) {
		due := h.Clock.Now().Add(time.Second + time.Microsecond)
		l := h.Start(func(c *store.Create) { c.At = due })
		h.Clock.Advance(time.Second)
		h.Due(100)
		h.State(l.Run, store.StateParked)
		h.Clock.Advance(time.Millisecond)
		h.Due(100)
		h.State(l.Run, store.StateReady)
	}},
}
