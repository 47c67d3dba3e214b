package limits

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// needing makes a run use the given weight of the limit for its worker's memory.
func needing(memory int) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: "memory"}, Weight: memory, Local: true}))
	}
}

// claimFree claims runs for a worker that has free of most weights of memory left. It fails the
// test unless the claim returns exactly the wanted runs.
func (h *harness) claimFree(s store.SessionID, free, most int, want ...*suite.Log) store.Claimed {
	h.Helper()
	c, err := h.Store.Claim(h.Ctx, store.Claim{
		Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 10, FreeCapacity: []store.FreeCapacity{{Limit: "memory", Free: free, Most: most}},
	})
	h.Check("claim", err)
	var runs []event.RunID
	for _, l := range want {
		runs = append(runs, l.Run)
	}
	h.Equal("given", suite.RunsOf(c.Runs), runs)
	return c
}

func (h *harness) passed(c store.Claimed, never bool, want ...*suite.Log) {
	h.Helper()
	var all []store.SkippedRun
	for _, l := range want {
		all = append(all, store.SkippedRun{Run: l.Run, Route: suite.Orders, Never: never})
	}
	h.Equal("passed over", c.Skipped, all)
}

var localBehaviors = []behavior{
	{"Local_AClaimIsGivenWhatFitsItsRoom", func(h *harness) {
		s := h.Session()
		first, second, third := h.Start(needing(300)), h.Start(needing(300)), h.Start(needing(300))
		c := h.claimFree(s, 700, 700, first, second)
		h.passed(c, false, third)
		h.Equal("uses", c.Runs[0].Uses, []store.Use{{LimitID: store.LimitID{Name: "memory"}, Weight: 300, Local: true}})
		h.Counts("memory", 600, 300)
		h.Finish(first, c.Runs[0].Fence, event.StatusCompleted)
		h.claimFree(s, 400, 700, third)
		h.Equal("without room of its own a worker is given what comes", c.Runs[1].Run, second.Run)
	}},
	{"Local_WhatIsPassedOverKeepsTheRoomUnlessTheWorkerNeverHasSoMuch", func(h *harness) {
		s := h.Session()
		heavy, light, other := h.Start(needing(600)), h.Start(needing(100)), h.Start()
		h.passed(h.claimFree(s, 300, 700, other), false, heavy, light)
		h.Equal("since when it waits", h.Record(heavy.Run).WaitsSince, h.Clock.Now())
		c := h.claimFree(s, 500, 500, light)
		h.passed(c, true, heavy)
		h.claimFree(h.Session(), 600, 600, heavy)
	}},
	{"Local_AnotherWorkerIsWokenForWhatWasPassedOver", func(h *harness) {
		s, other := h.Session(), h.Session()
		heavy := h.Start(needing(600))
		h.Poll(s, suite.Orders)
		h.passed(h.claimFree(s, 100, 100), true, heavy)
		h.Equal("woken", h.Poll(other, suite.Orders).Claim, []int{0})
		h.claimFree(other, 700, 700, heavy)
	}},
	{"Local_GoesWithLimitsOfTheFleet", func(h *harness) {
		h.Limit("pool", 1) // the name of this limit sorts after the name of the memory limit
		s, other := h.Session(), h.Session()
		both := h.Start(using("pool"), needing(300))
		next, memory := h.Start(using("pool"), needing(100)), h.Start(needing(200))
		c := h.claimFree(s, 1000, 1000, both, memory)
		h.claimFree(other, 1000, 1000)
		h.Counts("pool", 1, 1)
		h.Finish(both, c.Runs[0].Fence, event.StatusCompleted)
		h.passed(h.claimFree(s, 50, 1000), false, next)
		h.claimFree(other, 1000, 1000, next)
	}},
	{"Local_WhatADeadWorkerHadIsGivenBack", func(h *harness) {
		s := h.Session()
		l := h.Start(needing(300))
		other := h.Session()
		h.claimFree(s, 300, 300, l)
		h.Counts("memory", 300, 0)
		h.RecoverDead(other)
		h.Counts("memory", 0, 300)
		h.claimFree(other, 300, 300, l)
		h.Counts("memory", 300, 0)
	}},
	{"Local_AWholeRunIsGivenAgainWhereThereIsRoom", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		l := h.Start(using("gpu"), needing(300), whole)
		c := h.claimFree(s, 300, 300, l)
		h.Commit(l, suite.WithEffect(l.Commit(c.Runs[0].Fence, l.Work()...), store.EffectYield, ""))
		free := h.Start()
		h.passed(h.claimFree(s, 200, 300, free), false, l)
		h.Equal("given", slices.Contains(suite.RunsOf(h.claimFree(s, 300, 300, l).Runs), l.Run), true)
	}},
	{"Local_AClaimOfOneRunIsGivenWhatComesAfterSeveralThatItPassesOver", func(h *harness) {
		h.Limit("gpu", 3)
		s := h.Session()
		var heavy []*suite.Log
		for range 3 { // runs that keep their permits, so that they are ready and in no line
			heavy = append(heavy, h.Start(using("gpu"), needing(300), whole))
		}
		c := h.claimFree(s, 900, 900, heavy...)
		for i, l := range heavy {
			h.Commit(l, suite.WithEffect(l.Commit(c.Runs[i].Fence, l.Work()...), store.EffectYield, ""))
		}
		h.Poll(s, suite.Orders)
		next := h.Start()
		got, err := h.Store.Claim(h.Ctx, store.Claim{
			Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 1, FreeCapacity: []store.FreeCapacity{{Limit: "memory", Free: 200, Most: 900}},
		})
		h.Check("claim", err)
		h.Equal("given", suite.RunsOf(got.Runs), []event.RunID{next.Run})
		h.passed(got, false, heavy...)
		h.Equal("woken for the others", h.Poll(s, suite.Orders).Claim, []int{0})
		h.claimFree(s, 900, 900, heavy...)
	}},
	{"Local_WhatWasCalledOffNeedsNoRoom", func(h *harness) {
		s := h.Session()
		waits := h.Start(needing(300))
		h.passed(h.claimFree(s, 0, 300), false, waits)
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: waits.Run, Item: h.Item(), Urgent: true})
		h.Check("deliver", err)
		c := h.claimFree(s, 0, 300, waits)
		h.Equal("called off", c.Runs[0].LeftQueue, true)
		h.Counts("memory", 0, 0)
	}},
	{"Local_WhatIsTooHeavyNeedsNoRoom", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		heavy := h.Start(weighing(2), needing(300))
		h.passed(h.claimFree(s, 0, 300), false, heavy)
		h.Limit("gpu", 1)
		c := h.claimFree(s, 0, 300, heavy)
		h.Equal("called off", c.Runs[0].LeftQueue, true)
	}},
}
