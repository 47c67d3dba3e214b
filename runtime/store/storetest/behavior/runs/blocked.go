package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// startBlocked starts a run and blocks it for the code of a session.
func (h *harness) startBlocked(s store.SessionID) *suite.Log {
	h.Helper()
	l, fence := h.StartOwned(s)
	h.Block(l, fence)
	return l
}

// incompatible returns the sessions that have blocked a run, as the store records them.
func (h *harness) incompatible(l *suite.Log) []store.SessionID {
	h.Helper()
	return h.Inspect().Runs[l.Run].Incompatible
}

var blockedBehaviors = []behavior{
	{"B1_ABlockNamesTheSession", func(h *harness) {
		s := h.Session(suite.Orders)
		l := h.startBlocked(s)
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID{s})
	}},
	{"B1_ABlockerEndsWithItsSession", func(h *harness) {
		s, same := h.Session(suite.Orders), h.Session(suite.Orders)
		l := h.startBlocked(s)
		h.Refused("the same code", same)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID(nil))
		h.State(l.Run, store.StateBlocked)
		h.Block(l, h.Own(same, l))
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID{same})
	}},
	{"B1_ABlockerEndsWithASessionThatIsRecovered", func(h *harness) {
		s, same := h.Session(suite.Orders), h.Session(suite.Orders)
		l := h.startBlocked(s)
		h.RecoverDead(same)
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID(nil))
		h.Own(same, l)
	}},
	{"B1_BlockersEndWithTheRun", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		l := h.startBlocked(s)
		h.Finish(l, h.Own(other, l), event.StatusCompleted)
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID(nil))
		suite.IsA[*store.TerminalError](h.Harness, "claim run", h.ClaimRun(other, l))
	}},
	{"B1_TheNextRunOfTheChainHasNoBlockers", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		l := h.startBlocked(s)
		c, next := l.Continue(h.Own(other, l), nil)
		h.Commit(l, c)
		h.Equal("incompatible sessions", h.incompatible(next), []store.SessionID(nil))
		h.Own(s, next)
	}},
	{"B2_ASessionWithOtherCodeThatIsThereAlreadyTakesABlockedRun", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		l := h.startBlocked(s)
		got := h.Claim(other, 10)
		h.Equal("claimed", suite.RunsOf(got), []event.RunID{l.Run})
		h.Equal("recoveries", got[0].Recoveries, 0)
		h.Commit(l, l.Commit(got[0].Fence, l.Work()...))
	}},
	{"B2_ASessionWithOtherCodeThatComesLaterTakesABlockedRun", func(h *harness) {
		l := h.startBlocked(h.Session(suite.Orders))
		h.State(l.Run, store.StateBlocked)
		h.Own(h.SessionWith("v2", suite.Orders), l)
	}},
	{"B2_NoSessionWithTheSameCodeIsGivenIt", func(h *harness) {
		s := h.Session(suite.Orders)
		l := h.startBlocked(s)
		h.Unchanged("claims by the same code", func() {
			h.Refused("the session itself", s)
		})
		h.Refused("another session", h.Session(suite.Orders))
		h.State(l.Run, store.StateBlocked)
	}},
	{"B2_EachCodeTriesARunOnceWhileTheSessionsLive", func(h *harness) {
		l := h.Start()
		for _, code := range []string{"v1", "v2", "v3"} {
			h.Block(l, h.Own(h.SessionWith(code, suite.Orders), l))
		}
		h.Equal("number of incompatible sessions", len(h.incompatible(l)), 3)
		for _, code := range []string{"v1", "v2", "v3"} {
			h.Refused(code, h.SessionWith(code, suite.Orders))
		}
		h.Own(h.SessionWith("v4", suite.Orders), l)
	}},
	{"B2_ClaimLeavesBlockedRunsOfOtherRoutes", func(h *harness) {
		l := h.startBlocked(h.Session(suite.Orders))
		other := h.SessionWith("v2", suite.Refunds)
		h.Equal("claimed", h.Claim(other, 10, suite.Refunds, store.Route{Queue: "other", Workflow: suite.Orders.Workflow}), []store.ClaimedRun(nil))
		h.State(l.Run, store.StateBlocked)
	}},
	{"B2_ClaimMakesAtMostMaxBlockedRunsReady", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		for range 3 {
			h.startBlocked(s)
		}
		h.Unchanged("a claim of nothing", func() { h.Claim(other, 0) })
		h.Equal("claimed", len(h.Claim(other, 2)), 2)
		h.Equal("ready", len(h.Inspect().Ready), 0)
		h.Equal("claimed", len(h.Claim(other, 2)), 1)
	}},
	{"B2_ARunThatIsReadyAgainIsBlockedForCodeThatCouldNotReplayIt", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		l := h.startBlocked(s)
		h.Park(l, h.Own(other, l), time.Time{})
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID{s})
		h.Deliver(l.Run)
		epoch := h.Record(l.Run).Fence.Epoch
		h.Refused("code that could not replay it", s)
		got := h.Record(l.Run)
		h.Equal("queue state", got.QueueState, store.StateBlocked)
		h.Equal("status", got.Status, event.StatusBlocked)
		h.Equal("epoch", got.Fence.Epoch, epoch)
		h.Own(other, l)
	}},
	{"B2_AClaimGivesOutWhatComesAfterARunThatItBlocks", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		l := h.startBlocked(s)
		h.Commit(l, suite.WithEffect(l.Commit(h.Own(other, l)), store.EffectYield, ""))
		next := h.Start()
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 2)), []event.RunID{next.Run})
		h.State(l.Run, store.StateBlocked)
	}},
	{"B2_AClaimThatBlocksTheFirstRunsLeavesTheWakeOfTheOthers", func(h *harness) {
		s, other := h.Session(suite.Orders), h.SessionWith("v2", suite.Orders)
		h.readyAgain(s, other, 3)
		h.claimsOneWhenWoken(s, h.Start(), 4)
	}},
	{"B2_ClaimRunGivesABlockedRunToAnySession", func(h *harness) {
		s := h.Session(suite.Orders)
		l := h.startBlocked(s)
		h.Check("claim run", h.ClaimRun(s, l))
		h.State(l.Run, store.StateOwned)
		h.Equal("incompatible sessions", h.incompatible(l), []store.SessionID{s})
	}},
	{"B3_AWaitIsToldOfABlock", func(h *harness) {
		s := h.Session(suite.Orders)
		h.toldOfOneOf(s, func(*suite.Log, store.Fence) {}, func(l *suite.Log, fence store.Fence) { h.Block(l, fence) })
	}},
	{"B3_AWaitIsToldOfAReadyRunThatIsBlocked", func(h *harness) {
		s, third := h.Session(suite.Orders), h.SessionWith("v3", suite.Orders)
		h.toldOfOneOf(s, func(l *suite.Log, fence store.Fence) {
			h.Block(l, fence)
			h.Commit(l, suite.WithEffect(l.Commit(h.Own(third, l)), store.EffectYield, ""))
			h.Poll(s, l.Route())
		}, func(l *suite.Log, _ store.Fence) {
			h.Equal("claimed by code that could not replay it", h.Claim(s, 1, l.Route()), []store.ClaimedRun(nil))
			h.State(l.Run, store.StateBlocked)
		})
	}},
}

// readyAgain starts n runs that s has blocked and that other has made ready again.
func (h *harness) readyAgain(s, other store.SessionID, n int) {
	h.Helper()
	fences := map[*suite.Log]store.Fence{}
	for range n {
		l := h.startBlocked(s)
		fences[l] = h.Own(other, l)
	}
	for l, fence := range fences {
		h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectYield, ""))
	}
}

// claimsOneWhenWoken claims one run per wake until the session receives the run of l, which must
// take at most n claims.
func (h *harness) claimsOneWhenWoken(s store.SessionID, l *suite.Log, n int) {
	h.Helper()
	for range n {
		h.Equal("woken", h.Poll(s, l.Route()).Claim, []int{0})
		if got := h.Claim(s, 1, l.Route()); len(got) > 0 {
			h.Equal("claimed", suite.RunsOf(got), []event.RunID{l.Run})
			return
		}
	}
	h.Fatalf("claim: no run after %d claims", n)
}

// toldOfOneOf applies do to one run after another until a Wait of a session with other code returns
// a claim. Several runs are necessary because a test cannot observe whether a Wait has begun. Each
// run has its own route, so that no earlier wake can end the Wait.
func (h *harness) toldOfOneOf(s store.SessionID, before, do func(l *suite.Log, fence store.Fence)) {
	h.Helper()
	var logs []*suite.Log
	var routes []store.Route
	fences := map[event.RunID]store.Fence{}
	for i := range 20 {
		l := h.StartAs(store.Route{Queue: "q", Workflow: string(rune('a' + i))}, "")
		logs, routes, fences[l.Run] = append(logs, l), append(routes, l.Route()), h.Own(s, l)
		before(l, fences[l.Run])
	}
	other := h.SessionWith("v2", routes...)
	h.Poll(other, routes...)
	told := h.Wait(suite.WaitFor(other, routes...))
	for _, l := range logs {
		do(l, fences[l.Run])
		select {
		case got := <-told.Answer:
			h.Check("wait", <-told.Err)
			h.Equal("claim", got.Claim, []int{0})
			return
		case <-time.After(suite.Patience / 20):
		}
	}
	h.Fatalf("wait: not told of any of %d blocked runs", len(logs))
}
