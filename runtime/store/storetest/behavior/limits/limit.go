// Package limits contains the behaviours of limits: permits, positions, rates, pauses, fair shares,
// and claims that give a free permit to a waiting run.
package limits

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Groups contains the behaviours of this package.
var Groups = []suite.Group{
	{Behaviors: suite.Tests(limitBehaviors, shareBehaviors), Needs: suite.Has[store.Limiter]},
	{Behaviors: suite.Tests(shownBehaviors), Needs: func(s store.Store) bool { return suite.Has[store.Limiter](s) && suite.Has[store.TurnReader](s) }},
}

type behavior suite.Behavior[harness]

// harness extends the harness of the suite with requests about limits.
type harness struct{ *suite.Harness }

// using makes a run use a weight of one of each named limit.
func using(names ...string) func(*store.Create) {
	return func(c *store.Create) {
		for _, name := range names {
			c.Uses = append(c.Uses, store.Use{LimitID: store.LimitID{Name: name}, Weight: 1})
		}
		c.Uses = store.MergeUses(c.Uses)
	}
}

// weighing makes a run use the given weight of the limit gpu.
func weighing(weight int) func(*store.Create) {
	return func(c *store.Create) {
		c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: weight}))
	}
}

func whole(c *store.Create) { c.Whole = true }

// nested marks the uses of a run as nested, as if one of its ancestors held other permits until its
// end.
func nested(c *store.Create) {
	for i := range c.Uses {
		c.Uses[i].Nested = true
	}
}

// one claims one run and returns its fence. It fails the test if the claim returns a run other
// than want.
func (h *harness) one(s store.SessionID, want *suite.Log, routes ...store.Route) store.Fence {
	h.Helper()
	got := h.Claim(s, 1, routes...)
	if len(got) != 1 || got[0].Run != want.Run {
		h.Fatalf("claim of one run: got %v, want run %s", suite.RunsOf(got), want.Run)
	}
	return got[0].Fence
}

func (h *harness) nothing(what string, s store.SessionID, routes ...store.Route) {
	h.Helper()
	if got := h.Claim(s, 10, routes...); len(got) > 0 {
		h.Fatalf("claim %s: got %v, want nothing", what, suite.RunsOf(got))
	}
}

var limitBehaviors = slices.Concat(permitBehaviors, turnBehaviors, standBehaviors, pauseBehaviors, nestedBehaviors, nextBehaviors, rateBehaviors, holdBackBehaviors, limitAnswerBehaviors, localBehaviors, seizeBehaviors)

var permitBehaviors = []behavior{
	{"L1_CountsAreRebuiltFromFlags", func(h *harness) {
		h.Limit("gpu", 5)
		s := h.Session()
		for _, w := range []int{1, 2, 3, 4} {
			h.Start(weighing(w))
		}
		h.Counts("gpu", 0, 10)
		got := h.Claim(s, 10)
		h.Counts("gpu", 3, 7)
		h.Check("release", h.Store.Release(h.Ctx, got[0].Run, got[0].Fence))
		snap := h.Inspect()
		held, waits := 0, 0
		for _, r := range snap.Runs {
			switch {
			case r.Permits:
				held += r.Uses[0].Weight
			case r.Waits():
				waits += r.Uses[0].Weight
			}
		}
		h.Counts("gpu", held, waits)
	}},
	{"L1_UnlimitedRunsTouchNothing", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		h.Start()
		h.Start()
		h.Equal("claimed", len(h.Claim(s, 10)), 2)
		h.Counts("gpu", 0, 0)
	}},
	{"L2_AllPermitsOrNone", func(h *harness) {
		h.Limit("a", 1)
		h.Limit("b", 1)
		s := h.Session()
		only := h.Start(using("b"))
		fence := h.one(s, only)
		both := h.Start(using("a", "b"))
		h.nothing("while b is held", s)
		h.Counts("a", 0, 1)
		h.Finish(only, fence, event.StatusCompleted)
		h.one(s, both)
		h.Counts("a", 1, 0)
		h.Counts("b", 1, 0)
	}},
	{"L2_OneClaimCountsWhatItGivesForOthers", func(h *harness) {
		h.Limit("gpu", 1)
		h.Limit("disk", 5)
		s := h.Session()
		first, both := h.Start(using("gpu")), h.Start(using("gpu", "disk"))
		got := h.Claim(s, 10)
		h.Equal("what one claim is given", suite.RunsOf(got), []event.RunID{first.Run})
		h.Counts("gpu", 1, 1)
		h.Finish(first, got[0].Fence, event.StatusCompleted)
		h.one(s, both)
		h.Counts("gpu", 1, 0)
	}},
	{"L2_PermitsAreGivenBackWithTheOwner", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		for _, give := range []func(l *suite.Log, f store.Fence){
			func(l *suite.Log, f store.Fence) { h.Finish(l, f, event.StatusFailed) },
			func(l *suite.Log, f store.Fence) { h.Park(l, f, time.Time{}) },
			func(l *suite.Log, f store.Fence) {
				h.Commit(l, suite.WithEffect(l.Commit(f, l.Work()...), store.EffectBlock, event.StatusBlocked))
			},
		} {
			l := h.Start(using("gpu"))
			fence := h.one(s, l)
			h.Counts("gpu", 1, 0)
			give(l, fence)
			h.Counts("gpu", 0, 0)
		}
	}},
	{"L2_AWholeRunKeepsItsPermitsWhileItIsParked", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		l := h.Start(using("gpu"), whole)
		fence := h.one(s, l)
		h.Park(l, fence, time.Time{})
		h.Start(using("gpu"))
		h.nothing("while a parked run has the permit", s)
		h.Counts("gpu", 1, 1)
		i := h.Deliver(l.Run)
		fence = h.one(s, l)
		h.Commit(l, suite.Consuming(suite.WithEffect(l.Commit(fence, append(l.Receive(i), l.End(event.StatusCompleted)...)...), store.EffectFinish, event.StatusCompleted), i))
		h.Counts("gpu", 0, 1)
	}},
	{"L2_AClosingRunThatParksKeepsItsPermits", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		l := h.Start(using("gpu"), whole)
		c := suite.WithEffect(l.Commit(h.one(s, l), l.Work()...), store.EffectPark, event.StatusWaiting)
		c.Closing = true
		h.Commit(l, c)
		h.Start(using("gpu"))
		h.nothing("while a parked run has the permit", s)
		h.Counts("gpu", 1, 1)
		h.Deliver(l.Run)
		h.one(s, l)
	}},
	{"L2_RecoverGivesBackUnderANewFence", func(h *harness) {
		h.Limit("gpu", 1)
		dead, s := h.Session(), h.Session()
		l := h.Start(using("gpu"))
		fence := h.one(dead, l)
		next := h.Start(using("gpu"))
		h.RecoverDead(s)
		h.Counts("gpu", 0, 2)
		// A recovered run keeps its position.
		h.one(s, l)
		h.Unchanged("a late commit of the dead one", func() {
			h.Is("commit", h.Try(suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectPark, event.StatusSleeping)).Err, store.ErrFenced)
		})
		h.nothing("while the recovered run has the permit", s)
		h.State(next.Run, store.StateReady)
	}},
	{"L2_ALateEndGivesBackNothing", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		l := h.Start(using("gpu"))
		fence := h.one(s, l)
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		h.one(s, l)
		h.Unchanged("a late end under the old fence", func() {
			h.Is("commit", h.Try(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed)).Err, store.ErrFenced)
			h.Is("release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
		})
		h.Counts("gpu", 1, 0)
	}},
	{"L2_ClosingASessionGivesBackItsPermits", func(h *harness) {
		h.Limit("gpu", 1)
		s, other := h.Session(), h.Session()
		l := h.Start(using("gpu"))
		h.one(s, l)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.Counts("gpu", 0, 1)
		h.one(other, l)
	}},
	{"L2_AnOwnerAtTheStartTakesThePermits", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		first, c := h.Bear(s, using("gpu"))
		h.Counts("gpu", 1, 0)
		second := h.NewLog(suite.Orders, "")
		again := second.Create()
		h.OwnedBy(s)(&again)
		using("gpu")(&again)
		h.Unchanged("a start that must wait", func() {
			h.Is("create", h.Create(again).Err, store.ErrNotClaimable)
		})
		h.Finish(first, c.Owner.Fence(), event.StatusCompleted)
		h.Counts("gpu", 0, 0)
	}},
	{"L3_NoTimeGivesBackAPermit", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		owned, parked := h.Start(using("gpu")), h.Start(using("gpu"), whole)
		h.one(s, owned)
		h.Park(parked, h.one(s, parked), time.Time{})
		waits := h.Start(using("gpu"))
		for range 1000 { // 1000 times 5 s are more than an hour
			h.Clock.Advance(5 * time.Second)
			h.Heartbeat(s)
		}
		h.nothing("while both are held", s)
		h.Counts("gpu", 2, 1)
		h.Deliver(parked.Run)
		h.Finish(owned, h.Record(owned.Run).Fence, event.StatusCompleted)
		h.Equal("claimed", len(h.Claim(s, 10)), 2)
		h.State(waits.Run, store.StateOwned)
	}},
	{"L4_ShrinkingLetsHoldersFinish", func(h *harness) {
		h.Limit("gpu", 3)
		s := h.Session()
		var logs []*suite.Log
		for range 4 {
			logs = append(logs, h.Start(using("gpu")))
		}
		got := h.Claim(s, 10)
		h.Equal("claimed", len(got), 3)
		h.Limit("gpu", 1)
		h.Counts("gpu", 3, 1)
		h.Finish(logs[0], got[0].Fence, event.StatusCompleted)
		h.Finish(logs[1], got[1].Fence, event.StatusCompleted)
		h.nothing("while one is held", s)
		h.Finish(logs[2], got[2].Fence, event.StatusCompleted)
		h.one(s, logs[3])
	}},
}

var limitAnswerBehaviors = []behavior{
	{"AStartThatIsTooHeavyIsRefused", func(h *harness) {
		h.Limit("gpu", 2)
		c := h.NewLog(suite.Orders, "").Create()
		weighing(3)(&c)
		h.Unchanged("a start that is too heavy", func() {
			e := suite.As[*store.LimitError](h.Harness, "create", h.Create(c).Err)
			h.Equal("error", e, &store.LimitError{Limit: store.LimitID{Name: "gpu"}, Weight: 3, AtOnce: 2})
		})
	}},
	{"ALimitMayRefuseInsteadOfLettingWait", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 2, Refuse: true}})
		s := h.Session()
		h.Start(using("gpu"))
		h.Claim(s, 1)
		h.Start(using("gpu"))
		c := h.NewLog(suite.Orders, "").Create()
		using("gpu")(&c)
		h.Unchanged("a start that would wait", func() {
			e := suite.As[*store.StartRefusedError](h.Harness, "create", h.Create(c).Err)
			h.Equal("limit", e.Limit, store.LimitID{Name: "gpu"})
		})
	}},
	{"ALimitBoundsThoseWhoWait", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1, Waiting: 2}})
		h.starts(3, using("gpu"))
		c := h.NewLog(suite.Orders, "").Create()
		using("gpu")(&c)
		suite.IsA[*store.StartRefusedError](h.Harness, "create", h.Create(c).Err)
	}},
	{"LimitsAreListedByNameAndKey", func(h *harness) {
		of := func(name, key string) store.SetLimit {
			return store.SetLimit{LimitID: store.LimitID{Name: name, Key: key}, Config: store.LimitConfig{AtOnce: 2, Rate: 10, Burst: 3, Per: time.Minute, Waiting: 7}}
		}
		code := of("b", "")
		code.Default = true
		h.SetLimits(of("c", ""), of("a", "y"), of("a", "x"), code)
		l, _ := store.As[store.Limiter](h.Store)
		var got []store.LimitID
		var after store.LimitID
		for {
			page, err := l.Limits(h.Ctx, 0, after, 1)
			h.Check("list limits", err)
			if len(page) == 0 {
				break
			}
			got, after = append(got, page[0].LimitID), page[0].LimitID
			h.Equal("configuration", page[0].Config, code.Config)
			h.Equal("is that of the code", page[0].Default, after.Name == "b")
		}
		h.Equal("limits", got, []store.LimitID{{Name: "a", Key: "x"}, {Name: "a", Key: "y"}, {Name: "b"}, {Name: "c"}})
	}},
	{"WhatWasSetGoesBeforeTheCode", func(h *harness) {
		code := store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}, Default: true}
		h.SetLimits(code)
		h.Equal("at once", h.LimitState("gpu").Config.AtOnce, 1)
		h.Limit("gpu", 5)
		h.SetLimits(code)
		h.Equal("at once", h.LimitState("gpu").Config.AtOnce, 5)
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Reset: true})
		h.Equal("at once", h.LimitState("gpu").Config.AtOnce, 1)
	}},
	{"BadLimitsAreRefused", func(h *harness) {
		l, _ := store.As[store.Limiter](h.Store)
		for _, bad := range []store.SetLimit{
			{}, {LimitID: store.LimitID{Name: "a\x00b"}}, {LimitID: store.LimitID{Name: "a", Key: "\xff"}},
			{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{AtOnce: -1}},
			{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{Rate: 1 << 40}},
			{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{Per: -1}},
			{LimitID: store.LimitID{Name: "a", Key: "k"}, Default: true},
		} {
			h.Unchanged("a bad limit", func() {
				suite.IsA[*store.InvalidError](h.Harness, "set limit", l.SetLimits(h.Ctx, 0, []store.SetLimit{bad}))
			})
		}
		for _, bad := range [][]store.Use{
			{{LimitID: store.LimitID{Name: "a"}}},
			{{Weight: 1}},
			{{LimitID: store.LimitID{Name: "b"}, Weight: 1}, {LimitID: store.LimitID{Name: "a"}, Weight: 1}},
			{{LimitID: store.LimitID{Name: "a"}, Weight: 1}, {LimitID: store.LimitID{Name: "a"}, Weight: 2}},
		} {
			c := h.NewLog(suite.Orders, "").Create()
			c.Uses = bad
			h.Unchanged("a start with bad uses", func() { suite.IsA[*store.InvalidError](h.Harness, "create", h.Create(c).Err) })
		}
	}},
	{"TheRecordOfARunSaysWhatItUses", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		held, waits := h.Start(using("gpu", "disk")), h.Start(weighing(1), whole)
		h.Claim(s, 10)
		r := h.Record(held.Run)
		h.Equal("uses", r.Uses, []store.Use{{LimitID: store.LimitID{Name: "disk"}, Weight: 1}, {LimitID: store.LimitID{Name: "gpu"}, Weight: 1}})
		h.Equal("has its permits", r.Permits, true)
		h.Equal("waits", r.Waits(), false)
		r = h.Record(waits.Run)
		h.Equal("whole", r.Whole, true)
		h.Equal("waits", r.Waits(), true)
	}},
}
