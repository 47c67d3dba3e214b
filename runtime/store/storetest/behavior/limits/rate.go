package limits

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var rateBehaviors = []behavior{
	{"Rate_HoldsInEverySpan", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 10, Burst: 3}})
		s := h.Session()
		var begun []time.Time
		logs := h.starts(40, using("crm"))
		for len(begun) < len(logs) {
			for _, r := range h.Claim(s, 10) {
				l := logs[slices.IndexFunc(logs, func(l *suite.Log) bool { return l.Run == r.Run })]
				h.Finish(l, r.Fence, event.StatusCompleted)
				begun = append(begun, h.Clock.Now())
			}
			if len(begun) == len(logs) {
				break
			}
			next := h.Heartbeat(s).Next
			if !next.After(h.Clock.Now()) {
				h.Fatalf("next time: got %v at %v", next, h.Clock.Now())
			}
			h.Clock.Advance(next.Sub(h.Clock.Now()))
		}
		for i := range begun { // at most Rate+Burst-1 runs may begin in any span of Per
			if j := i + 12; j < len(begun) && begun[j].Sub(begun[i]) < time.Second {
				h.Errorf("%d runs have begun in %v", j-i+1, begun[j].Sub(begun[i]))
			}
		}
		if took := begun[len(begun)-1].Sub(begun[0]); took != 3700*time.Millisecond {
			h.Errorf("40 runs at 10 per second, 3 at once: got %v, want 3.7s", took)
		}
	}},
	{"Rate_IsNotGivenBack", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 1, Burst: 1}})
		s := h.Session()
		l, next := h.Start(using("crm")), h.Start(using("crm"))
		h.Check("release", h.Store.Release(h.Ctx, l.Run, h.one(s, l)))
		h.nothing("in the same second", s)
		h.Clock.Advance(time.Second)
		h.one(s, l)
		h.Clock.Advance(time.Second)
		h.one(s, next)
	}},
	{"Rate_WhatHasBegunCountsByTheNewOne", func(h *harness) {
		hourly := store.LimitConfig{Rate: 1, Burst: 1, Per: time.Hour}
		for name, c := range map[string]struct {
			first, then store.LimitConfig
			after       time.Duration // how long after the change the next run begins
		}{
			"raised":                    {hourly, store.LimitConfig{Rate: 10, Burst: 1}, 100 * time.Millisecond},
			"lowered":                   {store.LimitConfig{Rate: 2, Burst: 1}, hourly, time.Hour},
			"lowered after a burst":     {store.LimitConfig{Rate: 10, Burst: 10}, hourly, time.Hour},
			"with a burst":              {hourly, store.LimitConfig{Rate: 1, Burst: 2, Per: time.Hour}, 0},
			"without its burst":         {store.LimitConfig{Rate: 1, Burst: 2, Per: time.Hour}, hourly, time.Hour},
			"removed":                   {hourly, store.LimitConfig{}, 0},
			"where there was none":      {store.LimitConfig{AtOnce: 5}, hourly, 0},
			"the same, but bound, too":  {hourly, store.LimitConfig{Rate: 1, Burst: 1, Per: time.Hour, AtOnce: 3}, time.Hour},
			"as many, in a longer time": {hourly, store.LimitConfig{Rate: 24, Burst: 1, Per: 24 * time.Hour}, time.Hour},
		} {
			for _, key := range []string{"", "k"} { // the configuration applies to the limit, or to one of its keys
				h.rated(name+" "+key, store.LimitID{Name: name, Key: key}, c.first, c.then, c.after)
			}
		}
	}},
	{"Rate_AResetCountsWhatHasBegun", func(h *harness) {
		crm := store.LimitID{Name: "crm"}
		h.SetLimits(store.SetLimit{LimitID: crm, Config: store.LimitConfig{Rate: 10, Burst: 1}, Default: true},
			store.SetLimit{LimitID: crm, Config: store.LimitConfig{Rate: 1, Burst: 1, Per: time.Hour}})
		s, logs := h.Session(), h.starts(2, using("crm"))
		h.one(s, logs[0])
		h.nothing("within the hour", s)
		h.SetLimits(store.SetLimit{LimitID: crm, Reset: true})
		h.nothing("within the interval of the code", s)
		h.Equal("next", h.LimitState("crm").Next, h.Clock.Now().Add(100*time.Millisecond))
		h.Clock.Advance(100 * time.Millisecond)
		h.one(s, logs[1])
	}},
	{"Rate_OfAKeyOfItsOwnStaysAsItIs", func(h *harness) {
		of := func(key string) store.LimitID { return store.LimitID{Name: "host", Key: key} }
		using := func(key string) func(*store.Create) {
			return func(c *store.Create) { c.Uses = []store.Use{{LimitID: of(key), Weight: 1}} }
		}
		hourly := store.LimitConfig{Rate: 1, Burst: 1, Per: time.Hour}
		slower := store.LimitConfig{Rate: 1, Burst: 1, Per: 2 * time.Hour}
		h.SetLimits(store.SetLimit{LimitID: of(""), Config: slower}, store.SetLimit{LimitID: of("own"), Config: hourly})
		s := h.Session()
		h.one(s, h.Start(using("own")))
		h.one(s, h.Start(using("other"))) // no run waits for this key when its rate changes
		own := h.Start(using("own"))
		h.SetLimits(store.SetLimit{LimitID: of(""), Config: store.LimitConfig{Rate: 10, Burst: 1}})
		h.Clock.Advance(100 * time.Millisecond)
		h.one(s, h.Start(using("other")))
		h.Clock.Advance(59 * time.Minute)
		h.nothing("of the key whose rate is the same", s)
		h.SetLimits(store.SetLimit{LimitID: of("own"), Reset: true})
		h.Clock.Advance(100 * time.Millisecond)
		h.one(s, own)
	}},
	{"Rate_ThatWasIdleRefusesStartsThatWouldWait", func(h *harness) {
		crm, s := store.LimitID{Name: "crm"}, h.Session()
		for _, tc := range []struct {
			config store.LimitConfig
			starts int // how many starts are accepted
			retry  time.Duration
		}{
			{store.LimitConfig{Rate: 2, Burst: 1, Refuse: true}, 1, 500 * time.Millisecond},
			{store.LimitConfig{Rate: 2, Burst: 3, Refuse: true}, 3, 500 * time.Millisecond},
			{store.LimitConfig{Rate: 2, Burst: 1, Waiting: 2}, 3, 1500 * time.Millisecond},
		} {
			h.SetLimits(store.SetLimit{LimitID: crm, Config: tc.config})
			for _, idle := range []string{"never used", "idle for an hour"} {
				var logs []*suite.Log
				for range tc.starts {
					logs = append(logs, h.Start(using("crm")))
				}
				c := h.NewLog(suite.Orders, "").Create()
				using("crm")(&c)
				e := suite.As[*store.StartRefusedError](h.Harness, idle, h.Create(c).Err)
				h.Equal(fmt.Sprintf("%s: %+v: refusal", idle, tc.config), *e, store.StartRefusedError{Limit: crm, RetryAfter: tc.retry})
				for _, l := range logs {
					h.Finish(l, h.one(s, l), event.StatusCompleted)
					h.Clock.Advance(500 * time.Millisecond)
				}
				h.Clock.Advance(time.Hour)
			}
		}
	}},
	{"Rate_ThatWasIdleReportsWhichRunsWaitForIt", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 2, Burst: 2}})
		var got []bool
		for _, l := range h.starts(4, using("crm")) {
			got = append(got, !h.Record(l.Run).WaitsSince.IsZero())
		}
		h.Equal("waits for the rate", got, []bool{false, false, true, true})
	}},
	{"Rate_APausedLimitLetsNothingBegin", func(h *harness) {
		pause := func(paused bool) {
			h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Paused: paused}})
		}
		s := h.Session()
		pause(true)
		l := h.Start(using("crm"))
		h.nothing("of a paused limit", s)
		h.Poll(s, suite.Orders)
		pause(false)
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int{0})
		h.one(s, l)
	}},
}

var holdBackBehaviors = []behavior{
	{"HoldBack_NothingBeginsByTheRateUntilItIsOver", func(h *harness) {
		s, first, rest := h.holding()
		held := h.one(s, first)
		h.holdBack(first, held, store.EffectFinish, 2*time.Second)
		h.nothing("while the rate is closed", s)
		h.Clock.Advance(1999 * time.Millisecond)
		h.nothing("a millisecond before it opens", s)
		h.Clock.Advance(time.Millisecond)
		h.one(s, rest[0])
		h.nothing("as a burst after that", s)
		h.Clock.Advance(100 * time.Millisecond)
		h.one(s, rest[1])
	}},
	{"HoldBack_HoldsForARunThatStaysOwned", func(h *harness) {
		s, first, rest := h.holding()
		held := h.one(s, first)
		c := h.holdBack(first, held, store.EffectNone, 2*time.Second)
		h.nothing("while the rate is closed", s)
		h.Clock.Advance(time.Second)
		h.Check("the same commit again", h.Try(c).Err) // a repeated commit holds back the rate only once
		h.Clock.Advance(time.Second)
		h.one(s, rest[0])
	}},
	{"HoldBack_AShorterOneOpensNothing", func(h *harness) {
		s, first, rest := h.holding()
		held := h.one(s, first)
		h.holdBack(first, held, store.EffectNone, 2*time.Second)
		h.holdBack(first, held, store.EffectFinish, time.Second)
		h.Clock.Advance(1999 * time.Millisecond)
		h.nothing("while the first one lasts", s)
		h.Clock.Advance(time.Millisecond)
		h.one(s, rest[0])
	}},
	{"HoldBack_AFencedCommitHoldsNothing", func(h *harness) {
		s, first, rest := h.holding()
		old := h.one(s, first)
		h.Check("release", h.Store.Release(h.Ctx, first.Run, old))
		c := first.Commit(old, first.Work()...)
		c.HoldBack = time.Minute
		h.Equal("answer", h.Try(c).Err, store.ErrFenced)
		h.one(s, first)
		h.one(s, rest[0])
	}},
	{"HoldBack_WithoutARateHoldsNothing", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		limited, next, free := h.Start(weighing(1)), h.Start(weighing(1)), h.Start()
		h.holdBack(limited, h.one(s, limited), store.EffectNone, time.Minute)
		h.one(s, next)
		h.holdBack(free, h.one(s, free), store.EffectFinish, time.Minute)
	}},
	{"HoldBack_LastsThoughTheRateIsChanged", func(h *harness) {
		for name, then := range map[string]store.LimitConfig{
			"raised": {Rate: 1000, Burst: 50}, "lowered": {Rate: 1, Burst: 1, Per: time.Hour}, "removed": {},
		} {
			s, first, rest := h.holding()
			h.holdBack(first, h.one(s, first), store.EffectFinish, 2*time.Second)
			h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: then})
			opens := h.Clock.Now().Add(2 * time.Second)
			if then.Rate > 0 {
				h.Equal(name+": next", h.LimitState("crm").Next, opens)
				h.Clock.Advance(2*time.Second - time.Millisecond)
				h.nothing(name+": a millisecond before it opens", s)
				h.Clock.Advance(time.Millisecond)
			}
			h.one(s, rest[0])
			if then.Rate > 0 {
				h.nothing(name+": as a burst after that", s)
			}
			h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{}})
			h.Clock.Advance(2 * time.Second)
			h.one(s, rest[1])
		}
	}},
	{"HoldBack_LastsForADayAtMost", func(h *harness) {
		s, first, _ := h.holding()
		h.holdBack(first, h.one(s, first), store.EffectFinish, 1<<62)
		h.Equal("next", h.LimitState("crm").Next, h.Clock.Now().Add(store.MaxHoldBack))
	}},
}

// rated starts two runs under the configuration named first, claims one of them, and sets the
// configuration named then. It fails the test unless the other run begins exactly after the given
// duration.
func (h *harness) rated(what string, id store.LimitID, first, then store.LimitConfig, after time.Duration) {
	h.Helper()
	route := store.Route{Queue: suite.Orders.Queue, Workflow: what}
	start := func(weight int) {
		h.StartAs(route, "", func(c *store.Create) { c.Uses = []store.Use{{LimitID: id, Weight: weight}} })
	}
	h.SetLimits(store.SetLimit{LimitID: id, Config: first})
	s := h.Session()
	begin := func() bool { return len(h.Claim(s, 1, route)) == 1 }
	start(max(first.Burst/2, 1)) // uses up a part of the burst
	start(1)
	h.Equal(what+": the first begins", begin(), true)
	if first.Burst == 1 { // other configurations let the next run begin at once
		h.Equal(what+": the next begins before", begin(), false) // the claim closes the queue until the rate opens
	}
	h.SetLimits(store.SetLimit{LimitID: id, Config: then})
	if after > 0 {
		h.Clock.Advance(after - time.Millisecond)
		h.Equal(what+": the next begins a millisecond before", begin(), false)
		h.Clock.Advance(time.Millisecond)
	}
	h.Equal(what+": the next begins", begin(), true)
}

// holding creates three runs that use a limit with a rate of 10 per second and a burst of 3. It
// returns a session, the first run and the other two.
func (h *harness) holding() (store.SessionID, *suite.Log, []*suite.Log) {
	h.Helper()
	h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 10, Burst: 3}})
	logs := h.starts(3, using("crm"))
	return h.Session(), logs[0], logs[1:]
}

// holdBack commits work or the end of a run. The commit holds back the rates that the run uses for
// d.
func (h *harness) holdBack(l *suite.Log, fence store.Fence, e store.Effect, d time.Duration) store.Commit {
	h.Helper()
	c := l.Commit(fence, l.Work()...)
	if e == store.EffectFinish {
		c = suite.WithEffect(l.Commit(fence, l.End(event.StatusCompleted)...), e, event.StatusCompleted)
	}
	c.HoldBack = d
	h.Commit(l, c)
	return c
}
