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

// using lets a run use limits: one weight of each.
func using(names ...string) func(*store.Create) {
	return func(c *store.Create) {
		for _, name := range names {
			c.Uses = append(c.Uses, store.Use{LimitID: store.LimitID{Name: name}, Weight: 1})
		}
		c.Uses = store.MergeUses(c.Uses)
	}
}

// weighing lets a run use so much of a limit.
func weighing(name string, weight int) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: name}, Weight: weight}))
	}
}

func whole(c *store.Create) { c.Whole = true }

func (h *harness) setLimits(set ...store.SetLimit) {
	h.Helper()
	l, _ := store.As[store.Limiter](h.store)
	h.check("set limits", l.SetLimits(h.ctx, 0, set))
}

// limit sets a limit of so many at once.
func (h *harness) limit(name string, atOnce int) {
	h.Helper()
	h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: name}, Config: store.LimitConfig{AtOnce: atOnce}})
}

// limitState returns how a limit stands.
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

// counts fails the test unless so much of a limit is held, and waited for.
func (h *harness) counts(name string, held, waits int) {
	h.Helper()
	got := h.limitState(name)
	h.equal("weights held of limit "+name, got.Held, held)
	h.equal("weights waited for of limit "+name, got.Waits, waits)
}

// one claims one run, and fails the test unless it is this.
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

var limitBehaviors = slices.Concat(permitBehaviors, turnBehaviors, rateBehaviors, limitAnswerBehaviors)

var permitBehaviors = []behavior{
	{"L1_CountsAreRebuiltFromFlags", func(h *harness) {
		h.limit("gpu", 5)
		s := h.session()
		for _, w := range []int{1, 2, 3, 4} {
			h.start(weighing("gpu", w))
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
		// A run that was recovered keeps its place.
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

// A start that is made while nobody waits, and those after it.
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
		heavy := h.start(weighing("gpu", 2))
		light := h.start(using("gpu"))
		h.nothing("while the heavy one waits", s)
		h.finish(holder, fence, event.StatusCompleted)
		fence = h.one(s, heavy)
		h.nothing("while the heavy one holds all", s)
		h.finish(heavy, fence, event.StatusCompleted)
		h.one(s, light)
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
	{"L6_AGrantCallsTheNext", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		both := h.start(weighing("gpu", 2))
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
		heavy := h.start(weighing("gpu", 2))
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
		heavy := h.start(weighing("gpu", 3))
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
	{"L8_AClaimThatLeavesOpenLinesWakesAgain", func(h *harness) {
		h.limit("gpu", 2)
		s := h.session()
		h.starts(2, using("gpu"))
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.claim(s, 1)
		h.equal("woken again", h.poll(s, orders).Claim, []int{0})
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

var rateBehaviors = []behavior{
	{"Rate_HoldsInEverySpan", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 10, Burst: 3}})
		s := h.session()
		var begun []time.Time
		logs := h.starts(40, using("crm"))
		for len(begun) < len(logs) {
			for _, r := range h.claim(s, 10) {
				l := logs[slices.IndexFunc(logs, func(l *Log) bool { return l.Run == r.Run })]
				h.finish(l, r.Fence, event.StatusCompleted)
				begun = append(begun, h.clock.Now())
			}
			if len(begun) == len(logs) {
				break
			}
			next := h.heartbeat(s).Next
			if !next.After(h.clock.Now()) {
				h.Fatalf("next time: got %v at %v", next, h.clock.Now())
			}
			h.clock.Advance(next.Sub(h.clock.Now()))
		}
		for i := range begun { // Rate+Burst-1 in any span of Per
			if j := i + 12; j < len(begun) && begun[j].Sub(begun[i]) < time.Second {
				h.Errorf("%d runs have begun in %v", j-i+1, begun[j].Sub(begun[i]))
			}
		}
		if took := begun[len(begun)-1].Sub(begun[0]); took != 3700*time.Millisecond {
			h.Errorf("40 runs at 10 per second, 3 at once: got %v, want 3.7s", took)
		}
	}},
	{"Rate_IsNotGivenBack", func(h *harness) {
		h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 1, Burst: 1}})
		s := h.session()
		l, next := h.start(using("crm")), h.start(using("crm"))
		h.check("release", h.store.Release(h.ctx, l.Run, h.one(s, l)))
		h.nothing("in the same second", s)
		h.clock.Advance(time.Second)
		h.one(s, l)
		h.clock.Advance(time.Second)
		h.one(s, next)
	}},
	{"Rate_APausedLimitLetsNothingBegin", func(h *harness) {
		pause := func(paused bool) {
			h.setLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Paused: paused}})
		}
		s := h.session()
		pause(true)
		l := h.start(using("crm"))
		h.nothing("of a paused limit", s)
		h.poll(s, orders)
		pause(false)
		h.equal("woken", h.poll(s, orders).Claim, []int{0})
		h.one(s, l)
	}},
}

var limitAnswerBehaviors = []behavior{
	{"AStartThatIsTooHeavyIsRefused", func(h *harness) {
		h.limit("gpu", 2)
		c := h.newLog(orders, "").Create()
		weighing("gpu", 3)(&c)
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
		held, waits := h.start(using("gpu", "disk")), h.start(weighing("gpu", 1), whole)
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
