package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// delayed starts a run that is due in d.
func (h *harness) delayed(d time.Duration) *Log {
	h.Helper()
	return h.start(func(c *store.Create) { c.Delay = d })
}

func (h *harness) due(limit int) time.Time {
	h.Helper()
	next, err := h.store.Due(h.ctx, 0, limit)
	h.check("due", err)
	return next
}

var dueBehaviors = []behavior{
	{"DueMakesRunsReadyWhoseTimeHasCome", func(h *harness) {
		s := h.session()
		l := h.delayed(time.Minute)
		later := h.delayed(time.Hour)
		h.poll(s, orders)
		h.clock.Advance(time.Minute)
		h.equal("next", h.due(100), h.record(later.Run).Due)
		snap := h.inspect()
		h.equal("queue state", snap.Runs[l.Run].QueueState, store.StateReady)
		h.equal("due", snap.Runs[l.Run].Due, time.Time{})
		h.equal("timers", snap.Timers, map[event.RunID]time.Time{later.Run: snap.Runs[later.Run].Due})
		h.equal("wake", snap.Wakes[orders], true)
	}},
	{"DueLeavesRunsWhoseTimeHasNotCome", func(h *harness) {
		h.delayed(time.Minute)
		h.clock.Advance(time.Minute - time.Millisecond)
		h.unchanged("due", func() { h.due(100) })
	}},
	{"DueMakesReadyInTheOrderOfDueTimes", func(h *harness) {
		var want []event.RunID
		c, a, d, b := h.delayed(3*time.Minute), h.delayed(time.Minute), h.delayed(4*time.Minute), h.delayed(2*time.Minute)
		for _, l := range []*Log{a, b, c, d} {
			want = append(want, l.Run)
		}
		h.clock.Advance(time.Hour)
		h.due(100)
		h.equal("ready", h.inspect().Ready[orders], want)
	}},
	{"DueMakesAtMostLimitReady", func(h *harness) {
		h.equal("next of an empty store", h.due(10), time.Time{})
		a, b := h.delayed(time.Minute), h.delayed(2*time.Minute)
		h.clock.Advance(time.Hour)
		h.equal("next", h.due(0), h.record(a.Run).Due)
		h.state(a.Run, store.StateParked)
		h.equal("next", h.due(1), h.record(b.Run).Due)
		h.state(a.Run, store.StateReady)
		h.state(b.Run, store.StateParked)
		h.equal("next", h.due(1), time.Time{})
	}},
	{"ClaimMakesDueRunsReady", func(h *harness) {
		s := h.session()
		l := h.delayed(time.Minute)
		next := h.delayed(time.Hour)
		h.clock.Advance(2 * time.Minute)
		h.heartbeat(s)
		got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 10})
		h.check("claim", err)
		h.equal("claimed", runsOf(got.Runs), []event.RunID{l.Run})
		h.equal("next", got.Next, h.record(next.Run).Due)
	}},
	{"AClaimOfNothingMakesDueRunsReadyForOthers", func(h *harness) {
		s := h.session()
		l := h.delayed(time.Minute)
		h.clock.Advance(2 * time.Minute)
		h.heartbeat(s)
		h.claim(s, 0)
		h.state(l.Run, store.StateReady)
	}},
	{"ATimerSurvivesUntilItIsDueHoweverLong", func(h *harness) {
		l, fence := h.startOwned(h.session())
		due := h.clock.Now().AddDate(30, 0, 0)
		h.park(l, fence, due)
		h.equal("due", h.record(l.Run).Due, due)
		h.clock.Advance(29 * 365 * 24 * time.Hour)
		h.equal("next", h.due(100), due)
		h.state(l.Run, store.StateParked)
	}},
	{"NothingIsEarly", func(h *harness) {
		due := h.clock.Now().Add(time.Second + time.Microsecond)
		l := h.start(func(c *store.Create) { c.At = due })
		h.clock.Advance(time.Second)
		h.due(100)
		h.state(l.Run, store.StateParked)
		h.clock.Advance(time.Millisecond)
		h.due(100)
		h.state(l.Run, store.StateReady)
	}},
}
