package storetest

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var claimBehaviors = []behavior{
	{"ClaimGivesTheRunToTheSession", func(h *harness) {
		s := h.session()
		wid := h.workflowID("order")
		l := h.startAs(orders, wid)
		token := h.ids.Token()
		got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: token, Routes: []store.Route{orders}, Max: 1})
		h.check("claim", err)
		fence := store.Fence{Epoch: h.record(l.Run).Fence.Epoch, Token: token}
		got.Runs = h.handedAll(got.Runs)
		h.equal("claimed", got, store.Claimed{Runs: []store.ClaimedRun{{
			Run: l.Run, WorkflowID: wid, Route: orders, Fence: fence, N: 1, Seq: 1, Last: l.Last,
		}}})
		snap := h.inspect()
		h.equal("queue state", snap.Runs[l.Run].QueueState, store.StateOwned)
		h.equal("owner", snap.Runs[l.Run].Owner, s)
		h.equal("fence", snap.Runs[l.Run].Fence, fence)
		h.equal("owned", snap.Owned, map[store.SessionID][]event.RunID{s: {l.Run}})
		h.equal("ready", snap.Ready, map[store.Route][]event.RunID(nil))
	}},
	{"F1_EachClaimCountsTheEpochUp", func(h *harness) {
		s := h.session()
		l := h.start()
		last := h.record(l.Run).Fence.Epoch
		for range 3 {
			fence := h.own(s, l)
			if fence.Epoch <= last {
				h.Fatalf("epoch: got %d after %d", fence.Epoch, last)
			}
			last = fence.Epoch
			h.commit(l, withEffect(l.Commit(fence), store.EffectYield, ""))
		}
	}},
	{"ClaimTellsWhatTheRunHas", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.commit(l, l.Commit(fence, l.Work()...))
		h.commit(l, withEffect(l.Commit(fence), store.EffectYield, ""))
		h.deliver(l.Run)
		got := h.claim(s, 1)[0]
		h.equal("frames", got.N, uint64(2))
		h.equal("last event", got.Seq, l.State.Seq)
		h.equal("last frame", got.Last, l.Last)
		h.equal("unread items", got.Unread, true)
		h.equal("runs with unread items", h.inspect().Unread, map[store.SessionID][]event.RunID{s: {l.Run}})
	}},
	{"ClaimTakesAtMostMax", func(h *harness) {
		for range 5 {
			h.start()
		}
		s := h.session()
		h.equal("claimed with max 0", len(h.claim(s, 0)), 0)
		h.equal("claimed with max 2", len(h.claim(s, 2)), 2)
		h.equal("claimed with max 10", len(h.claim(s, 10)), 3)
	}},
	{"ClaimIsFirstComeFirstServed", func(h *harness) {
		var logs []*Log
		for range 5 {
			logs = append(logs, h.start())
		}
		s := h.session()
		got := runsOf(h.claim(s, 2))
		got = append(got, runsOf(h.claim(s, 10))...)
		h.equal("claimed", got, runsOfLogs(logs))
	}},
	{"ClaimTakesHigherPrioritiesFirst", func(h *harness) {
		var logs []*Log
		for _, p := range []int{0, 5, -1, 5, 0, 100} {
			logs = append(logs, h.start(func(c *store.Create) { c.Priority = p }))
		}
		want := runsOfLogs([]*Log{logs[5], logs[1], logs[3], logs[0], logs[4], logs[2]})
		h.equal("ready", h.inspect().Ready[orders], want)
		s := h.session()
		var got []event.RunID
		for range logs {
			got = append(got, runsOf(h.claim(s, 1))...)
		}
		h.equal("claimed", got, want)
	}},
	{"ClaimTakesOnlyTheRoutesAskedFor", func(h *harness) {
		a := h.start()
		b := h.startAs(refunds, "")
		h.startAs(store.Route{Queue: refunds.Queue, Workflow: orders.Workflow}, "")
		s := h.session()
		h.equal("claimed of no route", runsOf(h.claim(s, 10, store.Route{Queue: "none", Workflow: "none"})), []event.RunID(nil))
		h.equal("claimed of refunds", runsOf(h.claim(s, 10, refunds)), []event.RunID{b.Run})
		h.equal("claimed of orders", runsOf(h.claim(s, 10, orders)), []event.RunID{a.Run})
	}},
	{"ClaimTakesFromSeveralRoutes", func(h *harness) {
		want := []event.RunID{h.start().Run, h.startAs(refunds, "").Run, h.start().Run}
		slices.Sort(want)
		got := runsOf(h.claim(h.session(), 10, refunds, orders))
		slices.Sort(got)
		h.equal("claimed", got, want)
	}},
	{"K1_ClaimNeverGivesARunTwice", func(h *harness) {
		h.start()
		h.equal("first", len(h.claim(h.session(), 10)), 1)
		h.equal("second", len(h.claim(h.session(), 10)), 0)
	}},
	{"ClaimOfASessionThatIsNotThereIsExpired", func(h *harness) {
		h.start()
		h.unchanged("a claim by nobody", func() {
			_, err := h.store.Claim(h.ctx, store.Claim{Session: "nobody", Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 1})
			h.is("claim", err, store.ErrExpired)
		})
	}},
	{"K2_ClaimSetsTheWakeAgainForWhatItLeaves", func(h *harness) {
		s := h.session()
		h.start()
		h.start()
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.equal("woken again", h.poll(s, orders).Claim, []int(nil))
		h.claim(s, 1)
		h.equal("wake", h.inspect().Wakes[orders], true)
		h.equal("woken after the claim", h.poll(s, orders).Claim, []int{0})
	}},
	{"ReleaseMakesReadyUnderANewFence", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		got := h.record(l.Run)
		h.equal("queue state", got.QueueState, store.StateReady)
		h.equal("fence", got.Fence, store.Fence{Epoch: fence.Epoch + 1})
		h.equal("recoveries", got.Recoveries, 0)
		h.equal("owned", h.heartbeat(s).Owned, 0)
		h.equal("wake", h.inspect().Wakes[orders], true)
	}},
	{"F2_ReleaseFencesTheOwner", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		h.unchanged("what comes after the release", func() {
			h.is("commit", h.try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
			h.is("second release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
		})
	}},
	{"F1_ReleaseNeedsEpochAndToken", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.unchanged("releases with a wrong fence", func() {
			h.is("other token", h.store.Release(h.ctx, l.Run, store.Fence{Epoch: fence.Epoch, Token: h.ids.Token()}), store.ErrFenced)
			h.is("other epoch", h.store.Release(h.ctx, l.Run, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}), store.ErrFenced)
			h.is("unknown run", h.store.Release(h.ctx, h.runID(), fence), store.ErrFenced)
		})
	}},
	{"ReleasePutsTheRunBehindTheOthers", func(h *harness) {
		a := h.start()
		s := h.session()
		fence := h.own(s, a)
		b := h.start()
		h.check("release", h.store.Release(h.ctx, a.Run, fence))
		h.equal("claimed", runsOf(h.claim(s, 10)), []event.RunID{b.Run, a.Run})
	}},
	{"ClaimRunTakesReadyParkedAndBlockedRuns", func(h *harness) {
		s := h.session()
		ready := h.start()
		parked, fence := h.startOwnedAs(s, refunds)
		h.park(parked, fence, h.clock.Now().Add(ttl))
		blocked, fence := h.startOwnedAs(s, refunds)
		h.block(blocked, fence)
		for _, l := range []*Log{ready, parked, blocked} {
			before := h.record(l.Run)
			token := h.ids.Token()
			got, err := h.store.ClaimRun(h.ctx, 0, s, token, l.Run)
			h.check("claim run", err)
			h.equal("claimed", h.handed(got), store.ClaimedRun{
				Run: l.Run, Route: before.Route, Fence: store.Fence{Epoch: before.Fence.Epoch + 1, Token: token},
				N: before.N, Seq: before.Seq, Last: before.Last,
			})
			now := h.record(l.Run)
			h.equal("queue state", now.QueueState, store.StateOwned)
			h.equal("owner", now.Owner, s)
			h.commit(l, l.Commit(got.Fence, l.Work()...))
		}
		snap := h.inspect()
		h.equal("timers", len(snap.Timers), 0)
		h.equal("ready", len(snap.Ready), 0)
	}},
	{"ClaimRunTellsWhyItCannot", func(h *harness) {
		s := h.session()
		wid := h.workflowID("order")
		owned := h.startAs(orders, wid)
		h.own(s, owned)
		queued, _ := h.lineUp(wid)
		ended := h.start()
		h.finish(ended, h.own(s, ended), event.StatusFailed)
		h.unchanged("claims that are refused", func() {
			try := func(s store.SessionID, run event.RunID) error {
				_, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), run)
				return err
			}
			h.is("owned run", try(s, owned.Run), store.ErrOwned)
			h.is("queued run", try(s, queued.Run), store.ErrNotClaimable)
			h.is("unknown run", try(s, h.runID()), store.ErrRunNotFound)
			h.is("expired session", try("nobody", ended.Run), store.ErrExpired)
			e := as[*store.TerminalError](h, "ended run", try(s, ended.Run))
			h.equal("error", *e, store.TerminalError{Run: ended.Run, Status: event.StatusFailed})
		})
	}},
	{"ClaimRunTellsOfUnreadItems", func(h *harness) {
		l := h.start()
		h.deliver(l.Run)
		s := h.session()
		got, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
		h.check("claim run", err)
		h.equal("unread items", got.Unread, true)
		h.equal("unread items in the heartbeat", h.heartbeat(s).Unread, []event.RunID{l.Run})
	}},
}

// startOwnedAs is startOwned for another route.
func (h *harness) startOwnedAs(s store.SessionID, route store.Route) (*Log, store.Fence) {
	h.Helper()
	l := h.startAs(route, "")
	return l, h.own(s, l)
}
