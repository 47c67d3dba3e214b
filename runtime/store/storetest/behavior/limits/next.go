package limits

import (
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// finishNext ends a run with a commit that also claims up to most runs of the routes for session s.
// It returns the commit and the claimed runs.
func (h *harness) finishNext(l *suite.Log, fence store.Fence, s store.SessionID, most int, routes ...store.Route) (c store.Commit, got []store.ClaimedRun) {
	h.Helper()
	c = suite.WithEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
	c.Next = &store.Claim{Session: s, Token: h.IDs.Token(), Routes: routes, Max: most, Hinted: true}
	return c, h.Commit(l, c).Next.Runs
}

// holderAndWaiter returns a session, a run of the session that holds the only permit, and a run
// that cannot be claimed because it needs the same permit.
func (h *harness) holderAndWaiter() (s store.SessionID, holder, waiter *suite.Log, fence store.Fence) {
	h.Helper()
	h.Limit("gpu", 1)
	s = h.Session()
	holder, waiter = h.Start(using("gpu")), h.Start(using("gpu"))
	fence = h.one(s, holder)
	h.nothing("while another one has the permit", s)
	return s, holder, waiter, fence
}

// nextBehaviors test commits that also claim runs. A store may claim fewer runs than a commit
// requests, even none, but it must announce the runs that it leaves ready.
var nextBehaviors = []behavior{
	{"L6_ACommitThatGivesBackAPermitHandsItOnOnce", func(h *harness) {
		h.Limit("gpu", 1)
		s, other := h.Session(), h.Session()
		logs := h.starts(4, using("gpu"))
		fence := h.one(s, logs[0])
		for i, l := range logs[:3] {
			following := logs[i+1]
			h.nothing("while another one has the permit", other)
			c, got := h.finishNext(l, fence, s, 2, suite.Orders)
			if len(got) == 0 {
				fence = h.one(s, following)
			} else {
				h.Equal("handed on", suite.RunsOf(got), []event.RunID{following.Run})
				h.Equal("by the token", got[0].Fence.Token, c.Next.Token)
				fence = got[0].Fence
			}
			h.Counts("gpu", 1, 2-i)
			h.Equal("runs of the session", h.Heartbeat(s).Owned, 1)
			for _, again := range h.Try(c).Next.Runs {
				h.Equal("run that is handed on again", again.Run, following.Run)
				h.Equal("its fence", again.Fence, fence)
			}
			h.Counts("gpu", 1, 2-i)
		}
		h.Finish(logs[3], fence, event.StatusCompleted)
		h.Counts("gpu", 0, 0)
	}},
	{"L6_ACommitThatClaimsAnnouncesWhatItLeaves", func(h *harness) {
		h.Limit("gpu", 3)
		s, other := h.Session(), h.Session(suite.Orders, suite.Refunds)
		holder := h.Start(weighing(3))
		fence := h.one(s, holder)
		h.starts(2, using("gpu"))
		elsewhere := h.StartAs(suite.Refunds, "", using("gpu"))
		h.nothing("while one has all", other, suite.Orders, suite.Refunds)
		h.Poll(other, suite.Orders, suite.Refunds)
		_, got := h.finishNext(holder, fence, s, 1, suite.Orders)
		h.Equal("woken for the second one", h.Poll(other, suite.Orders).Claim, []int{0})
		h.Equal("runs of the route that begin", len(got)+len(h.Claim(other, 10)), 2)
		h.Equal("woken for another route", h.Poll(other, suite.Refunds).Claim, []int{0})
		h.one(other, elsewhere, suite.Refunds)
		h.Counts("gpu", 3, 0)
	}},
	{"L6_ACommitHandsNothingToASessionThatIsOver", func(h *harness) {
		s, first, second, fence := h.holderAndWaiter()
		gone := h.Session()
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, gone))
		_, got := h.finishNext(first, fence, gone, 2, suite.Orders)
		h.Equal("handed on", suite.RunsOf(got), []event.RunID(nil))
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.one(s, second)
	}},
	{"L6_ACommitThatIsRefusedHandsNothingOn", func(h *harness) {
		s, first, second, fence := h.holderAndWaiter()
		c := suite.WithEffect(first.Commit(store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}, first.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		c.Next = &store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 2, Hinted: true}
		got := h.Try(c)
		h.Is("commit", got.Err, store.ErrFenced)
		h.Equal("handed on", suite.RunsOf(got.Next.Runs), []event.RunID(nil))
		h.Counts("gpu", 1, 1)
		h.Finish(first, fence, event.StatusCompleted)
		h.one(s, second)
	}},
	{"L5_ACommitThatClaimsPassesNobody", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session(suite.Orders, suite.Refunds)
		first := h.StartAs(suite.Refunds, "", using("gpu"))
		fence := h.one(s, first, suite.Orders, suite.Refunds)
		h.Start(using("gpu"))
		h.nothing("while the first one has the permit", s, suite.Orders, suite.Refunds)
		high := h.StartAs(suite.Refunds, "", using("gpu"), func(c *store.Create) { c.Priority = 5 })
		ready := h.Start(func(c *store.Create) { c.Priority = 9 })
		_, got := h.finishNext(first, fence, s, 2, suite.Orders, suite.Refunds)
		h.Equal("in their order", suite.RunsOf(append(got, h.Claim(s, 2-len(got), suite.Orders, suite.Refunds)...)), []event.RunID{ready.Run, high.Run})
	}},
	{"L5_ACommitThatHandsOnCallsWhoComesNext", func(h *harness) {
		h.Limit("gpu", 2)
		h.Limit("disk", 1)
		s, other := h.Session(), h.Session()
		holder := h.Start(weighing(2))
		fence := h.one(s, holder)
		first := h.Start(using("gpu"))
		next := h.Start(using("gpu", "disk"))
		h.Start(using("gpu")) // this run queues behind the first
		h.nothing("while one has all", s)
		_, got := h.finishNext(holder, fence, s, 1, suite.Orders)
		h.Equal("the first one", suite.RunsOf(append(got, h.Claim(s, 1-len(got))...)), []event.RunID{first.Run})
		h.one(other, next)
		h.nothing("as all have begun that may", other)
		h.Counts("gpu", 2, 1)
	}},
	{"L6_ACommitHandsOnWhatItsSessionServes", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session(suite.Orders, suite.Refunds)
		first := h.StartAs(suite.Refunds, "", using("gpu"))
		fence := h.one(s, first, suite.Orders, suite.Refunds)
		second := h.Start(using("gpu"))
		h.nothing("while the first one has the permit", s, suite.Orders, suite.Refunds)
		_, got := h.finishNext(first, fence, s, 2, suite.Refunds)
		h.Equal("handed on", suite.RunsOf(got), []event.RunID(nil))
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.one(s, second)
	}},
	{"L5_ACommitThatContinuesPassesNotItself", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		urgent := func(c *store.Create) { c.Priority = 5 }
		first := h.Start(using("gpu"), urgent)
		fence := h.one(s, first)
		h.Start(using("gpu"))
		h.nothing("while the first one has the permit", s)
		c, next := first.Continue(fence, nil)
		using("gpu")(c.Continue)
		urgent(c.Continue)
		c.Next = &store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 2, Hinted: true}
		got := h.Commit(first, c).Next.Runs
		h.Equal("the urgent one goes on", suite.RunsOf(append(got, h.Claim(s, 2-len(got))...)), []event.RunID{next.Run})
	}},
	{"L5_ACommitThatClaimsPassesNobodyOfItsWorkflowID", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		id := h.WorkflowID("a")
		first := h.StartAs(suite.Orders, id, using("gpu"))
		fence := h.one(s, first)
		h.Start(using("gpu"))
		h.nothing("while the first one has the permit", s)
		urgent := h.StartAs(suite.Orders, id, using("gpu"), func(c *store.Create) { c.Priority, c.Active = 5, store.ActiveQueue })
		_, got := h.finishNext(first, fence, s, 2, suite.Orders)
		h.Equal("the urgent one comes first", suite.RunsOf(append(got, h.Claim(s, 2-len(got))...)), []event.RunID{urgent.Run})
	}},
	{"L2_ConcurrentCommitsThatClaimNeverExceed", func(h *harness) {
		const most, runs, workers = 3, 40, 8
		h.Limit("gpu", most)
		logs := map[event.RunID]*suite.Log{}
		for _, l := range h.starts(runs, using("gpu")) {
			logs[l.Run] = l
		}
		var begun, ended, exceeded, failed atomic.Int64
		note := func(begun int64) {
			if begun > most {
				exceeded.Add(1)
			}
		}
		var all sync.WaitGroup
		for range workers {
			s := h.Session()
			all.Go(func() {
				for ended.Load() < runs {
					got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 2})
					mine := got.Runs
					if note(begun.Add(int64(len(mine)))); err != nil {
						failed.Add(1)
						return
					}
					for len(mine) > 0 {
						l, fence := logs[mine[0].Run], mine[0].Fence
						c := suite.WithEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
						c.Next = &store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 1, Hinted: true}
						begun.Add(-1)
						answers, err := h.Store.Commit(h.Ctx, []store.Commit{c})
						if err != nil || answers[0].Err != nil {
							failed.Add(1)
							return
						}
						ended.Add(1)
						note(begun.Add(int64(len(answers[0].Next.Runs))))
						mine = append(mine[1:], answers[0].Next.Runs...)
					}
				}
			})
		}
		all.Wait()
		h.Equal("calls that have failed", failed.Load(), int64(0))
		h.Equal("times that more runs had begun than may", exceeded.Load(), int64(0))
		h.Equal("runs that have ended", ended.Load(), int64(runs))
		h.Counts("gpu", 0, 0)
	}},
}
