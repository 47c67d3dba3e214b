package limits

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// starts creates n runs with the route "orders".
func (h *harness) starts(n int, change ...func(*store.Create)) []*suite.Log {
	h.Helper()
	var logs []*suite.Log
	for range n {
		logs = append(logs, h.Start(change...))
	}
	return logs
}

var turnBehaviors = []behavior{
	{"L2_ConcurrentClaimersNeverExceed", func(h *harness) {
		h.Limit("gpu", 3)
		h.starts(40, using("gpu"))
		claimed := make(chan int)
		const workers = 8
		for range workers {
			s := h.Session()
			go func() {
				got, _ := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 2})
				claimed <- len(got.Runs)
			}()
		}
		n := 0
		for range workers {
			n += <-claimed
		}
		h.Equal("runs that have a permit", n, 3)
		h.Counts("gpu", 3, 37)
	}},
	{"L5_WaitersGoInOrder", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		logs := h.starts(4, using("gpu"))
		for _, l := range logs {
			h.Finish(l, h.one(s, l), event.StatusCompleted)
		}
	}},
	{"L5_HigherPrioritiesGoFirst", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		var logs []*suite.Log
		for _, p := range []int{0, 5, -1, 5} {
			logs = append(logs, h.Start(using("gpu"), func(c *store.Create) { c.Priority = p }))
		}
		for _, i := range []int{1, 3, 0, 2} {
			h.Finish(logs[i], h.one(s, logs[i]), event.StatusCompleted)
		}
	}},
	{"L5_AHeavyClaimIsNotPassed", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		holder := h.Start(using("gpu"))
		fence := h.one(s, holder)
		heavy := h.Start(weighing(2))
		light := h.Start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		h.Finish(holder, fence, event.StatusCompleted)
		fence = h.one(s, heavy)
		h.nothing("while the heavy one holds all", s)
		h.Finish(heavy, fence, event.StatusCompleted)
		h.one(s, light)
	}},
	{"L5_AHeavyClaimIsNotPassedByTheClaimThatAsksItInVain", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		first := h.Start(using("gpu"))
		h.Start(weighing(2))
		h.Start(using("gpu"))
		h.Equal("the heavy one comes second, and keeps back the third", suite.RunsOf(h.Claim(s, 10)), []event.RunID{first.Run})
	}},
	{"L5_WhoWaitsInVainIsNotPassedWhenSomebodyComesBackBeforeIt", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		first := h.Start(using("gpu"))
		fence := h.one(s, first)
		h.Start(using("gpu"))
		h.nothing("while the first has the permit", s)
		late := store.Route{Queue: "default", Workflow: "orders.late"}
		o := h.Session(late)
		h.StartAs(late, "", using("gpu"))
		h.nothing("while the first has the permit", o, late)
		h.Check("release", h.Store.Release(h.Ctx, first.Run, fence))
		h.nothing("that comes after two others", o, late)
		h.one(s, first)
	}},
	{"L5_WhoWaitsInVainIsNotPassedWhenAHigherPriorityComes", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		holder := h.Start(using("gpu"))
		fence := h.one(s, holder)
		h.Start(using("gpu"))
		h.nothing("while the first has the permit", s)
		late := store.Route{Queue: "default", Workflow: "orders.late"}
		o := h.Session(late)
		h.StartAs(late, "", using("gpu"))
		h.nothing("while the first has the permit", o, late)
		urgent := h.Start(using("gpu"), func(c *store.Create) { c.Priority = 5 })
		h.Finish(holder, fence, event.StatusCompleted)
		h.nothing("that comes after two others", o, late)
		h.one(s, urgent)
	}},
	{"L5_AnotherLimitIsNotHeldUp", func(h *harness) {
		h.Limit("a", 1)
		h.Limit("b", 1)
		s := h.Session()
		h.one(s, h.Start(using("a")))
		h.Start(using("a"))
		h.nothing("of a", s)
		h.one(s, h.Start(using("b")))
	}},
	{"L5_ANestedRunPassesWhoWaitsForWhatIsHeldAboveIt", func(h *harness) {
		h.Limit("a", 1)
		h.Limit("b", 1)
		s := h.Session()
		above := h.Start(using("b"), whole)
		fence := h.one(s, above)
		both := h.Start(using("a", "b"))
		other := h.Start(using("a"))
		h.nothing("while b is held", s)
		below := h.Start(using("a"), nested)
		got := h.one(s, below)
		h.nothing("while both are held", s)
		h.Finish(below, got, event.StatusCompleted)
		h.Finish(above, fence, event.StatusCompleted)
		h.Finish(both, h.one(s, both), event.StatusCompleted)
		h.one(s, other)
	}},
	{"L5_ANestedRunIsKeptBackByWhoWaitsForNothingElse", func(h *harness) {
		h.Limit("a", 1)
		h.Limit("b", 2)
		s := h.Session()
		h.one(s, h.Start(using("a"), whole))
		holder := h.Start(using("b"))
		fence := h.one(s, holder)
		heavy := h.Start(func(c *store.Create) { c.Uses = []store.Use{{LimitID: store.LimitID{Name: "b"}, Weight: 2}} })
		h.nothing("that is heavy", s)
		h.Start(using("b"), nested)
		h.nothing("nested after the heavy one", s)
		h.Finish(holder, fence, event.StatusCompleted)
		h.one(s, heavy)
	}},
	{"L6_RoomCallsANestedRunAfterWhoWaitsForMore", func(h *harness) {
		for _, what := range []string{"a finish", "a growing capacity"} {
			h.Limit("a", 1)
			h.Limit("b", 1)
			s := h.Session()
			above := h.Start(using("b"), whole)
			fence := h.one(s, above)
			holder := h.Start(using("a"))
			had := h.one(s, holder)
			both, more := h.Start(using("a", "b")), h.Start(using("a", "b", "c"))
			below := h.Start(using("a"), nested)
			h.nothing("before "+what, s)
			if what == "a finish" {
				h.Finish(holder, had, event.StatusCompleted)
			} else {
				h.Limit("a", 2)
			}
			h.Finish(below, h.one(s, below), event.StatusCompleted)
			h.Finish(above, fence, event.StatusCompleted)
			h.Finish(both, h.one(s, both), event.StatusCompleted)
			h.Finish(more, h.one(s, more), event.StatusCompleted)
			if what != "a finish" {
				h.Finish(holder, had, event.StatusCompleted)
			}
		}
	}},
	{"L5_PartsOfALimitAreApart", func(h *harness) {
		of := func(key string) func(*store.Create) {
			return func(c *store.Create) {
				c.Uses = []store.Use{{LimitID: store.LimitID{Name: "customer", Key: key}, Weight: 1}}
			}
		}
		h.Limit("customer", 1)
		s := h.Session()
		h.one(s, h.Start(of("acme")))
		waits := h.Start(of("acme"))
		h.one(s, h.Start(of("bolt")))
		// One key of the limit has its own configuration.
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "customer", Key: "acme"}, Config: store.LimitConfig{AtOnce: 2}})
		h.one(s, waits)
	}},
	{"L6_EveryWayToMakeRoomCalls", func(h *harness) {
		for _, c := range []struct {
			what string
			make func(l *suite.Log, f store.Fence)
		}{
			{"a finish", func(l *suite.Log, f store.Fence) { h.Finish(l, f, event.StatusCompleted) }},
			{"a park", func(l *suite.Log, f store.Fence) { h.Park(l, f, h.Clock.Now().Add(time.Hour)) }},
			{"a growing capacity", func(*suite.Log, store.Fence) { h.Limit("gpu", 2) }},
			{"no limit any longer", func(*suite.Log, store.Fence) {
				h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Reset: true})
			}},
		} {
			h.Limit("gpu", 1)
			s := h.Session()
			l := h.Start(using("gpu"))
			fence := h.one(s, l)
			next := h.Start(using("gpu"))
			h.nothing("before "+c.what, s)
			h.Poll(s, suite.Orders)
			h.Equal("woken before "+c.what, h.Poll(s, suite.Orders).Claim, []int(nil))
			c.make(l, fence)
			h.Equal("woken by "+c.what, h.Poll(s, suite.Orders).Claim, []int{0})
			h.Finish(next, h.one(s, next), event.StatusCompleted)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
			rest := h.Session()
			for _, r := range h.Claim(rest, 10) {
				h.Equal("left", r.Run, l.Run)
				h.Finish(l, r.Fence, event.StatusCompleted)
			}
		}
	}},
	{"L5_WhoWaitsInVainKeepsBackNobodyBeforeIt", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		h.Start(weighing(2))
		h.nothing("while the heavy one waits", s)
		first := h.Start(using("gpu"), func(c *store.Create) { c.Priority = 5 })
		h.named(s, first)
	}},
	{"L6_ALimitAsAWholeCallsWhoWaitsForItsParts", func(h *harness) {
		acme := func(c *store.Create) {
			c.Uses = []store.Use{{LimitID: store.LimitID{Name: "customer", Key: "acme"}, Weight: 1}}
		}
		h.Limit("customer", 1)
		s := h.Session()
		h.one(s, h.Start(acme))
		waits := h.Start(acme)
		h.nothing("while it is held", s)
		h.Limit("customer", 2)
		h.one(s, waits)
	}},
	{"L6_ALineThatIsTooHeavyNowCallsWhoWaitedAfterIt", func(h *harness) {
		h.Limit("gpu", 3)
		h.Limit("disk", 1)
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		h.StartAs(slow, "", using("disk"), func(c *store.Create) {
			c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 3}))
		})
		h.nothing("while one of the three is held", h.Session(slow), slow)
		light := h.Start(using("disk"))
		h.nothing("while somebody before it waits for the same", s)
		h.Poll(s, suite.Orders)
		h.Limit("gpu", 2)
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.one(s, light)
	}},
	{"L6_AGrantCallsTheNext", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		both := h.Start(weighing(2))
		fence := h.one(s, both)
		other := store.Route{Queue: "default", Workflow: "orders.other"}
		o := h.Session(other)
		h.Start(using("gpu"))
		h.nothing("while all is held", s)
		h.StartAs(other, "", using("gpu"))
		h.nothing("while all is held", o, other)
		h.Finish(both, fence, event.StatusCompleted)
		h.Equal("claimed of the first line", len(h.Claim(s, 10)), 1)
		h.Equal("woken for the second", h.Poll(o, other).Claim, []int{0})
		h.Equal("claimed of the second line", len(h.Claim(o, 10, other)), 1)
	}},
	{"L7_ACallKeepsItsTurn", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		holder := h.Start(using("gpu"))
		fence := h.one(s, holder)
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		first := h.StartAs(slow, "", using("gpu"))
		away := h.Session(slow)
		h.nothing("while it is held", away, slow)
		h.Start(using("gpu"))
		h.nothing("while it is held", s)
		h.Finish(holder, fence, event.StatusCompleted)
		h.nothing("while the first has its turn", s)
		h.one(away, first, slow)
	}},
	{"L7_ACallKeepsItsTurnAlsoBeforeWhoComes", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		holder := h.Start(using("gpu"))
		fence := h.one(s, holder)
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		first := h.StartAs(slow, "", using("gpu"))
		away := h.Session(slow)
		h.nothing("while it is held", away, slow)
		h.Finish(holder, fence, event.StatusCompleted)
		h.Start(using("gpu"))
		h.nothing("while the first has its turn", s)
		h.one(away, first, slow)
	}},
	{"L8_ACallWakesWhateverIsDueEarlier", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		sleeper := h.Start()
		h.Park(sleeper, h.Own(s, sleeper), h.Clock.Now().Add(time.Second))
		holder := h.Start(using("gpu"))
		fence := h.one(s, holder)
		next := h.Start(using("gpu"))
		h.nothing("while it is held", s)
		h.Poll(s, suite.Orders)
		h.Finish(holder, fence, event.StatusCompleted)
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.one(s, next)
	}},
	{"L7_ACallThatNobodyAnswersLosesItsTurnNotItsPlace", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		holder := h.Start(using("gpu"))
		fence := h.one(s, holder)
		slow := store.Route{Queue: "default", Workflow: "orders.slow"}
		first := h.StartAs(slow, "", using("gpu"))
		h.nothing("while it is held", h.Session(slow), slow)
		second, third := h.Start(using("gpu")), h.Start(using("gpu"))
		h.nothing("while it is held", s)
		h.Finish(holder, fence, event.StatusCompleted)
		h.nothing("while the first has its turn", s)
		h.Equal("next time", h.Heartbeat(s).Next, h.Clock.Now().Add(5*time.Second))
		h.Clock.Advance(5 * time.Second)
		fence = h.one(s, second)
		away := h.Session(slow)
		h.nothing("while the second has it", away, slow)
		h.nothing("while the second has it", s)
		h.Finish(second, fence, event.StatusCompleted)
		h.nothing("that is not first", s)
		h.one(away, first, slow)
		h.State(third.Run, store.StateReady)
	}},
	{"L9_ACanceledWaiterLeaves", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		holder := h.Start(using("gpu"))
		h.one(s, holder)
		heavy := h.Start(weighing(2))
		light := h.Start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		cancel := h.Item()
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: heavy.Run, Item: cancel, Urgent: true})
		h.Check("deliver", err)
		h.Counts("gpu", 1, 1)
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		got := h.Claim(s, 10)
		h.Equal("claimed", len(got), 2)
		for _, r := range got {
			h.Equal("called off", r.LeftQueue, r.Run == heavy.Run)
			if r.Run == heavy.Run {
				c := heavy.Commit(r.Fence, append(heavy.Receive(cancel), heavy.End(event.StatusCanceled)...)...)
				h.Commit(heavy, suite.Consuming(suite.WithEffect(c, store.EffectFinish, event.StatusCanceled), cancel))
			}
		}
		h.Counts("gpu", 2, 0)
		h.State(light.Run, store.StateOwned)
	}},
	{"L9_ACanceledRunThatParkedComesIntoNoLine", func(h *harness) {
		h.canceledWithoutPermits(func(s store.SessionID) *suite.Log {
			l := h.Start(using("gpu"))
			h.Park(l, h.one(s, l), time.Time{})
			return l
		}, func(s store.SessionID, _ *suite.Log) store.ClaimedRun { return h.Claim(s, 10)[0] })
	}},
	{"L9_ACanceledRunThatParksAgainComesIntoNoLine", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		for _, change := range []func(c *store.Commit){
			func(c *store.Commit) { c.Closing = true },
			func(c *store.Commit) { c.Unused = store.UnusedBack },
			func(c *store.Commit) { c.Unused = store.UnusedInQueue },
		} {
			l, cancel := h.Start(using("gpu")), h.Item()
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: cancel, Urgent: true})
			h.Check("deliver", err)
			c := suite.WithEffect(l.Commit(h.one(s, l), l.Receive(cancel)...), store.EffectPark, event.StatusWaiting)
			change(&c)
			h.Commit(l, suite.Consuming(c, cancel))
			h.Deliver(l.Run)
			h.one(s, l)
			h.Equal("called off", h.Record(l.Run).LeftQueue, true)
			h.Counts("gpu", 1, 0)
		}
	}},
	{"L9_ACanceledRunThatIsBlockedIsGivenByName", func(h *harness) {
		h.canceledWithoutPermits(func(s store.SessionID) *suite.Log {
			l := h.Start(using("gpu"))
			h.Block(l, h.one(s, l))
			return l
		}, func(s store.SessionID, l *suite.Log) store.ClaimedRun {
			return h.named(s, l)
		})
	}},
	{"L9_ACanceledRunInLineForItsWorkflowIDComesIntoNoOtherLine", func(h *harness) {
		var first *suite.Log
		var fence store.Fence
		h.canceledWithoutPermits(func(s store.SessionID) *suite.Log {
			wid := h.WorkflowID("order")
			first = h.StartAs(suite.Orders, wid)
			fence = h.one(s, first)
			l := h.StartAs(suite.Orders, wid, using("gpu"), func(c *store.Create) { c.Active = store.ActiveQueue })
			h.State(l.Run, store.StateQueued)
			return l
		}, func(s store.SessionID, _ *suite.Log) store.ClaimedRun {
			h.Finish(first, fence, event.StatusCompleted)
			return h.Claim(s, 10)[0]
		})
	}},
	{"L8_ARunQueuedForItsWorkflowIDJoinsBehindThoseThatWait", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		holder := h.Start(using("gpu"))
		held := h.one(s, holder)
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		fence := h.one(s, first)
		queued := h.StartAs(suite.Orders, wid, using("gpu"), func(c *store.Create) { c.Active = store.ActiveQueue })
		h.State(queued.Run, store.StateQueued)
		waits := h.Start(using("gpu"))
		h.nothing("while the permit is held", s)
		h.Finish(first, fence, event.StatusCompleted)
		h.State(queued.Run, store.StateReady)
		h.Finish(holder, held, event.StatusCompleted)
		h.one(s, waits)
		h.nothing("while the permit is held again", s)
		h.State(queued.Run, store.StateReady)
	}},
	{"L9_AnOrdinaryMessageLeavesAWaiterInItsLine", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		l := h.Start(using("gpu"))
		h.Deliver(l.Run)
		h.nothing("while it is held", s)
		h.Counts("gpu", 1, 1)
	}},
	{"L9_WhatIsTooHeavyNowGoesWithoutPermits", func(h *harness) {
		h.Limit("gpu", 3)
		s := h.Session()
		holder := h.Start(using("gpu"))
		h.one(s, holder)
		heavy := h.Start(weighing(3))
		light := h.Start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		h.Poll(s, suite.Orders)
		h.Limit("gpu", 2)
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		got := h.Claim(s, 10)
		h.Equal("claimed", len(got), 2)
		h.Equal("called off", got[slices.IndexFunc(got, func(r store.ClaimedRun) bool { return r.Run == heavy.Run })].LeftQueue, true)
		h.Counts("gpu", 2, 0)
		h.State(light.Run, store.StateOwned)
	}},
	{"L9_WhatIsTooHeavyNowGoesThoughOthersWaitBeforeIt", func(h *harness) {
		h.Limit("gpu", 3)
		s := h.Session()
		h.one(s, h.Start(weighing(3)))
		h.Start(using("gpu"))
		heavy := h.Start(weighing(3))
		h.nothing("while all is held", s)
		h.Poll(s, suite.Orders)
		h.Limit("gpu", 2)
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		got := h.Claim(s, 10)
		h.Equal("claimed", suite.RunsOf(got), []event.RunID{heavy.Run})
		h.Equal("called off", got[0].LeftQueue, true)
		h.Counts("gpu", 3, 1)
	}},
	{"L8_AClaimThatLeavesOpenLinesWakesAgain", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		h.starts(2, using("gpu"))
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.Claim(s, 1)
		h.Equal("woken again", h.Poll(s, suite.Orders).Claim, []int{0})
	}},
	{"L8_AClaimOfANamedRunThatLeavesAnOpenLineWakes", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		logs := h.starts(2, using("gpu"))
		h.nothing("while it is held", s)
		h.Limit("gpu", 3)
		h.Equal("woken by the call", h.Poll(s, suite.Orders).Claim, []int{0})
		h.named(s, logs[0])
		h.Equal("woken for the rest of the line", h.Poll(s, suite.Orders).Claim, []int{0})
		h.one(s, logs[1])
	}},
	{"L8_AClaimOfANamedRunWakesForTheNextThatItCalls", func(h *harness) {
		h.Limit("gpu", 1)
		s, other := h.Session(), store.Route{Queue: "default", Workflow: "orders.other"}
		h.one(s, h.Start(using("gpu")))
		first, next, o := h.Start(using("gpu")), h.StartAs(other, "", using("gpu")), h.Session(other)
		h.nothing("while it is held", s)
		h.nothing("while it is held", o, other)
		h.Poll(o, other)
		h.Limit("gpu", 3)
		h.Equal("woken while the first has its turn", h.Poll(o, other).Claim, []int(nil))
		h.named(s, first)
		h.Equal("woken once the first has begun", h.Poll(o, other).Claim, []int{0})
		h.one(o, next, other)
	}},
	{"L5_WhoWaitsIsToldSinceWhen", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		since := func(what string, l *suite.Log, want time.Time) {
			h.Helper()
			h.Equal(what, h.Record(l.Run).WaitsSince, want)
		}
		free := h.Start(using("gpu"))
		since("there is room", free, time.Time{})
		heavy, began := h.NewLog(suite.Orders, ""), h.Clock.Now()
		c := heavy.Create()
		weighing(2)(&c)
		h.Equal("created", h.Create(c).Waits, began)
		since("there is none after the one before it", heavy, began)
		h.Clock.Advance(time.Second)
		h.Equal("created again", h.Create(c).Waits, began)
		fence := h.one(s, free)
		h.nothing("while it is held", s)
		since("asked in vain", heavy, began)
		h.Clock.Advance(time.Second)
		h.Finish(free, fence, event.StatusCompleted)
		got := h.Claim(s, 1)
		h.Equal("waited", got[0].Waited, began)
		h.Limit("gpu", 9)
		late := h.Start(using("gpu"))
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{Paused: true}})
		h.nothing("that is paused", s)
		since("there was room when it came", late, h.Clock.Now())
		h.Commit(heavy, suite.WithEffect(heavy.Commit(got[0].Fence, heavy.Work()...), store.EffectYield, ""))
		since("it comes anew", heavy, h.Clock.Now())
	}},
	{"L8_AYieldComesAnewARecoveryKeepsItsPlace", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		first, second := h.Start(using("gpu")), h.Start(using("gpu"))
		fence := h.one(s, first)
		h.Check("release", h.Store.Release(h.Ctx, first.Run, fence))
		fence = h.one(s, first)
		h.Commit(first, suite.WithEffect(first.Commit(fence, first.Work()...), store.EffectYield, ""))
		h.one(s, second)
	}},
}

// named claims a run by its ID.
func (h *harness) named(s store.SessionID, l *suite.Log) store.ClaimedRun {
	h.Helper()
	got, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
	h.Check("claim the run by its id", err)
	return h.Handed(got)
}

// canceledWithoutPermits cancels a run that has no permits and is not ready, while another run
// holds all permits. It fails the test unless the canceled run is claimed without permits, and the
// other run keeps its permits until its end.
func (h *harness) canceledWithoutPermits(begin func(store.SessionID) *suite.Log, give func(store.SessionID, *suite.Log) store.ClaimedRun) {
	h.Helper()
	h.Limit("gpu", 1)
	s := h.Session()
	l := begin(s)
	holder := h.Start(using("gpu"))
	fence := h.one(s, holder)
	cancel := h.Item()
	_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: cancel, Urgent: true})
	h.Check("deliver", err)
	h.Counts("gpu", 1, 0)
	got := give(s, l)
	h.Equal("given", got.Run, l.Run)
	h.Equal("called off", got.LeftQueue, true)
	h.Counts("gpu", 1, 0)
	c := l.Commit(got.Fence, append(l.Receive(cancel), l.End(event.StatusCanceled)...)...)
	h.Commit(l, suite.Consuming(suite.WithEffect(c, store.EffectFinish, event.StatusCanceled), cancel))
	h.Counts("gpu", 1, 0)
	h.Finish(holder, fence, event.StatusCompleted)
	h.Counts("gpu", 0, 0)
}
