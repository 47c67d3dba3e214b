package limits

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// fair gives a run a fairness key.
func fair(key string) func(*store.Create) {
	return func(c *store.Create) { c.Fair = key }
}

func fairly(key string, share int) func(*store.Create) {
	return func(c *store.Create) { c.Fair, c.Share = key, share }
}

// served claims n runs one after the other, and returns how many runs of each fairness key were
// claimed. It calls after with each claimed run. If after is nil, the runs remain owned.
func (h *harness) served(s store.SessionID, n int, keys map[event.RunID]string, after func(run event.RunID, f store.Fence)) map[string]int {
	h.Helper()
	got := map[string]int{}
	for range n {
		claimed := h.Claim(s, 1)
		if len(claimed) != 1 {
			h.Fatalf("claim of one run: got %v", suite.RunsOf(claimed))
		}
		got[keys[claimed[0].Run]]++
		if after != nil {
			after(claimed[0].Run, claimed[0].Fence)
		}
	}
	return got
}

// come creates n runs of a fairness key, and adds them to keys.
func (h *harness) come(keys map[event.RunID]string, key string, n int, change ...func(*store.Create)) []*suite.Log {
	h.Helper()
	logs := h.starts(n, append(change, func(c *store.Create) { c.Fair = key })...)
	for _, l := range logs {
		keys[l.Run] = key
	}
	return logs
}

// fairKeys fails the test unless the store counts the wanted number of ready runs with fairness
// keys in the route orders.
func (h *harness) fairKeys(what string, want int) {
	h.Helper()
	all := map[store.FairID]int{}
	if want > 0 {
		all[store.FairID{Route: suite.Orders}] = want
	}
	got := h.Inspect().FairKeys
	if got == nil {
		got = map[store.FairID]int{}
	}
	h.Equal("runs in flows "+what, got, all)
}

var shareBehaviors = []behavior{
	{"Shares_KeysTakeTurns", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 6)
		h.come(keys, "bolt", 2)
		h.Equal("the first four", h.served(s, 4, keys, nil), map[string]int{"acme": 2, "bolt": 2})
		h.Equal("the others", h.served(s, 4, keys, nil), map[string]int{"acme": 4})
	}},
	{"Shares_OneClaimOfManyIsFair", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 30)
		h.come(keys, "bolt", 10)
		got := map[string]int{}
		for _, r := range h.Claim(s, 16) {
			got[keys[r.Run]]++
		}
		h.Equal("claimed", got, map[string]int{"acme": 8, "bolt": 8})
	}},
	{"Shares_ABacklogDelaysNobodyElse", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 50)
		h.served(s, 10, keys, nil)
		h.one(s, h.come(keys, "bolt", 1)[0])
		h.one(s, h.come(keys, "core", 1)[0])
		h.Equal("then", h.served(s, 5, keys, nil), map[string]int{"acme": 5})
	}},
	{"Shares_AreByWeight", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 12, fairly("", 3))
		h.come(keys, "bolt", 12)
		h.Equal("the first eight", h.served(s, 8, keys, nil), map[string]int{"acme": 6, "bolt": 2})
		h.Equal("the next eight", h.served(s, 8, keys, nil), map[string]int{"acme": 6, "bolt": 2})
	}},
	{"Shares_ComingBackGainsNothing", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 20)
		h.come(keys, "visitor", 1)
		got := h.served(s, 20, keys, func(run event.RunID, _ store.Fence) {
			if keys[run] == "visitor" {
				h.come(keys, "visitor", 1)
			}
		})
		h.Equal("served", got, map[string]int{"acme": 10, "visitor": 10})
	}},
	{"Shares_WhoWasAwayGetsNothingForIt", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 30)
		h.come(keys, "bolt", 1)
		h.served(s, 12, keys, nil)
		h.come(keys, "bolt", 10) // no run of this key was claimed in the last ten claims
		h.Equal("served", h.served(s, 10, keys, nil), map[string]int{"acme": 5, "bolt": 5})
	}},
	{"Shares_AreWithinAPriority", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		urgent := func(c *store.Create) { c.Priority = 5 }
		h.come(keys, "acme", 6)
		h.come(keys, "bolt", 6)
		h.come(keys, "acme", 4, urgent)
		h.Equal("of the higher priority", h.served(s, 4, keys, nil), map[string]int{"acme": 4})
		h.Equal("then", h.served(s, 4, keys, nil), map[string]int{"acme": 2, "bolt": 2})
	}},
	{"Shares_ARunWithoutAKeyGoesByItsArrival", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		before := h.come(keys, "acme", 2)
		plain := h.Start()
		after := h.come(keys, "acme", 1)
		for _, l := range append(before, plain, after[0]) {
			h.one(s, l)
		}
	}},
	{"Shares_KeysThatAlwaysWaitDoNotKeepARunWithoutAKey", func(h *harness) {
		for _, route := range []store.Route{suite.Orders, suite.Refunds} {
			s, keys := h.Session(suite.Orders, suite.Refunds), map[event.RunID]string{}
			for i := range 10 {
				h.come(keys, fmt.Sprint("key ", i), 1)
			}
			again := func(n int, until event.RunID) int { // again claims n runs and replaces each by a new run of its key
				for i := range n {
					got := h.Claim(s, 1, suite.Orders, suite.Refunds)
					if len(got) != 1 || got[0].Run == until {
						return i
					}
					h.come(keys, keys[got[0].Run], 1)
				}
				return n
			}
			again(200, "")
			plain := h.StartAs(route, "")
			if n := again(200, plain.Run); n > 20 {
				h.Fatalf("a run of %v that came when 10 others waited was passed by %d, want at most two rounds", route, n)
			}
			h.Claim(s, 100, suite.Orders, suite.Refunds)
		}
	}},
	{"Shares_HoldInTheLinesOfLimits", func(h *harness) {
		h.Limit("gpu", 1)
		s, keys := h.Session(), map[event.RunID]string{}
		logs := map[event.RunID]*suite.Log{}
		for _, l := range append(h.come(keys, "acme", 6, using("gpu")), h.come(keys, "bolt", 2, using("gpu"))...) {
			logs[l.Run] = l
		}
		end := func(run event.RunID, f store.Fence) { h.Finish(logs[run], f, event.StatusCompleted) }
		h.Equal("the first four", h.served(s, 4, keys, end), map[string]int{"acme": 2, "bolt": 2})
		late := h.come(keys, "core", 1, using("gpu"))[0]
		h.Finish(late, h.one(s, late), event.StatusCompleted)
		h.Equal("the others", h.served(s, 4, keys, end), map[string]int{"acme": 4})
		h.fairKeys("in the end", 0)
	}},
	{"Shares_AHeavyClaimIsNotPassedByNewKeys", func(h *harness) {
		h.Limit("gpu", 2)
		s, keys := h.Session(), map[event.RunID]string{}
		holder := h.come(keys, "acme", 1, using("gpu"))[0]
		fence := h.one(s, holder)
		heavy := h.come(keys, "acme", 1, weighing(2))[0]
		h.nothing("while the heavy one waits", s)
		bolt, core := h.come(keys, "bolt", 1, using("gpu"))[0], h.come(keys, "core", 1, using("gpu"))[0]
		h.nothing("that comes after the heavy one", s)
		h.Finish(holder, fence, event.StatusCompleted)
		fence = h.one(s, heavy)
		h.nothing("while the heavy one holds all", s)
		h.Finish(heavy, fence, event.StatusCompleted)
		h.one(s, bolt)
		h.one(s, core)
	}},
	{"Shares_ARecoveryKeepsItsPlaceAYieldComesAnew", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		acme := h.come(keys, "acme", 3)
		fence := h.one(s, acme[0])
		bolt := h.come(keys, "bolt", 1)[0]
		h.Check("release", h.Store.Release(h.Ctx, acme[0].Run, fence))
		fence = h.one(s, acme[0])
		h.Commit(acme[0], suite.WithEffect(acme[0].Commit(fence, acme[0].Work()...), store.EffectYield, ""))
		for _, l := range []*suite.Log{bolt, acme[1], acme[2], acme[0]} {
			h.one(s, l)
		}
	}},
	{"Shares_WhatWakesComesAnew", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		sleeper := h.come(keys, "acme", 1)[0]
		h.Park(sleeper, h.one(s, sleeper), h.Clock.Now().Add(time.Hour))
		acme := h.come(keys, "acme", 2)
		h.fairKeys("while one sleeps", 2)
		h.Clock.Advance(2 * time.Hour)
		h.Heartbeat(s)
		for _, l := range []*suite.Log{acme[0], acme[1], sleeper} {
			h.one(s, l)
		}
	}},
	{"Shares_AnOwnerTakesNobodysTurn", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 1)
		l := h.NewLog(suite.Orders, "")
		c := l.Create()
		c.Fair, c.Owner = "bolt", &store.Owner{Session: s, Token: h.IDs.Token()}
		h.Equal("create with an owner", h.Create(c).Err, store.ErrNotClaimable)
		h.Claim(s, 1)
		answer := h.Create(c)
		h.Equal("created", answer.Err, nil)
		h.Equal("owned", answer.Fence.Epoch, uint64(1))
	}},
	{"Shares_ACanceledWaiterLeavesItsFlow", func(h *harness) {
		h.Limit("gpu", 1)
		s, keys := h.Session(), map[event.RunID]string{}
		h.one(s, h.come(keys, "acme", 1, using("gpu"))[0])
		waits := h.come(keys, "acme", 2, using("gpu"))
		h.fairKeys("while two wait", 2)
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: waits[0].Run, Item: h.Item(), Urgent: true})
		h.Check("deliver", err)
		h.fairKeys("while one waits", 1)
		got := h.Claim(s, 10)
		h.Equal("claimed", suite.RunsOf(got), []event.RunID{waits[0].Run})
		h.Equal("called off", got[0].LeftQueue, true)
		h.fairKeys("while one waits", 1)
	}},
	{"Shares_WhoIsCanceledMovesNobody", func(h *harness) {
		h.Limit("gpu", 1)
		s, keys := h.Session(), map[event.RunID]string{}
		acme := h.come(keys, "acme", 4, using("gpu"))
		fence := h.one(s, acme[0])
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: acme[3].Run, Item: h.Item(), Urgent: true})
		h.Check("deliver", err)
		h.one(s, acme[3]) // a canceled run must be claimed before it can end
		late := h.come(keys, "bolt", 1, using("gpu"))[0]
		h.Finish(acme[0], fence, event.StatusCompleted)
		for _, l := range []*suite.Log{late, acme[1], acme[2]} {
			h.Finish(l, h.one(s, l), event.StatusCompleted)
		}
	}},
	{"Shares_ACanceledWaiterHasNoTurnAgain", func(h *harness) {
		h.Limit("gpu", 1)
		s, keys := h.Session(), map[event.RunID]string{}
		h.one(s, h.come(keys, "acme", 1, using("gpu"))[0])
		waits := h.come(keys, "acme", 2, using("gpu"))
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: waits[0].Run, Item: h.Item(), Urgent: true})
		h.Check("deliver", err)
		h.Check("release", h.Store.Release(h.Ctx, waits[0].Run, h.one(s, waits[0])))
		h.fairKeys("after its owner has given it back", 1)
		h.one(s, waits[0])
		h.fairKeys("once it is owned again", 1)
	}},
	{"Shares_WhoNeedsNoPermitsKeepsItsTurnThoughCanceled", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		acme := h.come(keys, "acme", 2)
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: acme[0].Run, Item: h.Item(), Urgent: true})
		h.Check("deliver", err)
		h.fairKeys("after one was canceled", 2)
		got := h.Claim(s, 10)
		h.Equal("claimed", suite.RunsOf(got), []event.RunID{acme[0].Run, acme[1].Run})
		h.Equal("called off", got[0].LeftQueue, false)
		h.fairKeys("once both are owned", 0)
	}},
	{"Shares_KeysThatComeForTheFirstTimeGoInTheirOrder", func(h *harness) {
		s := h.Session()
		var logs []*suite.Log
		for range 8 {
			logs = append(logs, h.NewLog(suite.Orders, ""))
		}
		slices.Reverse(logs) // so that the order of run IDs differs from the order of creation
		for i, l := range logs {
			c := l.Create()
			c.Fair = fmt.Sprint("key ", (i*5)%8)
			h.Equal("created", h.Create(c).Err, nil)
		}
		for _, l := range logs {
			h.one(s, l)
		}
	}},
	{"Shares_AClaimOfManyCountsAsSoManyTurns", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		h.come(keys, "acme", 10)
		h.Equal("claimed at once", len(h.Claim(s, 5)), 5)
		h.come(keys, "bolt", 10)
		h.Equal("the next six", h.served(s, 6, keys, nil), map[string]int{"acme": 3, "bolt": 3})
	}},
	{"Shares_AKeyGoesOnWhereItWasThoughManyOthersPassBy", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		acme := h.come(keys, "acme", 10)
		for i := range 100 {
			h.one(s, acme[i])
			acme = append(acme, h.come(keys, "acme", 1)...)
			h.one(s, h.come(keys, fmt.Sprint("passer-by ", i), 1)[0])
		}
	}},
	{"Shares_WhoIsClaimedByNameLeavesItsFlow", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		acme := h.come(keys, "acme", 6)
		h.Check("claim of the fourth", h.ClaimRun(s, acme[3]))
		h.fairKeys("while five wait", 5)
		late := h.come(keys, "bolt", 1)[0] // this run enters after the fourth run, which has begun
		for _, l := range []*suite.Log{acme[0], acme[1], acme[2], late, acme[4]} {
			h.one(s, l)
		}
		h.fairKeys("while one waits", 1)
	}},
	{"Shares_WhatIsBlockedLeavesItsFlow", func(h *harness) {
		s, keys := h.Session(), map[event.RunID]string{}
		l := h.come(keys, "acme", 1)[0]
		h.Block(l, h.one(s, l))
		h.fairKeys("while it is blocked", 0)
		other := h.SessionWith("v2")
		fence := h.one(other, l)
		h.fairKeys("while it is owned", 0)
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		h.fairKeys("while it waits", 1)
		h.nothing("of the code that has blocked it", s)
		h.fairKeys("while that has put it aside", 0)
		h.one(other, l)
	}},
	{"Shares_AreKeptWithTheRun", func(h *harness) {
		l := h.Start(fairly("acme", 3))
		other := h.Start(fair("bolt"))
		h.fairKeys("while two wait", 2)
		for _, c := range []struct {
			l     *suite.Log
			fair  string
			share int
		}{{l, "acme", 3}, {other, "bolt", 1}} {
			r := h.Load(c.l.Run).Record
			h.Equal("fair key", r.Fair, c.fair)
			h.Equal("share", r.Share, c.share)
		}
	}},
	{"Shares_BadOnesAreRefused", func(h *harness) {
		for _, change := range []func(*store.Create){fairly("acme", -1), fairly("acme", store.MaxShare+1), fairly("", 1), fair("a\x00b")} {
			c := h.NewLog(suite.Orders, "").Create()
			change(&c)
			_, invalid := errors.AsType[*store.InvalidError](h.Create(c).Err)
			h.Equal("refused", invalid, true)
		}
	}},
}
