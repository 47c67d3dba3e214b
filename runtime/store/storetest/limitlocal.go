package storetest

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// needing makes a run use this weight of its worker's memory.
func needing(memory int) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: "memory"}, Weight: memory, Local: true}))
	}
}

// claimRoom claims runs for a worker that has free of most weights of memory left. It fails the
// test unless the claim returns the wanted runs.
func (h *harness) claimRoom(s store.SessionID, free, most int, want ...*Log) store.Claimed {
	h.Helper()
	c, err := h.store.Claim(h.ctx, store.Claim{
		Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 10, Room: []store.Room{{Limit: "memory", Free: free, Most: most}},
	})
	h.check("claim", err)
	var runs []event.RunID
	for _, l := range want {
		runs = append(runs, l.Run)
	}
	h.equal("given", runsOf(c.Runs), runs)
	return c
}

func (h *harness) passed(c store.Claimed, never bool, want ...*Log) {
	h.Helper()
	var all []store.PassedRun
	for _, l := range want {
		all = append(all, store.PassedRun{Run: l.Run, Route: orders, Never: never})
	}
	h.equal("passed over", c.Passed, all)
}

var localBehaviors = []behavior{
	{"Local_AClaimIsGivenWhatFitsItsRoom", func(h *harness) {
		s := h.session()
		first, second, third := h.start(needing(300)), h.start(needing(300)), h.start(needing(300))
		c := h.claimRoom(s, 700, 700, first, second)
		h.passed(c, false, third)
		h.equal("uses", c.Runs[0].Uses, []store.Use{{LimitID: store.LimitID{Name: "memory"}, Weight: 300, Local: true}})
		h.counts("memory", 600, 300)
		h.finish(first, c.Runs[0].Fence, event.StatusCompleted)
		h.claimRoom(s, 400, 700, third)
		h.equal("without room of its own a worker is given what comes", c.Runs[1].Run, second.Run)
	}},
	{"Local_WhatIsPassedOverKeepsTheRoomUnlessTheWorkerNeverHasSoMuch", func(h *harness) {
		s := h.session()
		heavy, light, other := h.start(needing(600)), h.start(needing(100)), h.start()
		h.passed(h.claimRoom(s, 300, 700, other), false, heavy, light)
		h.equal("since when it waits", h.record(heavy.Run).WaitsSince, h.clock.Now())
		c := h.claimRoom(s, 500, 500, light)
		h.passed(c, true, heavy)
		h.claimRoom(h.session(), 600, 600, heavy)
	}},
	{"Local_AnotherWorkerIsWokenForWhatWasPassedOver", func(h *harness) {
		s, other := h.session(), h.session()
		heavy := h.start(needing(600))
		h.poll(s, orders)
		h.passed(h.claimRoom(s, 100, 100), true, heavy)
		h.equal("woken", h.poll(other, orders).Claim, []int{0})
		h.claimRoom(other, 700, 700, heavy)
	}},
	{"Local_GoesWithLimitsOfTheFleet", func(h *harness) {
		h.limit("pool", 1) // sorts after the memory by name
		s, other := h.session(), h.session()
		both := h.start(using("pool"), needing(300))
		next, memory := h.start(using("pool"), needing(100)), h.start(needing(200))
		c := h.claimRoom(s, 1000, 1000, both, memory)
		h.claimRoom(other, 1000, 1000)
		h.counts("pool", 1, 1)
		h.finish(both, c.Runs[0].Fence, event.StatusCompleted)
		h.passed(h.claimRoom(s, 50, 1000), false, next)
		h.claimRoom(other, 1000, 1000, next)
	}},
	{"Local_WhatADeadWorkerHadIsGivenBack", func(h *harness) {
		s := h.session()
		l := h.start(needing(300))
		other := h.session()
		h.claimRoom(s, 300, 300, l)
		h.counts("memory", 300, 0)
		h.recoverDead(other)
		h.counts("memory", 0, 300)
		h.claimRoom(other, 300, 300, l)
		h.counts("memory", 300, 0)
	}},
	{"Local_AWholeRunIsGivenAgainWhereThereIsRoom", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		l := h.start(using("gpu"), needing(300), whole)
		c := h.claimRoom(s, 300, 300, l)
		h.commit(l, withEffect(l.Commit(c.Runs[0].Fence, l.Work()...), store.EffectYield, ""))
		free := h.start()
		h.passed(h.claimRoom(s, 200, 300, free), false, l)
		h.equal("given", slices.Contains(runsOf(h.claimRoom(s, 300, 300, l).Runs), l.Run), true)
	}},
	{"Local_WhatWasCalledOffNeedsNoRoom", func(h *harness) {
		s := h.session()
		waits := h.start(needing(300))
		h.passed(h.claimRoom(s, 0, 300), false, waits)
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: waits.Run, Item: h.item(), Urgent: true})
		h.check("deliver", err)
		c := h.claimRoom(s, 0, 300, waits)
		h.equal("called off", c.Runs[0].CalledOff, true)
		h.counts("memory", 0, 0)
	}},
	{"Local_WhatIsTooHeavyNeedsNoRoom", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		heavy := h.start(weighing(2), needing(300))
		h.passed(h.claimRoom(s, 0, 300), false, heavy)
		h.limit("gpu", 1)
		c := h.claimRoom(s, 0, 300, heavy)
		h.equal("called off", c.Runs[0].CalledOff, true)
	}},
}
