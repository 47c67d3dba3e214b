package limits

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// standBehaviors test runs that use a keyed limit and a limit without keys: a key that is full or
// paused stops only its own runs.
var standBehaviors = []behavior{
	{"L6_RoomCallsTheThirdOfThreeLinesWithAnEqualTurn", func(h *harness) {
		one, two, three := store.Route{Queue: "x", Workflow: "one"}, store.Route{Queue: "x", Workflow: "three"}, store.Route{Queue: "x", Workflow: "two"}
		holders := store.Route{Queue: "x", Workflow: "holder"}
		s := h.Session(one, two, three, holders)
		var held []*suite.Log
		var fences []store.Fence
		for _, name := range []string{"a", "b", "c"} {
			h.Limit(name, 1)
			held = append(held, h.StartAs(holders, "", using(name)))
			fences = append(fences, h.one(s, held[len(held)-1], holders))
		}
		// The positions of a route begin at the arrival number of its first run, and each new key
		// takes the next position. Therefore the queues of all three routes have position n+4.
		h.StartAs(one, "", fair("1"))
		h.StartAs(two, "", fair("1"))
		waits := h.StartAs(three, "", fair("1"), using("a"))
		h.StartAs(two, "", fair("2"))
		h.StartAs(two, "", fair("3"), using("a", "c"))
		for i := range 3 {
			h.StartAs(one, "", fair(fmt.Sprint(i+2)))
		}
		h.StartAs(one, "", fair("5"), using("a", "b"))
		h.Equal("without limits", len(h.Claim(s, 4, one)), 4)
		h.Equal("without limits", len(h.Claim(s, 2, two)), 2)
		h.nothing("while all is held", s, one)
		h.nothing("while all is held", s, two)
		h.nothing("while all is held", s, three)
		h.Finish(held[0], fences[0], event.StatusCompleted)
		h.one(s, waits, three)
	}},
	{"L5_APausedKeyStopsNoOtherKey", func(h *harness) {
		h.Limit("all", 2)
		h.pauseKey("a", true)
		s := h.Session()
		paused := h.Start(ofTenant("a"))
		h.nothing("of a paused key", s)
		other := h.Start(ofTenant("b"))
		h.Finish(other, h.one(s, other), event.StatusCompleted)
		h.pauseKey("a", false)
		h.one(s, paused)
	}},
	{"L5_APausedKeyStopsNoOtherKeyThatWaitedBefore", func(h *harness) {
		h.Limit("all", 1)
		s := h.Session()
		holder := h.Start(ofTenant("c"))
		fence := h.one(s, holder)
		first, second := h.Start(ofTenant("a")), h.Start(ofTenant("b"))
		h.nothing("while all is held", s)
		h.pauseKey("a", true)
		h.Finish(holder, fence, event.StatusCompleted)
		h.Finish(second, h.one(s, second), event.StatusCompleted)
		h.nothing("of a paused key", s)
		h.pauseKey("a", false)
		h.one(s, first)
	}},
	{"L5_APausedLimitHoldsBackNobodyAtThoseBeforeIt", func(h *harness) {
		h.Limit("cpu", 1)
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1, Paused: true}})
		s := h.Session()
		paused := h.Start(using("cpu", "gpu"))
		h.nothing("of a paused limit", s)
		other := h.Start(using("cpu"))
		h.Finish(other, h.one(s, other), event.StatusCompleted)
		h.Limit("gpu", 1)
		h.one(s, paused)
	}},
	{"L5_ACalledLineLosesItsTurnToAPause", func(h *harness) {
		h.Limit("all", 1)
		s := h.Session()
		holder := h.Start(ofTenant("c"))
		fence := h.one(s, holder)
		h.Start(ofTenant("a"))
		second := h.Start(ofTenant("b"))
		h.nothing("while all is held", s)
		h.Finish(holder, fence, event.StatusCompleted) // this end admits the first queue
		h.pauseKey("a", true)
		h.one(s, second)
	}},
	{"L5_AFullKeyStopsNoOtherKey", func(h *harness) {
		h.Limit("all", 8)
		h.Limit("tenant", 3)
		s := h.Session()
		big := h.starts(24, ofTenant("a"), fair("a"))
		small := h.starts(12, ofTenant("b"), fair("b"))
		begun := map[event.RunID]store.Fence{}
		for _, r := range h.Claim(s, 8) {
			begun[r.Run] = r.Fence
		}
		done := 0
		for range 12 {
			for _, l := range small {
				if fence, ok := begun[l.Run]; ok {
					delete(begun, l.Run)
					h.Finish(l, fence, event.StatusCompleted)
					done++
				}
			}
			for _, r := range h.Claim(s, 8) {
				begun[r.Run] = r.Fence
			}
		}
		held := 0
		for _, l := range big {
			if _, ok := begun[l.Run]; ok {
				held++
			}
		}
		h.Equal("done of the other key", done, len(small))
		h.Equal("held of the full key", held, 3)
	}},
	{"L5_TheRateOfAKeyStopsNoOtherKey", func(h *harness) {
		h.SetLimits(
			store.SetLimit{LimitID: store.LimitID{Name: "tenant"}, Config: store.LimitConfig{Rate: 1, Burst: 1, Per: time.Minute}},
			store.SetLimit{LimitID: store.LimitID{Name: "all"}, Config: store.LimitConfig{Rate: 3, Burst: 3, Per: time.Minute}},
		)
		s := h.Session()
		h.starts(3, ofTenant("a"))
		h.Start(ofTenant("b"))
		h.Start(ofTenant("c"))
		n := len(h.Claim(s, 8))
		n += len(h.Claim(s, 8))
		h.Equal("runs that begin in the first minute", n, 3)
	}},
	{"L5_WhatWaitsForAKeyIsNoReasonToRefuseAnother", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "all"}, Config: store.LimitConfig{AtOnce: 2, Refuse: true}})
		h.pauseKey("a", true)
		s := h.Session()
		h.Start(ofTenant("a"))
		h.nothing("of a paused key", s)
		waiting := h.starts(4, ofTenant("a"))
		first := h.Start(ofTenant("b"))
		h.Equal("waits for its limits", h.Record(first.Run).WaitsSince, time.Time{})
		h.Finish(first, h.one(s, first), event.StatusCompleted)
		owned, fence := h.startOwnedUsing(s, ofTenant("b"))
		h.Finish(owned, fence, event.StatusCompleted)
		h.Equal("away", h.LimitState("all").Away, 1+len(waiting))
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: waiting[0].Run, Item: h.Item(), Urgent: true})
		h.Check("cancel", err)
		h.Equal("away after one has left", h.LimitState("all").Away, len(waiting))
		h.pauseKey("a", false)
		h.Equal("away of an open key", h.LimitState("all").Away, 0)
	}},
	{"L5_WhatHasRoomForItsKeyIsNotPassed", func(h *harness) {
		h.Limit("all", 2)
		s := h.Session()
		holder := h.Start(ofTenant("c"))
		fence := h.one(s, holder)
		heavy := h.Start(ofTenant("a"), func(c *store.Create) { c.Uses[0].Weight = 2 })
		h.nothing("that is heavy", s)
		light := h.Start(ofTenant("b"))
		h.nothing("after the heavy one", s)
		h.Finish(holder, fence, event.StatusCompleted)
		h.Finish(heavy, h.one(s, heavy), event.StatusCompleted)
		h.one(s, light)
	}},
	{"L5_WhatLosesTheRateOfItsFirstLimitHoldsBackNobodyAtTheNextInTheSameClaim", func(h *harness) {
		h.Limit("gpu", 2)
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "disk"}, Config: store.LimitConfig{Rate: 1, Burst: 1, Per: time.Hour}})
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		heavy := h.Start(using("disk"), weighing(2))
		h.nothing("that is heavy", s)
		light := h.Start(using("gpu"))
		h.nothing("after the heavy one", s)
		urgent := h.Start(using("disk"), func(c *store.Create) { c.Priority = 1 })
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{urgent.Run, light.Run})
		h.State(heavy.Run, store.StateReady)
		h.Counts("gpu", 2, 2)
		h.Counts("disk", 1, 1)
	}},
	{"L5_AHeldBackKeyStopsNoOtherKey", func(h *harness) {
		h.Limit("all", 1)
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "tenant"}, Config: store.LimitConfig{Rate: 100, Burst: 5}})
		s := h.Session()
		first := h.Start(ofTenant("a"))
		fence := h.one(s, first)
		h.Start(ofTenant("a"))
		other := h.Start(ofTenant("b"))
		h.nothing("while all is held", s)
		h.holdBack(first, fence, store.EffectFinish, time.Hour)
		h.one(s, other)
	}},
}

// pauseBehaviors test pauses of limits. A pause is independent of the configured and the declared
// values of a limit.
var pauseBehaviors = []behavior{
	{"Pause_IsKeptByWhatIsSetResetAndDeclared", func(h *harness) {
		gpu := store.LimitID{Name: "gpu"}
		declare := func(atOnce int) {
			h.SetLimits(store.SetLimit{LimitID: gpu, Config: store.LimitConfig{AtOnce: atOnce, Rate: 7, Per: 30 * 24 * time.Hour}, Default: true})
		}
		set := func(s store.SetLimit) {
			h.Helper()
			s.LimitID, s.KeepPause = gpu, true
			h.SetLimits(s)
			h.Equal("paused", h.LimitState("gpu").Config.Paused, true)
		}
		declare(1)
		before := h.LimitState("gpu")
		h.pauses(gpu, true)
		s := h.Session()
		l := h.Start(using("gpu"))
		h.nothing("of a paused limit", s)
		declare(2)
		h.Equal("paused by the one before", h.LimitState("gpu").Config, store.LimitConfig{AtOnce: 2, Rate: 7, Per: 30 * 24 * time.Hour, Paused: true})
		set(store.SetLimit{Config: store.LimitConfig{AtOnce: 3}})
		h.Equal("what is set", h.LimitState("gpu").Config.AtOnce, 3)
		declare(1)
		h.Equal("what is set", h.LimitState("gpu").Config.AtOnce, 3)
		set(store.SetLimit{Reset: true})
		h.Equal("what is declared", h.LimitState("gpu").Config.AtOnce, 1)
		h.nothing("of a paused limit", s)
		h.pauses(gpu, false)
		after := h.LimitState("gpu")
		h.Equal("a trace of the pause", []any{after.Config, after.Set, after.Default}, []any{before.Config, false, true})
		h.one(s, l)
	}},
	{"Pause_OfWhatWasSetLeavesThat", func(h *harness) {
		gpu := store.LimitID{Name: "gpu"}
		h.SetLimits(store.SetLimit{LimitID: gpu, Config: store.LimitConfig{AtOnce: 4, Paused: true}, KeepPause: true})
		h.Equal("set", h.LimitState("gpu").Config, store.LimitConfig{AtOnce: 4})
		h.pauses(gpu, true)
		h.pauses(gpu, true)
		h.Equal("paused", h.LimitState("gpu").Config, store.LimitConfig{AtOnce: 4, Paused: true})
		h.pauses(gpu, false)
		h.Equal("resumed", h.LimitState("gpu").Config, store.LimitConfig{AtOnce: 4})
		h.SetLimits(store.SetLimit{LimitID: gpu, Reset: true, KeepPause: true})
		h.Equal("set", h.LimitState("gpu").Set, false)
	}},
	{"Pause_OfAKeyIsKeptByWhatIsSetForAllKeys", func(h *harness) {
		s, key := h.Session(), store.LimitID{Name: "tenant", Key: "c"}
		h.Limit("tenant", 1)
		h.pauses(key, true)
		h.Limit("tenant", 2)
		third := h.Start(ofTenant("c"))
		h.nothing("of a paused key", s)
		h.pauses(key, false)
		h.one(s, third)
		whole, open := store.LimitID{Name: "tenant"}, h.Start(ofTenant("d"))
		h.pauses(whole, true)
		h.nothing("of a paused limit", s)
		h.pauses(store.LimitID{Name: "tenant", Key: "d"}, false) // no effect: the whole limit is paused, not the key
		h.nothing("of a paused limit", s)
		h.pauses(whole, false)
		h.one(s, open)
	}},
	{"Pause_OfALimitPausesKeysWithNumbersOfTheirOwn", func(h *harness) {
		s, whole := h.Session(), store.LimitID{Name: "tenant"}
		own, paused := store.LimitID{Name: "tenant", Key: "own"}, store.LimitID{Name: "tenant", Key: "paused"}
		h.SetLimits(store.SetLimit{LimitID: own, Config: store.LimitConfig{AtOnce: 3}})
		h.pauses(paused, true)
		h.pauses(whole, true)
		first, second := h.Start(ofTenant("own")), h.Start(ofTenant("paused"))
		h.nothing("of a paused limit", s)
		h.pauses(whole, false)
		h.one(s, first)
		h.nothing("of a paused key", s)
		h.pauses(paused, false)
		h.one(s, second)
	}},
}

// pauses pauses or resumes a part of a limit.
func (h *harness) pauses(id store.LimitID, paused bool) {
	h.Helper()
	h.SetLimits(store.SetLimit{LimitID: id, Config: store.LimitConfig{Paused: paused}, PauseOnly: true})
}

// ofTenant makes a run use the given key of the limit tenant, and a limit for all tenants.
func ofTenant(key string) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "all"}, Weight: 1}, {LimitID: store.LimitID{Name: "tenant", Key: key}, Weight: 1}}
	}
}

// pauseKey pauses or resumes one key of the limit tenant.
func (h *harness) pauseKey(key string, paused bool) {
	h.Helper()
	h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "tenant", Key: key}, Config: store.LimitConfig{Paused: paused}})
}

// startOwnedUsing creates a run that a session owns from its creation.
func (h *harness) startOwnedUsing(s store.SessionID, change func(*store.Create)) (*suite.Log, store.Fence) {
	h.Helper()
	owner := store.Owner{Session: s, Token: h.IDs.Token()}
	l := h.Start(change, func(c *store.Create) { c.Owner = &owner })
	return l, owner.Fence()
}
