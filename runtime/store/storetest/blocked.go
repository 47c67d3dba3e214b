package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// block gives an owned run back as one that the code of its session cannot replay.
func (h *harness) block(l *Log, fence store.Fence) {
	h.Helper()
	h.commit(l, withEffect(l.Commit(fence), store.EffectBlock, event.StatusBlocked))
}

// startBlocked starts a run and blocks it for a session.
func (h *harness) startBlocked(s store.SessionID) *Log {
	h.Helper()
	l, fence := h.startOwned(s)
	h.block(l, fence)
	return l
}

// incompatible returns the sessions that have blocked a run.
func (h *harness) incompatible(l *Log) []store.SessionID {
	h.Helper()
	return h.inspect().Runs[l.Run].Incompatible
}

// refused fails the test if a claim returns a run to the session.
func (h *harness) refused(what string, s store.SessionID) {
	h.Helper()
	h.equal("claimed by "+what, h.claim(s, 10), []store.ClaimedRun(nil))
}

var blockedBehaviors = []behavior{
	{"B1_ABlockNamesTheSession", func(h *harness) {
		s := h.session(orders)
		l := h.startBlocked(s)
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID{s})
	}},
	{"B1_ABlockerEndsWithItsSession", func(h *harness) {
		s, same := h.session(orders), h.session(orders)
		l := h.startBlocked(s)
		h.refused("the same code", same)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID(nil))
		h.state(l.Run, store.StateBlocked)
		h.block(l, h.own(same, l))
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID{same})
	}},
	{"B1_ABlockerEndsWithASessionThatIsRecovered", func(h *harness) {
		s, same := h.session(orders), h.session(orders)
		l := h.startBlocked(s)
		h.recoverDead(same)
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID(nil))
		h.own(same, l)
	}},
	{"B1_BlockersEndWithTheRun", func(h *harness) {
		s, other := h.session(orders), h.sessionWith("v2", orders)
		l := h.startBlocked(s)
		h.finish(l, h.own(other, l), event.StatusCompleted)
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID(nil))
		isA[*store.TerminalError](h, "claim run", h.claimRun(other, l))
	}},
	{"B1_TheNextRunOfTheChainHasNoBlockers", func(h *harness) {
		s, other := h.session(orders), h.sessionWith("v2", orders)
		l := h.startBlocked(s)
		c, next := l.Continue(h.own(other, l), nil)
		h.commit(l, c)
		h.equal("incompatible sessions", h.incompatible(next), []store.SessionID(nil))
		h.own(s, next)
	}},
	{"B2_ASessionWithOtherCodeThatIsThereAlreadyTakesABlockedRun", func(h *harness) {
		s, other := h.session(orders), h.sessionWith("v2", orders)
		l := h.startBlocked(s)
		got := h.claim(other, 10)
		h.equal("claimed", runsOf(got), []event.RunID{l.Run})
		h.equal("recoveries", got[0].Recoveries, 0)
		h.commit(l, l.Commit(got[0].Fence, l.Work()...))
	}},
	{"B2_ASessionWithOtherCodeThatComesLaterTakesABlockedRun", func(h *harness) {
		l := h.startBlocked(h.session(orders))
		h.state(l.Run, store.StateBlocked)
		h.own(h.sessionWith("v2", orders), l)
	}},
	{"B2_NoSessionWithTheSameCodeIsGivenIt", func(h *harness) {
		s := h.session(orders)
		l := h.startBlocked(s)
		h.unchanged("claims by the same code", func() {
			h.refused("the session itself", s)
		})
		h.refused("another session", h.session(orders))
		h.state(l.Run, store.StateBlocked)
	}},
	{"B2_EachCodeTriesARunOnceWhileTheSessionsLive", func(h *harness) {
		l := h.start()
		for _, code := range []string{"v1", "v2", "v3"} {
			h.block(l, h.own(h.sessionWith(code, orders), l))
		}
		h.equal("number of incompatible sessions", len(h.incompatible(l)), 3)
		for _, code := range []string{"v1", "v2", "v3"} {
			h.refused(code, h.sessionWith(code, orders))
		}
		h.own(h.sessionWith("v4", orders), l)
	}},
	{"B2_ClaimLeavesBlockedRunsOfOtherRoutes", func(h *harness) {
		l := h.startBlocked(h.session(orders))
		other := h.sessionWith("v2", refunds)
		h.equal("claimed", h.claim(other, 10, refunds, store.Route{Queue: "other", Workflow: orders.Workflow}), []store.ClaimedRun(nil))
		h.state(l.Run, store.StateBlocked)
	}},
	{"B2_ClaimMakesAtMostMaxBlockedRunsReady", func(h *harness) {
		s, other := h.session(orders), h.sessionWith("v2", orders)
		for range 3 {
			h.startBlocked(s)
		}
		h.unchanged("a claim of nothing", func() { h.claim(other, 0) })
		h.equal("claimed", len(h.claim(other, 2)), 2)
		h.equal("ready", len(h.inspect().Ready), 0)
		h.equal("claimed", len(h.claim(other, 2)), 1)
	}},
	{"B2_ARunThatIsReadyAgainIsBlockedForCodeThatCouldNotReplayIt", func(h *harness) {
		s, other := h.session(orders), h.sessionWith("v2", orders)
		l := h.startBlocked(s)
		h.park(l, h.own(other, l), time.Time{})
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID{s})
		h.deliver(l.Run)
		epoch := h.record(l.Run).Fence.Epoch
		h.refused("code that could not replay it", s)
		got := h.record(l.Run)
		h.equal("queue state", got.QueueState, store.StateBlocked)
		h.equal("status", got.Status, event.StatusBlocked)
		h.equal("epoch", got.Fence.Epoch, epoch)
		h.own(other, l)
	}},
	{"B2_AClaimGivesOutWhatComesAfterARunThatItBlocks", func(h *harness) {
		s, other := h.session(orders), h.sessionWith("v2", orders)
		l := h.startBlocked(s)
		h.commit(l, withEffect(l.Commit(h.own(other, l)), store.EffectYield, ""))
		next := h.start()
		h.equal("claimed", runsOf(h.claim(s, 2)), []event.RunID{next.Run})
		h.state(l.Run, store.StateBlocked)
	}},
	{"B2_ClaimRunGivesABlockedRunToAnySession", func(h *harness) {
		s := h.session(orders)
		l := h.startBlocked(s)
		h.check("claim run", h.claimRun(s, l))
		h.state(l.Run, store.StateOwned)
		h.equal("incompatible sessions", h.incompatible(l), []store.SessionID{s})
	}},
	{"B3_AWaitIsToldOfABlock", func(h *harness) {
		s := h.session(orders)
		h.toldOfOneOf(s, func(*Log, store.Fence) {}, func(l *Log, fence store.Fence) { h.block(l, fence) })
	}},
	{"B3_AWaitIsToldOfAReadyRunThatIsBlocked", func(h *harness) {
		s, third := h.session(orders), h.sessionWith("v3", orders)
		h.toldOfOneOf(s, func(l *Log, fence store.Fence) {
			h.block(l, fence)
			h.commit(l, withEffect(l.Commit(h.own(third, l)), store.EffectYield, ""))
			h.poll(s, l.route())
		}, func(l *Log, _ store.Fence) {
			h.equal("claimed by code that could not replay it", h.claim(s, 1, l.route()), []store.ClaimedRun(nil))
			h.state(l.Run, store.StateBlocked)
		})
	}},
}

// toldOfOneOf applies do to one run after another until a Wait of a session with other code returns
// a claim. It needs several runs because a test cannot observe whether a Wait has begun. Each run
// has a route of its own, so that no earlier wake can end the Wait.
func (h *harness) toldOfOneOf(s store.SessionID, before, do func(l *Log, fence store.Fence)) {
	h.Helper()
	var logs []*Log
	var routes []store.Route
	fences := map[event.RunID]store.Fence{}
	for i := range 20 {
		l := h.startAs(store.Route{Queue: "q", Workflow: string(rune('a' + i))}, "")
		logs, routes, fences[l.Run] = append(logs, l), append(routes, l.route()), h.own(s, l)
		before(l, fences[l.Run])
	}
	other := h.sessionWith("v2", routes...)
	h.poll(other, routes...)
	told := h.wait(waitFor(other, routes...))
	for _, l := range logs {
		do(l, fences[l.Run])
		select {
		case got := <-told.answer:
			h.check("wait", <-told.err)
			h.equal("claim", got.Claim, []int{0})
			return
		case <-time.After(patience / 20):
		}
	}
	h.Fatalf("wait: not told of any of %d blocked runs", len(logs))
}

func (l *Log) route() store.Route { return store.Route{Queue: l.Spec.Queue, Workflow: l.Spec.Workflow} }

func (h *harness) claimRun(s store.SessionID, l *Log) error {
	_, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
	return err
}
