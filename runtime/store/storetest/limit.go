package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canLimit(s store.Store) bool {
	_, ok := store.As[store.Limiter](s)
	return ok
}

// using makes a run use one weight of each of these limits.
func using(names ...string) func(*store.Create) {
	return func(c *store.Create) {
		for _, name := range names {
			c.Uses = append(c.Uses, store.Use{LimitID: store.LimitID{Name: name}, Weight: 1})
		}
		c.Uses = store.MergeUses(c.Uses)
	}
}

// weighing makes a run use this weight of limit gpu.
func weighing(weight int) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: weight}))
	}
}

func whole(c *store.Create) { c.Whole = true }

// nested marks the uses of a run as nested: a run above it holds other permits until its end.
func nested(c *store.Create) {
	for i := range c.Uses {
		c.Uses[i].Nested = true
	}
}

func (h *harness) setLimits(set ...store.SetLimit) {
	h.Helper()
	l, _ := store.As[store.Limiter](h.store)
	h.check("set limits", l.SetLimits(h.ctx, 0, set))
}

// limit sets a limit that allows atOnce weights at a time.
func (h *harness) limit(name string, atOnce int) {
	h.Helper()
	h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: name}, Config: store.LimitConfig{AtOnce: atOnce}})
}

// limitState returns the state of a limit.
func (h *harness) limitState(name string) store.LimitState {
	h.Helper()
	l, _ := store.As[store.Limiter](h.store)
	all, err := l.Limits(h.ctx, 0, store.LimitID{}, 1000)
	h.check("list limits", err)
	for _, s := range all {
		if s.LimitID == (store.LimitID{Name: name}) {
			return s
		}
	}
	return store.LimitState{LimitID: store.LimitID{Name: name}}
}

// counts fails the test unless these weights of a limit are held and waited for.
func (h *harness) counts(name string, held, waits int) {
	h.Helper()
	got := h.limitState(name)
	h.equal("weights held of limit "+name, got.Held, held)
	h.equal("weights waited for of limit "+name, got.Waits, waits)
}

// one claims one run, and fails the test unless it is the wanted run.
func (h *harness) one(s store.SessionID, want *Log, routes ...store.Route) store.Fence {
	h.Helper()
	got := h.claim(s, 1, routes...)
	if len(got) != 1 || got[0].Run != want.Run {
		h.Fatalf("claim of one run: got %v, want run %s", runsOf(got), want.Run)
	}
	return got[0].Fence
}

func (h *harness) nothing(what string, s store.SessionID, routes ...store.Route) {
	h.Helper()
	if got := h.claim(s, 10, routes...); len(got) > 0 {
		h.Fatalf("claim %s: got %v, want nothing", what, runsOf(got))
	}
}

var limitBehaviors = slices.Concat(permitBehaviors, turnBehaviors, standBehaviors, pauseBehaviors, nestedBehaviors, nextBehaviors, rateBehaviors, holdBackBehaviors, limitAnswerBehaviors, localBehaviors, seizeBehaviors)

var permitBehaviors = []behavior{
	{"L1_CountsAreRebuiltFromFlags", func(h *harness) {
		h.limit("gpu", 5)
		s := h.session()
		for _, w := range []int{1, 2, 3, 4} {
			h.start(weighing(w))
		}
		h.counts("gpu", 0, 10)
		got := h.claim(s, 10)
		h.counts("gpu", 3, 7)
		h.check("release", h.store.Release(h.ctx, got[0].Run, got[0].Fence))
		snap := h.inspect()
		held, waits := 0, 0
		for _, r := range snap.Runs {
			switch {
			case r.Permits:
				held += r.Uses[0].Weight
			case r.Waits():
				waits += r.Uses[0].Weight
			}
		}
		h.counts("gpu", held, waits)
	}},
	{"L1_UnlimitedRunsTouchNothing", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		h.start()
		h.start()
		h.equal("claimed", len(h.claim(s, 10)), 2)
		h.counts("gpu", 0, 0)
	}},
	{"L2_AllPermitsOrNone", func(h *harness) {
		h.limit("a", 1)
		h.limit("b", 1)
		s := h.session()
		only := h.start(using("b"))
		fence := h.one(s, only)
		both := h.start(using("a", "b"))
		h.nothing("while b is held", s)
		h.counts("a", 0, 1)
		h.finish(only, fence, event.StatusCompleted)
		h.one(s, both)
		h.counts("a", 1, 0)
		h.counts("b", 1, 0)
	}},
	{"L2_OneClaimCountsWhatItGivesForOthers", func(h *harness) {
		h.limit("gpu", 1)
		h.limit("disk", 5)
		s := h.session()
		first, both := h.start(using("gpu")), h.start(using("gpu", "disk"))
		got := h.claim(s, 10)
		h.equal("what one claim is given", runsOf(got), []event.RunID{first.Run})
		h.counts("gpu", 1, 1)
		h.finish(first, got[0].Fence, event.StatusCompleted)
		h.one(s, both)
		h.counts("gpu", 1, 0)
	}},
	{"L2_PermitsAreGivenBackWithTheOwner", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		for _, give := range []func(l *Log, f store.Fence){
			func(l *Log, f store.Fence) { h.finish(l, f, event.StatusFailed) },
			func(l *Log, f store.Fence) { h.park(l, f, time.Time{}) },
			func(l *Log, f store.Fence) {
				h.commit(l, withEffect(l.Commit(f, l.Work()...), store.EffectBlock, event.StatusBlocked))
			},
		} {
			l := h.start(using("gpu"))
			fence := h.one(s, l)
			h.counts("gpu", 1, 0)
			give(l, fence)
			h.counts("gpu", 0, 0)
		}
	}},
	{"L2_AWholeRunKeepsItsPermitsWhileItIsParked", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		l := h.start(using("gpu"), whole)
		fence := h.one(s, l)
		h.park(l, fence, time.Time{})
		h.start(using("gpu"))
		h.nothing("while a parked run has the permit", s)
		h.counts("gpu", 1, 1)
		i := h.deliver(l.Run)
		fence = h.one(s, l)
		h.commit(l, consuming(withEffect(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), store.EffectFinish, event.StatusCompleted), i))
		h.counts("gpu", 0, 1)
	}},
	{"L2_RecoverGivesBackUnderANewFence", func(h *harness) {
		h.limit("gpu", 1)
		dead, s := h.session(), h.session()
		l := h.start(using("gpu"))
		fence := h.one(dead, l)
		next := h.start(using("gpu"))
		h.recoverDead(s)
		h.counts("gpu", 0, 2)
		// A recovered run keeps its position.
		h.one(s, l)
		h.unchanged("a late commit of the dead one", func() {
			h.is("commit", h.try(withEffect(l.Commit(fence, l.Work()...), store.EffectPark, event.StatusSleeping)).Err, store.ErrFenced)
		})
		h.nothing("while the recovered run has the permit", s)
		h.state(next.Run, store.StateReady)
	}},
	{"L2_ALateEndGivesBackNothing", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		l := h.start(using("gpu"))
		fence := h.one(s, l)
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		h.one(s, l)
		h.unchanged("a late end under the old fence", func() {
			h.is("commit", h.try(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed)).Err, store.ErrFenced)
			h.is("release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
		})
		h.counts("gpu", 1, 0)
	}},
	{"L2_ClosingASessionGivesBackItsPermits", func(h *harness) {
		h.limit("gpu", 1)
		s, other := h.session(), h.session()
		l := h.start(using("gpu"))
		h.one(s, l)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		h.counts("gpu", 0, 1)
		h.one(other, l)
	}},
	{"L2_AnOwnerAtTheStartTakesThePermits", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		first, c := h.bear(s, using("gpu"))
		h.counts("gpu", 1, 0)
		second := h.newLog(orders, "")
		again := second.Create()
		h.ownedBy(s)(&again)
		using("gpu")(&again)
		h.unchanged("a start that must wait", func() {
			h.is("create", h.create(again).Err, store.ErrNotClaimable)
		})
		h.finish(first, c.Owner.Fence(), event.StatusCompleted)
		h.counts("gpu", 0, 0)
	}},
	{"L3_NoTimeGivesBackAPermit", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		owned, parked := h.start(using("gpu")), h.start(using("gpu"), whole)
		h.one(s, owned)
		h.park(parked, h.one(s, parked), time.Time{})
		waits := h.start(using("gpu"))
		for range 1000 { // more than an hour
			h.clock.Advance(5 * time.Second)
			h.heartbeat(s)
		}
		h.nothing("while both are held", s)
		h.counts("gpu", 2, 1)
		h.deliver(parked.Run)
		h.finish(owned, h.record(owned.Run).Fence, event.StatusCompleted)
		h.equal("claimed", len(h.claim(s, 10)), 2)
		h.state(waits.Run, store.StateOwned)
	}},
	{"L4_ShrinkingLetsHoldersFinish", func(h *harness) {
		h.limit("gpu", 3)
		s := h.session()
		var logs []*Log
		for range 4 {
			logs = append(logs, h.start(using("gpu")))
		}
		got := h.claim(s, 10)
		h.equal("claimed", len(got), 3)
		h.limit("gpu", 1)
		h.counts("gpu", 3, 1)
		h.finish(logs[0], got[0].Fence, event.StatusCompleted)
		h.finish(logs[1], got[1].Fence, event.StatusCompleted)
		h.nothing("while one is held", s)
		h.finish(logs[2], got[2].Fence, event.StatusCompleted)
		h.one(s, logs[3])
	}},
}

var limitAnswerBehaviors = []behavior{
	{"AStartThatIsTooHeavyIsRefused", func(h *harness) {
		h.limit("gpu", 2)
		c := h.newLog(orders, "").Create()
		weighing(3)(&c)
		h.unchanged("a start that is too heavy", func() {
			e := as[*store.LimitError](h, "create", h.create(c).Err)
			h.equal("error", e, &store.LimitError{Limit: store.LimitID{Name: "gpu"}, Weight: 3, AtOnce: 2})
		})
	}},
	{"ALimitMayRefuseInsteadOfLettingWait", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 2, Refuse: true}})
		s := h.session()
		h.start(using("gpu"))
		h.claim(s, 1)
		h.start(using("gpu"))
		c := h.newLog(orders, "").Create()
		using("gpu")(&c)
		h.unchanged("a start that would wait", func() {
			e := as[*store.StartRefusedError](h, "create", h.create(c).Err)
			h.equal("limit", e.Limit, store.LimitID{Name: "gpu"})
		})
	}},
	{"ALimitBoundsThoseWhoWait", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1, Waiting: 2}})
		h.starts(3, using("gpu"))
		c := h.newLog(orders, "").Create()
		using("gpu")(&c)
		isA[*store.StartRefusedError](h, "create", h.create(c).Err)
	}},
	{"LimitsAreListedByNameAndKey", func(h *harness) {
		of := func(name, key string) store.SetLimit {
			return store.SetLimit{LimitID: store.LimitID{Name: name, Key: key}, Config: store.LimitConfig{AtOnce: 2, Rate: 10, Burst: 3, Per: time.Minute, Waiting: 7}}
		}
		code := of("b", "")
		code.Default = true
		h.setLimits(of("c", ""), of("a", "y"), of("a", "x"), code)
		l, _ := store.As[store.Limiter](h.store)
		var got []store.LimitID
		var after store.LimitID
		for {
			page, err := l.Limits(h.ctx, 0, after, 1)
			h.check("list limits", err)
			if len(page) == 0 {
				break
			}
			got, after = append(got, page[0].LimitID), page[0].LimitID
			h.equal("configuration", page[0].Config, code.Config)
			h.equal("is that of the code", page[0].Default, after.Name == "b")
		}
		h.equal("limits", got, []store.LimitID{{Name: "a", Key: "x"}, {Name: "a", Key: "y"}, {Name: "b"}, {Name: "c"}})
	}},
	{"WhatWasSetGoesBeforeTheCode", func(h *harness) {
		code := store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}, Default: true}
		h.setLimits(code)
		h.equal("at once", h.limitState("gpu").Config.AtOnce, 1)
		h.limit("gpu", 5)
		h.setLimits(code)
		h.equal("at once", h.limitState("gpu").Config.AtOnce, 5)
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Reset: true})
		h.equal("at once", h.limitState("gpu").Config.AtOnce, 1)
	}},
	{"BadLimitsAreRefused", func(h *harness) {
		l, _ := store.As[store.Limiter](h.store)
		for _, bad := range []store.SetLimit{
			{}, {LimitID: store.LimitID{Name: "a\x00b"}}, {LimitID: store.LimitID{Name: "a", Key: "\xff"}},
			{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{AtOnce: -1}},
			{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{Rate: 1 << 40}},
			{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{Per: -1}},
			{LimitID: store.LimitID{Name: "a", Key: "k"}, Default: true},
		} {
			h.unchanged("a bad limit", func() {
				isA[*store.InvalidError](h, "set limit", l.SetLimits(h.ctx, 0, []store.SetLimit{bad}))
			})
		}
		for _, bad := range [][]store.Use{
			{{LimitID: store.LimitID{Name: "a"}}},
			{{Weight: 1}},
			{{LimitID: store.LimitID{Name: "b"}, Weight: 1}, {LimitID: store.LimitID{Name: "a"}, Weight: 1}},
			{{LimitID: store.LimitID{Name: "a"}, Weight: 1}, {LimitID: store.LimitID{Name: "a"}, Weight: 2}},
		} {
			c := h.newLog(orders, "").Create()
			c.Uses = bad
			h.unchanged("a start with bad uses", func() { isA[*store.InvalidError](h, "create", h.create(c).Err) })
		}
	}},
	{"TheRecordOfARunSaysWhatItUses", func(h *harness) {
		h.limit("gpu", 1)
		s := h.session()
		held, waits := h.start(using("gpu", "disk")), h.start(weighing(1), whole)
		h.claim(s, 10)
		r := h.record(held.Run)
		h.equal("uses", r.Uses, []store.Use{{LimitID: store.LimitID{Name: "disk"}, Weight: 1}, {LimitID: store.LimitID{Name: "gpu"}, Weight: 1}})
		h.equal("has its permits", r.Permits, true)
		h.equal("waits", r.Waits(), false)
		r = h.record(waits.Run)
		h.equal("whole", r.Whole, true)
		h.equal("waits", r.Waits(), true)
	}},
}
