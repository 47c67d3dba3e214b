package runs

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var claimBehaviors = []behavior{
	{"ClaimGivesTheRunToTheSession", func(h *harness) {
		s := h.Session()
		wid := h.WorkflowID("order")
		l := h.StartAs(suite.Orders, wid)
		token := h.IDs.Token()
		got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: token, Routes: []store.Route{suite.Orders}, Max: 1})
		h.Check("claim", err)
		fence := store.Fence{Epoch: h.Record(l.Run).Fence.Epoch, Token: token}
		got.Runs = h.HandedAll(got.Runs)
		h.Equal("claimed", got, store.Claimed{Runs: []store.ClaimedRun{{
			Run: l.Run, WorkflowID: wid, Route: suite.Orders, Fence: fence, N: 1, Seq: 1, Last: l.Last,
		}}})
		snap := h.Inspect()
		h.Equal("queue state", snap.Runs[l.Run].QueueState, store.StateOwned)
		h.Equal("owner", snap.Runs[l.Run].Owner, s)
		h.Equal("fence", snap.Runs[l.Run].Fence, fence)
		h.Equal("owned", snap.Owned, map[store.SessionID][]event.RunID{s: {l.Run}})
		h.Equal("ready", snap.Ready, map[store.Route][]event.RunID(nil))
	}},
	{"F1_EachClaimCountsTheEpochUp", func(h *harness) {
		s := h.Session()
		l := h.Start()
		last := h.Record(l.Run).Fence.Epoch
		for range 3 {
			fence := h.Own(s, l)
			if fence.Epoch <= last {
				h.Fatalf("epoch: got %d after %d", fence.Epoch, last)
			}
			last = fence.Epoch
			h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectYield, ""))
		}
	}},
	{"ClaimTellsWhatTheRunHas", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Commit(l, l.Commit(fence, l.Work()...))
		h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectYield, ""))
		h.Deliver(l.Run)
		got := h.Claim(s, 1)[0]
		h.Equal("frames", got.N, uint64(2))
		h.Equal("last event", got.Seq, l.State.Seq)
		h.Equal("last frame", got.Last, l.Last)
		h.Equal("unread items", got.Unread, true)
		h.Equal("runs with unread items", h.Inspect().Unread, map[store.SessionID][]event.RunID{s: {l.Run}})
	}},
	{"ClaimTakesAtMostMax", func(h *harness) {
		for range 5 {
			h.Start()
		}
		s := h.Session()
		h.Equal("claimed with max 0", len(h.Claim(s, 0)), 0)
		h.Equal("claimed with max 2", len(h.Claim(s, 2)), 2)
		h.Equal("claimed with max 10", len(h.Claim(s, 10)), 3)
	}},
	{"ClaimIsFirstComeFirstServed", func(h *harness) {
		var logs []*suite.Log
		for range 5 {
			logs = append(logs, h.Start())
		}
		s := h.Session()
		got := suite.RunsOf(h.Claim(s, 2))
		got = append(got, suite.RunsOf(h.Claim(s, 10))...)
		h.Equal("claimed", got, suite.RunsOfLogs(logs))
	}},
	{"ClaimTakesHigherPrioritiesFirst", func(h *harness) {
		var logs []*suite.Log
		for _, p := range []int{0, 5, -1, 5, 0, 100} {
			logs = append(logs, h.Start(func(c *store.Create) { c.Priority = p }))
		}
		want := suite.RunsOfLogs([]*suite.Log{logs[5], logs[1], logs[3], logs[0], logs[4], logs[2]})
		h.Equal("ready", h.Inspect().Ready[suite.Orders], want)
		s := h.Session()
		var got []event.RunID
		for range logs {
			got = append(got, suite.RunsOf(h.Claim(s, 1))...)
		}
		h.Equal("claimed", got, want)
	}},
	{"ClaimTakesOnlyTheRoutesAskedFor", func(h *harness) {
		a := h.Start()
		b := h.StartAs(suite.Refunds, "")
		h.StartAs(store.Route{Queue: suite.Refunds.Queue, Workflow: suite.Orders.Workflow}, "")
		s := h.Session()
		h.Equal("claimed of no route", suite.RunsOf(h.Claim(s, 10, store.Route{Queue: "none", Workflow: "none"})), []event.RunID(nil))
		h.Equal("claimed of refunds", suite.RunsOf(h.Claim(s, 10, suite.Refunds)), []event.RunID{b.Run})
		h.Equal("claimed of orders", suite.RunsOf(h.Claim(s, 10, suite.Orders)), []event.RunID{a.Run})
	}},
	{"ClaimTakesFromSeveralRoutes", func(h *harness) {
		want := []event.RunID{h.Start().Run, h.StartAs(suite.Refunds, "").Run, h.Start().Run}
		slices.Sort(want)
		got := suite.RunsOf(h.Claim(h.Session(), 10, suite.Refunds, suite.Orders))
		slices.Sort(got)
		h.Equal("claimed", got, want)
	}},
	{"K1_ClaimNeverGivesARunTwice", func(h *harness) {
		h.Start()
		h.Equal("first", len(h.Claim(h.Session(), 10)), 1)
		h.Equal("second", len(h.Claim(h.Session(), 10)), 0)
	}},
	{"ClaimOfASessionThatIsNotThereIsExpired", func(h *harness) {
		h.Start()
		h.Unchanged("a claim by nobody", func() {
			_, err := h.Store.Claim(h.Ctx, store.Claim{Session: "nobody", Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 1})
			h.Is("claim", err, store.ErrExpired)
		})
	}},
	{"K2_ClaimSetsTheWakeAgainForWhatItLeaves", func(h *harness) {
		s := h.Session()
		h.Start()
		h.Start()
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.Equal("woken again", h.Poll(s, suite.Orders).Claim, []int(nil))
		h.Claim(s, 1)
		h.Equal("wake", h.Inspect().Wakes[suite.Orders], true)
		h.Equal("woken after the claim", h.Poll(s, suite.Orders).Claim, []int{0})
	}},
	{"ReleaseMakesReadyUnderANewFence", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		got := h.Record(l.Run)
		h.Equal("queue state", got.QueueState, store.StateReady)
		h.Equal("fence", got.Fence, store.Fence{Epoch: fence.Epoch + 1})
		h.Equal("recoveries", got.Recoveries, 0)
		h.Equal("owned", h.Heartbeat(s).Owned, 0)
		h.Equal("wake", h.Inspect().Wakes[suite.Orders], true)
	}},
	{"F2_ReleaseFencesTheOwner", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		h.Unchanged("what comes after the release", func() {
			h.Is("commit", h.Try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
			h.Is("second release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
		})
	}},
	{"F1_ReleaseNeedsEpochAndToken", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Unchanged("releases with a wrong fence", func() {
			h.Is("other token", h.Store.Release(h.Ctx, l.Run, store.Fence{Epoch: fence.Epoch, Token: h.IDs.Token()}), store.ErrFenced)
			h.Is("other epoch", h.Store.Release(h.Ctx, l.Run, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}), store.ErrFenced)
			h.Is("unknown run", h.Store.Release(h.Ctx, h.RunID(), fence), store.ErrFenced)
		})
	}},
	{"ReleasePutsTheRunBehindTheOthers", func(h *harness) {
		a := h.Start()
		s := h.Session()
		fence := h.Own(s, a)
		b := h.Start()
		h.Check("release", h.Store.Release(h.Ctx, a.Run, fence))
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{b.Run, a.Run})
	}},
	{"ClaimRunTakesReadyParkedAndBlockedRuns", func(h *harness) {
		s := h.Session()
		ready := h.Start()
		parked, fence := h.StartOwnedAs(s, suite.Refunds)
		h.Park(parked, fence, h.Clock.Now().Add(suite.TTL))
		blocked, fence := h.StartOwnedAs(s, suite.Refunds)
		h.Block(blocked, fence)
		for _, l := range []*suite.Log{ready, parked, blocked} {
			before := h.Record(l.Run)
			token := h.IDs.Token()
			got, err := h.Store.ClaimRun(h.Ctx, 0, s, token, l.Run)
			h.Check("claim run", err)
			h.Equal("claimed", h.Handed(got), store.ClaimedRun{
				Run: l.Run, Route: before.Route, Fence: store.Fence{Epoch: before.Fence.Epoch + 1, Token: token},
				N: before.N, Seq: before.Seq, Last: before.Last,
			})
			now := h.Record(l.Run)
			h.Equal("queue state", now.QueueState, store.StateOwned)
			h.Equal("owner", now.Owner, s)
			h.Commit(l, l.Commit(got.Fence, l.Work()...))
		}
		snap := h.Inspect()
		h.Equal("timers", len(snap.Timers), 0)
		h.Equal("ready", len(snap.Ready), 0)
	}},
	{"ClaimRunTellsWhyItCannot", func(h *harness) {
		s := h.Session()
		wid := h.WorkflowID("order")
		owned := h.StartAs(suite.Orders, wid)
		h.Own(s, owned)
		queued, _ := h.LineUp(wid)
		ended := h.Start()
		h.Finish(ended, h.Own(s, ended), event.StatusFailed)
		h.Unchanged("claims that are refused", func() {
			try := func(s store.SessionID, run event.RunID) error {
				_, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), run)
				return err
			}
			h.Is("owned run", try(s, owned.Run), store.ErrOwned)
			h.Is("queued run", try(s, queued.Run), store.ErrNotClaimable)
			h.Is("unknown run", try(s, h.RunID()), store.ErrRunNotFound)
			h.Is("expired session", try("nobody", ended.Run), store.ErrExpired)
			e := suite.As[*store.TerminalError](h.Harness, "ended run", try(s, ended.Run))
			h.Equal("error", *e, store.TerminalError{Run: ended.Run, Status: event.StatusFailed})
		})
	}},
	{"ClaimRunTellsOfUnreadItems", func(h *harness) {
		l := h.Start()
		h.Deliver(l.Run)
		s := h.Session()
		got, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
		h.Check("claim run", err)
		h.Equal("unread items", got.Unread, true)
		h.Equal("unread items in the heartbeat", h.Heartbeat(s).Unread, []event.RunID{l.Run})
	}},
}
