package storetest

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// standBehaviors test runs that use a keyed limit and a limit without keys: a key that is full or
// paused stops only its own runs.
var standBehaviors = []behavior{
	{"L6_RoomCallsTheThirdOfThreeLinesWithAnEqualTurn", func(h *harness) {
		one, two, three := store.Route{Queue: "x", Workflow: "one"}, store.Route{Queue: "x", Workflow: "three"}, store.Route{Queue: "x", Workflow: "two"}
		holders := store.Route{Queue: "x", Workflow: "holder"}
		s := h.session(one, two, three, holders)
		var held []*Log
		var fences []store.Fence
		for _, name := range []string{"a", "b", "c"} {
			h.limit(name, 1)
			held = append(held, h.startAs(holders, "", using(name)))
			fences = append(fences, h.one(s, held[len(held)-1], holders))
		}
		// The positions of a route begin at the arrival number of its first run, and each new key
		// takes the next position. So all three runs reach position n+4.
		h.startAs(one, "", fair("1"))
		h.startAs(two, "", fair("1"))
		waits := h.startAs(three, "", fair("1"), using("a"))
		h.startAs(two, "", fair("2"))
		h.startAs(two, "", fair("3"), using("a", "c"))
		for i := range 3 {
			h.startAs(one, "", fair(fmt.Sprint(i+2)))
		}
		h.startAs(one, "", fair("5"), using("a", "b"))
		h.equal("without limits", len(h.claim(s, 4, one)), 4)
		h.equal("without limits", len(h.claim(s, 2, two)), 2)
		h.nothing("while all is held", s, one)
		h.nothing("while all is held", s, two)
		h.nothing("while all is held", s, three)
		h.finish(held[0], fences[0], event.StatusCompleted)
		h.one(s, waits, three)
	}},
	{"L5_APausedKeyStopsNoOtherKey", func(h *harness) {
		h.limit("all", 2)
		h.pauseKey("a", true)
		s := h.session()
		paused := h.start(ofTenant("a"))
		h.nothing("of a paused key", s)
		other := h.start(ofTenant("b"))
		h.finish(other, h.one(s, other), event.StatusCompleted)
		h.pauseKey("a", false)
		h.one(s, paused)
	}},
	{"L5_APausedKeyStopsNoOtherKeyThatWaitedBefore", func(h *harness) {
		h.limit("all", 1)
		s := h.session()
		holder := h.start(ofTenant("c"))
		fence := h.one(s, holder)
		first, second := h.start(ofTenant("a")), h.start(ofTenant("b"))
		h.nothing("while all is held", s)
		h.pauseKey("a", true)
		h.finish(holder, fence, event.StatusCompleted)
		h.finish(second, h.one(s, second), event.StatusCompleted)
		h.nothing("of a paused key", s)
		h.pauseKey("a", false)
		h.one(s, first)
	}},
	{"L5_APausedLimitHoldsBackNobodyAtThoseBeforeIt", func(h *harness) {
		h.limit("cpu", 1)
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1, Paused: true}})
		s := h.session()
		paused := h.start(using("cpu", "gpu"))
		h.nothing("of a paused limit", s)
		other := h.start(using("cpu"))
		h.finish(other, h.one(s, other), event.StatusCompleted)
		h.limit("gpu", 1)
		h.one(s, paused)
	}},
	{"L5_ACalledLineLosesItsTurnToAPause", func(h *harness) {
		h.limit("all", 1)
		s := h.session()
		holder := h.start(ofTenant("c"))
		fence := h.one(s, holder)
		h.start(ofTenant("a"))
		second := h.start(ofTenant("b"))
		h.nothing("while all is held", s)
		h.finish(holder, fence, event.StatusCompleted) // admits the first queue
		h.pauseKey("a", true)
		h.one(s, second)
	}},
	{"L5_AFullKeyStopsNoOtherKey", func(h *harness) {
		h.limit("all", 8)
		h.limit("tenant", 3)
		s := h.session()
		big := h.starts(24, ofTenant("a"), fair("a"))
		small := h.starts(12, ofTenant("b"), fair("b"))
		begun := map[event.RunID]store.Fence{}
		for _, r := range h.claim(s, 8) {
			begun[r.Run] = r.Fence
		}
		done := 0
		for range 12 {
			for _, l := range small {
				if fence, ok := begun[l.Run]; ok {
					delete(begun, l.Run)
					h.finish(l, fence, event.StatusCompleted)
					done++
				}
			}
			for _, r := range h.claim(s, 8) {
				begun[r.Run] = r.Fence
			}
		}
		held := 0
		for _, l := range big {
			if _, ok := begun[l.Run]; ok {
				held++
			}
		}
		h.equal("done of the other key", done, len(small))
		h.equal("held of the full key", held, 3)
	}},
	{"L5_TheRateOfAKeyStopsNoOtherKey", func(h *harness) {
		h.setLimits(
			store.SetLimit{LimitID: store.LimitID{Name: "tenant"}, Config: store.LimitConfig{Rate: 1, Burst: 1, Per: time.Minute}},
			store.SetLimit{LimitID: store.LimitID{Name: "all"}, Config: store.LimitConfig{Rate: 3, Burst: 3, Per: time.Minute}},
		)
		s := h.session()
		h.starts(3, ofTenant("a"))
		h.start(ofTenant("b"))
		h.start(ofTenant("c"))
		n := len(h.claim(s, 8))
		n += len(h.claim(s, 8))
		h.equal("runs that begin in the first minute", n, 3)
	}},
	{"L5_WhatWaitsForAKeyIsNoReasonToRefuseAnother", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "all"}, Config: store.LimitConfig{AtOnce: 2, Refuse: true}})
		h.pauseKey("a", true)
		s := h.session()
		h.start(ofTenant("a"))
		h.nothing("of a paused key", s)
		waiting := h.starts(4, ofTenant("a"))
		first := h.start(ofTenant("b"))
		h.equal("waits for its limits", h.record(first.Run).WaitsSince, time.Time{})
		h.finish(first, h.one(s, first), event.StatusCompleted)
		owned, fence := h.startOwnedUsing(s, ofTenant("b"))
		h.finish(owned, fence, event.StatusCompleted)
		h.equal("away", h.limitState("all").Away, 1+len(waiting))
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: waiting[0].Run, Item: h.item(), Urgent: true})
		h.check("cancel", err)
		h.equal("away after one has left", h.limitState("all").Away, len(waiting))
		h.pauseKey("a", false)
		h.equal("away of an open key", h.limitState("all").Away, 0)
	}},
	{"L5_WhatHasRoomForItsKeyIsNotPassed", func(h *harness) {
		h.limit("all", 2)
		s := h.session()
		holder := h.start(ofTenant("c"))
		fence := h.one(s, holder)
		heavy := h.start(ofTenant("a"), func(c *store.Create) { c.Uses[0].Weight = 2 })
		h.nothing("that is heavy", s)
		light := h.start(ofTenant("b"))
		h.nothing("after the heavy one", s)
		h.finish(holder, fence, event.StatusCompleted)
		h.finish(heavy, h.one(s, heavy), event.StatusCompleted)
		h.one(s, light)
	}},
	{"L5_AHeldBackKeyStopsNoOtherKey", func(h *harness) {
		h.limit("all", 1)
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "tenant"}, Config: store.LimitConfig{Rate: 100, Burst: 5}})
		s := h.session()
		first := h.start(ofTenant("a"))
		fence := h.one(s, first)
		h.start(ofTenant("a"))
		other := h.start(ofTenant("b"))
		h.nothing("while all is held", s)
		h.holdBack(first, fence, store.EffectFinish, time.Hour)
		h.one(s, other)
	}},
}

// pauseBehaviors test pauses of limits. A pause is a flag of its own beside the configured and
// declared values.
var pauseBehaviors = []behavior{
	{"Pause_IsKeptByWhatIsSetResetAndDeclared", func(h *harness) {
		gpu := store.LimitID{Name: "gpu"}
		declare := func(atOnce int) {
			h.setLimits(store.SetLimit{LimitID: gpu, Config: store.LimitConfig{AtOnce: atOnce, Rate: 7, Per: 30 * 24 * time.Hour}, Default: true})
		}
		set := func(s store.SetLimit) {
			h.Helper()
			s.LimitID, s.KeepPause = gpu, true
			h.setLimits(s)
			h.equal("paused", h.limitState("gpu").Config.Paused, true)
		}
		declare(1)
		before := h.limitState("gpu")
		h.pauses(gpu, true)
		s := h.session()
		l := h.start(using("gpu"))
		h.nothing("of a paused limit", s)
		declare(2)
		h.equal("paused by the one before", h.limitState("gpu").Config, store.LimitConfig{AtOnce: 2, Rate: 7, Per: 30 * 24 * time.Hour, Paused: true})
		set(store.SetLimit{Config: store.LimitConfig{AtOnce: 3}})
		h.equal("what is set", h.limitState("gpu").Config.AtOnce, 3)
		declare(1)
		h.equal("what is set", h.limitState("gpu").Config.AtOnce, 3)
		set(store.SetLimit{Reset: true})
		h.equal("what is declared", h.limitState("gpu").Config.AtOnce, 1)
		h.nothing("of a paused limit", s)
		h.pauses(gpu, false)
		after := h.limitState("gpu")
		h.equal("a trace of the pause", []any{after.Config, after.Set, after.Default}, []any{before.Config, false, true})
		h.one(s, l)
	}},
	{"Pause_OfWhatWasSetLeavesThat", func(h *harness) {
		gpu := store.LimitID{Name: "gpu"}
		h.setLimits(store.SetLimit{LimitID: gpu, Config: store.LimitConfig{AtOnce: 4, Paused: true}, KeepPause: true})
		h.equal("set", h.limitState("gpu").Config, store.LimitConfig{AtOnce: 4})
		h.pauses(gpu, true)
		h.pauses(gpu, true)
		h.equal("paused", h.limitState("gpu").Config, store.LimitConfig{AtOnce: 4, Paused: true})
		h.pauses(gpu, false)
		h.equal("resumed", h.limitState("gpu").Config, store.LimitConfig{AtOnce: 4})
		h.setLimits(store.SetLimit{LimitID: gpu, Reset: true, KeepPause: true})
		h.equal("set", h.limitState("gpu").Set, false)
	}},
	{"Pause_OfAKeyIsKeptByWhatIsSetForAllKeys", func(h *harness) {
		s, key := h.session(), store.LimitID{Name: "tenant", Key: "c"}
		h.limit("tenant", 1)
		h.pauses(key, true)
		h.limit("tenant", 2)
		third := h.start(ofTenant("c"))
		h.nothing("of a paused key", s)
		h.pauses(key, false)
		h.one(s, third)
		whole, open := store.LimitID{Name: "tenant"}, h.start(ofTenant("d"))
		h.pauses(whole, true)
		h.nothing("of a paused limit", s)
		h.pauses(store.LimitID{Name: "tenant", Key: "d"}, false) // the key itself is not paused
		h.nothing("of a paused limit", s)
		h.pauses(whole, false)
		h.one(s, open)
	}},
	{"Pause_OfALimitPausesKeysWithNumbersOfTheirOwn", func(h *harness) {
		s, whole := h.session(), store.LimitID{Name: "tenant"}
		own, paused := store.LimitID{Name: "tenant", Key: "own"}, store.LimitID{Name: "tenant", Key: "paused"}
		h.setLimits(store.SetLimit{LimitID: own, Config: store.LimitConfig{AtOnce: 3}})
		h.pauses(paused, true)
		h.pauses(whole, true)
		first, second := h.start(ofTenant("own")), h.start(ofTenant("paused"))
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
	h.setLimits(store.SetLimit{LimitID: id, Config: store.LimitConfig{Paused: paused}, PauseOnly: true})
}

// ofTenant makes a run use the key of a tenant, and a limit for all tenants.
func ofTenant(key string) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "all"}, Weight: 1}, {LimitID: store.LimitID{Name: "tenant", Key: key}, Weight: 1}}
	}
}

// pauseKey pauses or resumes the key of a tenant.
func (h *harness) pauseKey(key string, paused bool) {
	h.Helper()
	h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "tenant", Key: key}, Config: store.LimitConfig{Paused: paused}})
}

// startOwnedUsing creates a run that a session owns from its creation.
func (h *harness) startOwnedUsing(s store.SessionID, change func(*store.Create)) (*Log, store.Fence) {
	h.Helper()
	owner := store.Owner{Session: s, Token: h.ids.Token()}
	l := h.start(change, func(c *store.Create) { c.Owner = &owner })
	return l, owner.Fence()
}
