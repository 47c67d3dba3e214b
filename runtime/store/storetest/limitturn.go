package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// starts creates n runs.
func (h *harness) starts(n int, change ...func(*store.Create)) []*Log {
	h.Helper()
	var logs []*Log
	for range n {
		logs = append(logs, h.start(change...))
	}
	return logs
}

var turnBehaviors = []behavior{
	{"L2_ConcurrentClaimersNeverExceed", func(h *harness) {
		h.limit("gpu", 3)
		h.starts(40, using("gpu"))
		claimed := make(chan int)
		const workers = 8
		for range workers {
			s := h.session()
			go func() {
				got, _ := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 2})
				claimed <- len(got.Runs)
			}()
		}
		n := 0
		for range workers {
			n += <-claimed
		}
		h.equal("runs that have a permit", n, 3)
		h.counts("gpu", 3, 37)
	}},
	{"L5_WaitersGoInOrder", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		logs := h.starts(4, using("gpu"))
		for _, l := range logs {
			h.finish(l, h.one(s, l), event.StatusCompleted)
		}
	}},
	{"L5_HigherPrioritiesGoFirst", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		var logs []*Log
		for _, p := range []int{0, 5, -1, 5} {
			logs = append(logs, h.start(using("gpu"), func(c *store.Create) { c.Priority = p }))
		}
		for _, i := range []int{1, 3, 0, 2} {
			h.finish(logs[i], h.one(s, logs[i]), event.StatusCompleted)
		}
	}},
	{"L5_AHeavyClaimIsNotPassed", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		holder := h.start(using("gpu"))
		fence := h.one(s, holder)
		heavy := h.start(weighing(2))
		light := h.start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		h.finish(holder, fence, event.StatusCompleted)
		fence = h.one(s, heavy)
		h.nothing("while the heavy one holds all", s)
		h.finish(heavy, fence, event.StatusCompleted)
		h.one(s, light)
	}},
	{"L5_AHeavyClaimIsNotPassedByTheClaimThatAsksItInVain", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		first := h.start(using("gpu"))
		h.start(weighing(2))
		h.start(using("gpu"))
		h.equal("the heavy one comes second, and keeps back the third", runsOf(h.claim(s, 10)), []event.RunID{first.Run})
	}},
	{"L5_WhoWaitsInVainIsNotPassedWhenSomebodyComesBackBeforeIt", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		first := h.start(using("gpu"))
		fence := h.one(s, first)
		h.start(using("gpu"))
		h.nothing("while the first has the permit", s)
		late := store.Route{Queue: "default", Workflow: "orders.late"}
		o := h.session(late)
		h.startAs(late, "", using("gpu"))
		h.nothing("while the first has the permit", o, late)
		h.check("release", h.store.Release(h.ctx, first.Run, fence))
		h.nothing("that comes after two others", o, late)
		h.one(s, first)
	}},
	{"L5_WhoWaitsInVainIsNotPassedWhenAHigherPriorityComes", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		holder := h.start(using("gpu"))
		fence := h.one(s, holder)
		h.start(using("gpu"))
		h.nothing("while the first has the permit", s)
		late := store.Route{Queue: "default", Workflow: "orders.late"}
		o := h.session(late)
		h.startAs(late, "", using("gpu"))
		h.nothing("while the first has the permit", o, late)
		urgent := h.start(using("gpu"), func(c *store.Create) { c.Priority = 5 })
		h.finish(holder, fence, event.StatusCompleted)
		h.nothing("that comes after two others", o, late)
		h.one(s, urgent)
	}},
	{"L5_AnotherLimitIsNotHeldUp", func(h *harness) {
		h.limit("a", 1)
		h.limit("b", 1)
		s := h.session()
		h.one(s, h.start(using("a")))
		h.start(using("a"))
		h.nothing("of a", s)
		h.one(s, h.start(using("b")))
	}},
	{"L5_ANestedRunPassesWhoWaitsForWhatIsHeldAboveIt", func(h *harness) {
		h.limit("a", 1)
		h.limit("b", 1)
		s := h.session()
		above := h.start(using("b"), whole)
		fence := h.one(s, above)
		both := h.start(using("a", "b"))
		other := h.start(using("a"))
		h.nothing("while b is held", s)
		below := h.start(using("a"), nested)
		got := h.one(s, below)
		h.nothing("while both are held", s)
		h.finish(below, got, event.StatusCompleted)
		h.finish(above, fence, event.StatusCompleted)
		h.finish(both, h.one(s, both), event.StatusCompleted)
		h.one(s, other)
	}},
	{"L5_ANestedRunIsKeptBackByWhoWaitsForNothingElse", func(h *harness) {
		h.limit("a", 1)
		h.limit("b", 2)
		s := h.session()
		h.one(s, h.start(using("a"), whole))
		holder := h.start(using("b"))
		fence := h.one(s, holder)
		heavy := h.start(func(c *store.Create) { c.Uses = []store.Use{{LimitID: store.LimitID{Name: "b"}, Weight: 2}} })
		h.nothing("that is heavy", s)
		h.start(using("b"), nested)
		h.nothing("nested after the heavy one", s)
		h.finish(holder, fence, event.StatusCompleted)
		h.one(s, heavy)
	}},
	{"L6_RoomCallsANestedRunAfterWhoWaitsForMore", func(h *harness) {
		for _, what := range []string{"a finish", "a growing capacity"} {
			h.limit("a", 1)
			h.limit("b", 1)
			s := h.session()
			above := h.start(using("b"), whole)
			fence := h.one(s, above)
			holder := h.start(using("a"))
			had := h.one(s, holder)
			both, more := h.start(using("a", "b")), h.start(using("a", "b", "c"))
			below := h.start(using("a"), nested)
			h.nothing("before "+what, s)
			if what == "a finish" {
				h.finish(holder, had, event.StatusCompleted)
			} else {
				h.limit("a", 2)
			}
			h.finish(below, h.one(s, below), event.StatusCompleted)
			h.finish(above, fence, event.StatusCompleted)
			h.finish(both, h.one(s, both), event.StatusCompleted)
			h.finish(more, h.one(s, more), event.StatusCompleted)
			if what != "a finish" {
				h.finish(holder, had, event.StatusCompleted)
			}
		}
	}},
	{"L5_PartsOfALimitAreApart", func(h *harness) {
		of := func(key string) func(*store.Create) {
			return func(c *store.Create) {
				c.Uses = []store.Use{{LimitID: store.LimitID{Name: "customer", Key: key}, Weight: 1}}
			}
		}
		h.limit("customer", 1)
		s := h.session()
		h.one(s, h.start(of("acme")))
		waits := h.start(of("acme"))
		h.one(s, h.start(of("bolt")))
		// One part has a configuration of its own.
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "customer", Key: "acme"}, Config: store.LimitConfig{AtOnce: 2}})
		h.one(s, waits)
	}},
	{"L6_EveryWayToMakeRoomCalls", func(h *harness) {
		for _, c := range []struct {
			what string
			make func(l *Log, f store.Fence)
		}{
			{"a finish", func(l *Log, f store.Fence) { h.finish(l, f, event.StatusCompleted) }},
			{"a park", func(l *Log, f store.Fence) { h.park(l, f, h.clock.Now().Add(time.Hour)) }},
			{"a growing capacity", func(*Log, store.Fence) { h.limit("gpu", 2) }},
			{"no limit any longer", func(*Log, store.Fence) {
				h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Reset: true})
			}},
		} {
			h.limit("gpu", 1)
			s := h.session()
			l := h.start(using("gpu"))
			fence := h.one(s, l)
			next := h.start(using("gpu"))
			h.nothing("before "+c.what, s)
			h.poll(s, orders)
			h.equal("woken before "+c.what, h.poll(s, orders).Claim, []int(nil))
			c.make(l, fence)
			h.equal("woken by "+c.what, h.poll(s, orders).Claim, []int{0})
			h.finish(next, h.one(s, next), event.StatusCompleted)
			h.check("close session", h.store.CloseSession(h.ctx, 0, s))
			rest := h.session()
			for _, r := range h.claim(rest, 10) {
				h.equal("left", r.Run, l.Run)
				h.finish(l, r.Fence, event.StatusCompleted)
			}
		}
	}},
	{"L5_WhoWaitsInVainKeepsBackNobodyBeforeIt", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		h.one(s, h.start(using("gpu")))
		h.start(weighing(2))
		h.nothing("while the heavy one waits", s)
		first := h.start(using("gpu"), func(c *store.Create) { c.Priority = 5 })
		h.named(s, first)
	}},
	{"L6_ALimitAsAWholeCallsWhoWaitsForItsParts", func(h *harness) {
		acme := func(c *store.Create) {
			c.Uses = []store.Use{{LimitID: store.LimitID{Name: "customer", Key: "acme"}, Weight: 1}}
		}
		h.limit("customer", 1)
		s := h.session()
		h.one(s, h.start(acme))
		waits := h.start(acme)
		h.nothing("while it is held", s)
		h.limit("customer", 2)
		h.one(s, waits)
	}},
	{"L6_ALineThatIsTooHeavyNowCallsWhoWaitedAfterIt", func(h *harness) {
		h.limit("gpu", 3)
		h.limit("disk", 1)
		s := h.session()
		h.one(s, h.start(using("gpu")))
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		h.startAs(slow, "", using("disk"), func(c *store.Create) {
			c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 3}))
		})
		h.nothing("while one of the three is held", h.session(slow), slow)
		light := h.start(using("disk"))
		h.nothing("while somebody before it waits for the same", s)
		h.poll(s, orders)
		h.limit("gpu", 2)
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.one(s, light)
	}},
	{"L6_AGrantCallsTheNext", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		both := h.start(weighing(2))
		fence := h.one(s, both)
		other := store.Route{Queue: "default", Workflow: "orders.other"}
		o := h.session(other)
		h.start(using("gpu"))
		h.nothing("while all is held", s)
		h.startAs(other, "", using("gpu"))
		h.nothing("while all is held", o, other)
		h.finish(both, fence, event.StatusCompleted)
		h.equal("claimed of the first line", len(h.claim(s, 10)), 1)
		h.equal("woken for the second", h.poll(o, other).Claim, []int{0})
		h.equal("claimed of the second line", len(h.claim(o, 10, other)), 1)
	}},
	{"L7_ACallKeepsItsTurn", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		holder := h.start(using("gpu"))
		fence := h.one(s, holder)
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		first := h.startAs(slow, "", using("gpu"))
		away := h.session(slow)
		h.nothing("while it is held", away, slow)
		h.start(using("gpu"))
		h.nothing("while it is held", s)
		h.finish(holder, fence, event.StatusCompleted)
		h.nothing("while the first has its turn", s)
		h.one(away, first, slow)
	}},
	{"L7_ACallKeepsItsTurnAlsoBeforeWhoComes", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		holder := h.start(using("gpu"))
		fence := h.one(s, holder)
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		first := h.startAs(slow, "", using("gpu"))
		away := h.session(slow)
		h.nothing("while it is held", away, slow)
		h.finish(holder, fence, event.StatusCompleted)
		h.start(using("gpu"))
		h.nothing("while the first has its turn", s)
		h.one(away, first, slow)
	}},
	{"L8_ACallWakesWhateverIsDueEarlier", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		sleeper := h.start()
		h.park(sleeper, h.own(s, sleeper), h.clock.Now().Add(time.Second))
		holder := h.start(using("gpu"))
		fence := h.one(s, holder)
		next := h.start(using("gpu"))
		h.nothing("while it is held", s)
		h.poll(s, orders)
		h.finish(holder, fence, event.StatusCompleted)
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.one(s, next)
	}},
	{"L7_ACallThatNobodyAnswersLosesItsTurnNotItsPlace", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		holder := h.start(using("gpu"))
		fence := h.one(s, holder)
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		first := h.startAs(slow, "", using("gpu"))
		h.nothing("while it is held", h.session(slow), slow)
		second, third := h.start(using("gpu")), h.start(using("gpu"))
		h.nothing("while it is held", s)
		h.finish(holder, fence, event.StatusCompleted)
		h.nothing("while the first has its turn", s)
		h.equal("next time", h.heartbeat(s).Next, h.clock.Now().Add(5*time.Second))
		h.clock.Advance(5 * time.Second)
		fence = h.one(s, second)
		away := h.session(slow)
		h.nothing("while the second has it", away, slow)
		h.nothing("while the second has it", s)
		h.finish(second, fence, event.StatusCompleted)
		h.nothing("that is not first", s)
		h.one(away, first, slow)
		h.state(third.Run, store.StateReady)
	}},
	{"L9_ACanceledWaiterLeaves", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		holder := h.start(using("gpu"))
		h.one(s, holder)
		heavy := h.start(weighing(2))
		light := h.start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		cancel := h.item()
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: heavy.Run, Item: cancel, Urgent: true})
		h.check("deliver", err)
		h.counts("gpu", 1, 1)
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		got := h.claim(s, 10)
		h.equal("claimed", len(got), 2)
		for _, r := range got {
			h.equal("called off", r.CalledOff, r.Run == heavy.Run)
			if r.Run == heavy.Run {
				c := heavy.Commit(r.Fence, append(heavy.Receive(cancel), heavy.End(event.StatusCanceled)...)...)
				h.commit(heavy, consuming(withEffect(c, store.EffectFinish, event.StatusCanceled), cancel))
			}
		}
		h.counts("gpu", 2, 0)
		h.state(light.Run, store.StateOwned)
	}},
	{"L9_ACanceledRunThatParkedComesIntoNoLine", func(h *harness) {
		h.canceledWithoutPermits(func(s store.SessionID) *Log {
			l := h.start(using("gpu"))
			h.park(l, h.one(s, l), time.Time{})
			return l
		}, func(s store.SessionID, _ *Log) store.ClaimedRun { return h.claim(s, 10)[0] })
	}},
	{"L9_ACanceledRunThatIsBlockedIsGivenByName", func(h *harness) {
		h.canceledWithoutPermits(func(s store.SessionID) *Log {
			l := h.start(using("gpu"))
			h.block(l, h.one(s, l))
			return l
		}, func(s store.SessionID, l *Log) store.ClaimedRun {
			return h.named(s, l)
		})
	}},
	{"L9_ACanceledRunInLineForItsWorkflowIDComesIntoNoOtherLine", func(h *harness) {
		var first *Log
		var fence store.Fence
		h.canceledWithoutPermits(func(s store.SessionID) *Log {
			wid := h.workflowID("order")
			first = h.startAs(orders, wid)
			fence = h.one(s, first)
			l := h.startAs(orders, wid, using("gpu"), func(c *store.Create) { c.Active = store.ActiveQueue })
			h.state(l.Run, store.StateQueued)
			return l
		}, func(s store.SessionID, _ *Log) store.ClaimedRun {
			h.finish(first, fence, event.StatusCompleted)
			return h.claim(s, 10)[0]
		})
	}},
	{"L9_AnOrdinaryMessageLeavesAWaiterInItsLine", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		h.one(s, h.start(using("gpu")))
		l := h.start(using("gpu"))
		h.deliver(l.Run)
		h.nothing("while it is held", s)
		h.counts("gpu", 1, 1)
	}},
	{"L9_WhatIsTooHeavyNowGoesWithoutPermits", func(h *harness) {
		h.limit("gpu", 3)
		s := h.session()
		holder := h.start(using("gpu"))
		h.one(s, holder)
		heavy := h.start(weighing(3))
		light := h.start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		h.poll(s, orders)
		h.limit("gpu", 2)
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		got := h.claim(s, 10)
		h.equal("claimed", len(got), 2)
		h.equal("called off", got[slices.IndexFunc(got, func(r store.ClaimedRun) bool { return r.Run == heavy.Run })].CalledOff, true)
		h.counts("gpu", 2, 0)
		h.state(light.Run, store.StateOwned)
	}},
	{"L9_WhatIsTooHeavyNowGoesThoughOthersWaitBeforeIt", func(h *harness) {
		h.limit("gpu", 3)
		s := h.session()
		h.one(s, h.start(weighing(3)))
		h.start(using("gpu"))
		heavy := h.start(weighing(3))
		h.nothing("while all is held", s)
		h.poll(s, orders)
		h.limit("gpu", 2)
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		got := h.claim(s, 10)
		h.equal("claimed", runsOf(got), []event.RunID{heavy.Run})
		h.equal("called off", got[0].CalledOff, true)
		h.counts("gpu", 3, 1)
	}},
	{"L8_AClaimThatLeavesOpenLinesWakesAgain", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		h.starts(2, using("gpu"))
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.claim(s, 1)
		h.equal("woken again", h.poll(s, orders).Claim, []int{0})
	}},
	{"L8_AClaimOfANamedRunThatLeavesAnOpenLineWakes", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		h.one(s, h.start(using("gpu")))
		logs := h.starts(2, using("gpu"))
		h.nothing("while it is held", s)
		h.limit("gpu", 3)
		h.equal("woken by the call", h.poll(s, orders).Claim, []int{0})
		h.named(s, logs[0])
		h.equal("woken for the rest of the line", h.poll(s, orders).Claim, []int{0})
		h.one(s, logs[1])
	}},
	{"L8_AClaimOfANamedRunWakesForTheNextThatItCalls", func(h *harness) {
		h.limit("gpu", 1)
		s, other := h.session(), store.Route{Queue: "default", Workflow: "orders.other"}
		h.one(s, h.start(using("gpu")))
		first, next, o := h.start(using("gpu")), h.startAs(other, "", using("gpu")), h.session(other)
		h.nothing("while it is held", s)
		h.nothing("while it is held", o, other)
		h.poll(o, other)
		h.limit("gpu", 3)
		h.equal("woken while the first has its turn", h.poll(o, other).Claim, []int(nil))
		h.named(s, first)
		h.equal("woken once the first has begun", h.poll(o, other).Claim, []int{0})
		h.one(o, next, other)
	}},
	{"L5_WhoWaitsIsToldSinceWhen", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		since := func(what string, l *Log, want time.Time) {
			h.Helper()
			h.equal(what, h.record(l.Run).WaitsSince, want)
		}
		free := h.start(using("gpu"))
		since("there is room", free, time.Time{})
		heavy, began := h.newLog(orders, ""), h.clock.Now()
		c := heavy.Create()
		weighing(2)(&c)
		h.equal("created", h.create(c).Waits, began)
		since("there is none after the one before it", heavy, began)
		h.clock.Advance(time.Second)
		h.equal("created again", h.create(c).Waits, began)
		fence := h.one(s, free)
		h.nothing("while it is held", s)
		since("asked in vain", heavy, began)
		h.clock.Advance(time.Second)
		h.finish(free, fence, event.StatusCompleted)
		got := h.claim(s, 1)
		h.equal("waited", got[0].Waited, began)
		h.limit("gpu", 9)
		late := h.start(using("gpu"))
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{Paused: true}})
		h.nothing("that is paused", s)
		since("there was room when it came", late, h.clock.Now())
		h.commit(heavy, withEffect(heavy.Commit(got[0].Fence, heavy.Work()...), store.EffectYield, ""))
		since("it comes anew", heavy, h.clock.Now())
	}},
	{"L8_AYieldComesAnewARecoveryKeepsItsPlace", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		first, second := h.start(using("gpu")), h.start(using("gpu"))
		fence := h.one(s, first)
		h.check("release", h.store.Release(h.ctx, first.Run, fence))
		fence = h.one(s, first)
		h.commit(first, withEffect(first.Commit(fence, first.Work()...), store.EffectYield, ""))
		h.one(s, second)
	}},
}

// named claims a run by its ID.
func (h *harness) named(s store.SessionID, l *Log) store.ClaimedRun {
	h.Helper()
	got, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
	h.check("claim the run by its id", err)
	return h.handed(got)
}

// canceledWithoutPermits cancels a run that has no permits and is not ready, while another run
// holds all permits. The run must be claimed without permits, and the other run must keep them
// until its end.
func (h *harness) canceledWithoutPermits(begin func(store.SessionID) *Log, give func(store.SessionID, *Log) store.ClaimedRun) {
	h.Helper()
	h.limit("gpu", 1)
	s := h.session()
	l := begin(s)
	holder := h.start(using("gpu"))
	fence := h.one(s, holder)
	cancel := h.item()
	_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: cancel, Urgent: true})
	h.check("deliver", err)
	h.counts("gpu", 1, 0)
	got := give(s, l)
	h.equal("given", got.Run, l.Run)
	h.equal("called off", got.CalledOff, true)
	h.counts("gpu", 1, 0)
	c := l.Commit(got.Fence, append(l.Receive(cancel), l.End(event.StatusCanceled)...)...)
	h.commit(l, consuming(withEffect(c, store.EffectFinish, event.StatusCanceled), cancel))
	h.counts("gpu", 1, 0)
	h.finish(holder, fence, event.StatusCompleted)
	h.counts("gpu", 0, 0)
}
