package storetest

import (
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// finishNext ends a run by a commit that claims up to most runs of the routes for session s. It
// returns the commit and the runs that were claimed.
func (h *harness) finishNext(l *Log, fence store.Fence, s store.SessionID, most int, routes ...store.Route) (c store.Commit, got []store.ClaimedRun) {
	h.Helper()
	c = withEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
	c.Next = &store.Claim{Session: s, Token: h.ids.Token(), Routes: routes, Max: most, Hinted: true}
	return c, h.commit(l, c).Next.Runs
}

// holderAndWaiter returns a session, a run of it that holds the only permit, and a run that the
// session could not claim because it needs that permit.
func (h *harness) holderAndWaiter() (s store.SessionID, holder, waiter *Log, fence store.Fence) {
	h.Helper()
	h.limit("gpu", 1)
	s = h.session()
	holder, waiter = h.start(using("gpu")), h.start(using("gpu"))
	fence = h.one(s, holder)
	h.nothing("while another one has the permit", s)
	return s, holder, waiter, fence
}

// nextBehaviors test commits that claim. A store need not claim anything for a commit, but it must
// announce the runs that it leaves ready.
var nextBehaviors = []behavior{
	{"L6_ACommitThatGivesBackAPermitHandsItOnOnce", func(h *harness) {
		h.limit("gpu", 1)
		s, other := h.session(), h.session()
		logs := h.starts(4, using("gpu"))
		fence := h.one(s, logs[0])
		for i, l := range logs[:3] {
			following := logs[i+1]
			h.nothing("while another one has the permit", other)
			c, got := h.finishNext(l, fence, s, 2, orders)
			if len(got) == 0 {
				fence = h.one(s, following)
			} else {
				h.equal("handed on", runsOf(got), []event.RunID{following.Run})
				h.equal("by the token", got[0].Fence.Token, c.Next.Token)
				fence = got[0].Fence
			}
			h.counts("gpu", 1, 2-i)
			h.equal("runs of the session", h.heartbeat(s).Owned, 1)
			for _, again := range h.try(c).Next.Runs {
				h.equal("run that is handed on again", again.Run, following.Run)
				h.equal("its fence", again.Fence, fence)
			}
			h.counts("gpu", 1, 2-i)
		}
		h.finish(logs[3], fence, event.StatusCompleted)
		h.counts("gpu", 0, 0)
	}},
	{"L6_ACommitThatClaimsAnnouncesWhatItLeaves", func(h *harness) {
		h.limit("gpu", 3)
		s, other := h.session(), h.session(orders, refunds)
		holder := h.start(weighing(3))
		fence := h.one(s, holder)
		h.starts(2, using("gpu"))
		elsewhere := h.startAs(refunds, "", using("gpu"))
		h.nothing("while one has all", other, orders, refunds)
		h.poll(other, orders, refunds)
		_, got := h.finishNext(holder, fence, s, 1, orders)
		h.equal("woken for the second one", h.poll(other, orders).Claim, []int{0})
		h.equal("runs of the route that begin", len(got)+len(h.claim(other, 10)), 2)
		h.equal("woken for another route", h.poll(other, refunds).Claim, []int{0})
		h.one(other, elsewhere, refunds)
		h.counts("gpu", 3, 0)
	}},
	{"L6_ACommitHandsNothingToASessionThatIsOver", func(h *harness) {
		s, first, second, fence := h.holderAndWaiter()
		gone := h.session()
		h.check("close session", h.store.CloseSession(h.ctx, 0, gone))
		_, got := h.finishNext(first, fence, gone, 2, orders)
		h.equal("handed on", runsOf(got), []event.RunID(nil))
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.one(s, second)
	}},
	{"L6_ACommitThatIsRefusedHandsNothingOn", func(h *harness) {
		s, first, second, fence := h.holderAndWaiter()
		c := withEffect(first.Commit(store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}, first.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		c.Next = &store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 2, Hinted: true}
		got := h.try(c)
		h.is("commit", got.Err, store.ErrFenced)
		h.equal("handed on", runsOf(got.Next.Runs), []event.RunID(nil))
		h.counts("gpu", 1, 1)
		h.finish(first, fence, event.StatusCompleted)
		h.one(s, second)
	}},
	{"L5_ACommitThatClaimsPassesNobody", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session(orders, refunds)
		first := h.startAs(refunds, "", using("gpu"))
		fence := h.one(s, first, orders, refunds)
		h.start(using("gpu"))
		h.nothing("while the first one has the permit", s, orders, refunds)
		high := h.startAs(refunds, "", using("gpu"), func(c *store.Create) { c.Priority = 5 })
		ready := h.start(func(c *store.Create) { c.Priority = 9 })
		_, got := h.finishNext(first, fence, s, 2, orders, refunds)
		h.equal("in their order", runsOf(append(got, h.claim(s, 2-len(got), orders, refunds)...)), []event.RunID{ready.Run, high.Run})
	}},
	{"L5_ACommitThatHandsOnCallsWhoComesNext", func(h *harness) {
		h.limit("gpu", 2)
		h.limit("disk", 1)
		s, other := h.session(), h.session()
		holder := h.start(weighing(2))
		fence := h.one(s, holder)
		first := h.start(using("gpu"))
		next := h.start(using("gpu", "disk"))
		h.start(using("gpu")) // queued behind the first
		h.nothing("while one has all", s)
		_, got := h.finishNext(holder, fence, s, 1, orders)
		h.equal("the first one", runsOf(append(got, h.claim(s, 1-len(got))...)), []event.RunID{first.Run})
		h.one(other, next)
		h.nothing("as all have begun that may", other)
		h.counts("gpu", 2, 1)
	}},
	{"L6_ACommitHandsOnWhatItsSessionServes", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session(orders, refunds)
		first := h.startAs(refunds, "", using("gpu"))
		fence := h.one(s, first, orders, refunds)
		second := h.start(using("gpu"))
		h.nothing("while the first one has the permit", s, orders, refunds)
		_, got := h.finishNext(first, fence, s, 2, refunds)
		h.equal("handed on", runsOf(got), []event.RunID(nil))
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.one(s, second)
	}},
	{"L5_ACommitThatContinuesPassesNotItself", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		urgent := func(c *store.Create) { c.Priority = 5 }
		first := h.start(using("gpu"), urgent)
		fence := h.one(s, first)
		h.start(using("gpu"))
		h.nothing("while the first one has the permit", s)
		c, next := first.Continue(fence, nil)
		using("gpu")(c.Continue)
		urgent(c.Continue)
		c.Next = &store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 2, Hinted: true}
		got := h.commit(first, c).Next.Runs
		h.equal("the urgent one goes on", runsOf(append(got, h.claim(s, 2-len(got))...)), []event.RunID{next.Run})
	}},
	{"L5_ACommitThatClaimsPassesNobodyOfItsWorkflowID", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		id := h.workflowID("a")
		first := h.startAs(orders, id, using("gpu"))
		fence := h.one(s, first)
		h.start(using("gpu"))
		h.nothing("while the first one has the permit", s)
		urgent := h.startAs(orders, id, using("gpu"), func(c *store.Create) { c.Priority, c.Active = 5, store.ActiveQueue })
		_, got := h.finishNext(first, fence, s, 2, orders)
		h.equal("the urgent one comes first", runsOf(append(got, h.claim(s, 2-len(got))...)), []event.RunID{urgent.Run})
	}},
	{"L2_ConcurrentCommitsThatClaimNeverExceed", func(h *harness) {
		const most, runs, workers = 3, 40, 8
		h.limit("gpu", most)
		logs := map[event.RunID]*Log{}
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
			s := h.session()
			all.Go(func() {
				for ended.Load() < runs {
					got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 2})
					mine := got.Runs
					if note(begun.Add(int64(len(mine)))); err != nil {
						failed.Add(1)
						return
					}
					for len(mine) > 0 {
						l, fence := logs[mine[0].Run], mine[0].Fence
						c := withEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
						c.Next = &store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 1, Hinted: true}
						begun.Add(-1)
						answers, err := h.store.Commit(h.ctx, []store.Commit{c})
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
		h.equal("calls that have failed", failed.Load(), int64(0))
		h.equal("times that more runs had begun than may", exceeded.Load(), int64(0))
		h.equal("runs that have ended", ended.Load(), int64(runs))
		h.counts("gpu", 0, 0)
	}},
}
