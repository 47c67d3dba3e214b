package storetest_test

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// limiting is a store that changes the settings and the reported states of limits.
type limiting struct {
	edit

	set  func(ctx context.Context, set *store.SetLimit)
	done func(ctx context.Context) // called after SetLimits has succeeded
	told func(ctx context.Context, all []store.LimitState) []store.LimitState
}

func (l limiting) SetLimits(ctx context.Context, partition int, set []store.SetLimit) error {
	set = slices.Clone(set)
	for i := range set {
		if l.set != nil {
			l.set(ctx, &set[i])
		}
	}
	err := l.limiter().SetLimits(ctx, partition, set)
	if err == nil && l.done != nil {
		l.done(ctx)
	}
	return err
}

func (l limiting) Limits(ctx context.Context, partition int, after store.LimitID, limit int) ([]store.LimitState, error) {
	all, err := l.limiter().Limits(ctx, partition, after, limit)
	if l.told != nil {
		all = l.told(ctx, all)
	}
	return all, err
}

func (w wrapper) limiter() store.Limiter {
	l, _ := store.As[store.Limiter](w.Store)
	return l
}

// uses returns a constructor of stores that change the creation of runs with limits.
func uses(change func(w wrapper, c *store.Create)) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if len(c.Uses) > 0 {
				c.Uses = slices.Clone(c.Uses)
				change(w, c)
			}
			return nil
		}}
	}
}

// commits returns a constructor of stores that change the commits of runs with limits.
func commits(change func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState) *store.Committed) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && len(r.Uses) > 0 {
				return change(ctx, w, c, r)
			}
			return nil
		}}
	}
}

// sets returns a constructor of stores that change the settings of limits.
func sets(change func(set *store.SetLimit)) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return limiting{edit: edit{wrapper: w}, set: func(_ context.Context, set *store.SetLimit) { change(set) }}
	}
}

// widened returns a constructor of stores that raise every AtOnce by one during each claim for
// which now returns true.
func widened(now func(w wrapper) bool) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, claim: func(ctx context.Context, _ *store.Claim, got *store.Claimed) {
			n := 1
			if got != nil {
				n = -1
			}
			if !now(w) {
				return
			}
			for id, l := range w.snapshot(ctx).Limits {
				l.Config.AtOnce += n
				_ = w.limiter().SetLimits(ctx, 0, []store.SetLimit{{LimitID: id, Config: l.Config}})
			}
		}}
	}
}

// takeWakes takes the wakes of all routes with limiter queues, so that the store notifies no worker
// of them.
func (w wrapper) takeWakes(ctx context.Context) {
	snap := w.snapshot(ctx)
	wait := store.Wait{Until: w.Clock().Now()}
	for _, l := range snap.Waiting {
		wait.Routes = append(wait.Routes, l.Route)
	}
	for s := range maps.Keys(snap.Leases) {
		wait.Sessions = []store.WaitSession{{Session: s}}
		_, _ = w.Wait(ctx, wait)
	}
}

// evict releases runs whose permits exceed the capacity of a limit.
func evict(ctx context.Context, w wrapper) {
	for id, l := range w.snapshot(ctx).Limits {
		for _, r := range w.snapshot(ctx).Runs {
			over := l.Config.AtOnce > 0 && w.snapshot(ctx).Limits[id].Held > l.Config.AtOnce
			if over && r.Permits && slices.ContainsFunc(r.Uses, func(u store.Use) bool { return u.LimitID == id }) {
				_ = w.Release(ctx, r.Run, r.Fence)
			}
		}
	}
}

// unclosed is a store that ignores CloseSession, so that sessions keep their runs until their
// leases expire.
type unclosed struct{ wrapper }

func (unclosed) CloseSession(context.Context, int, store.SessionID) error { return nil }

// runningClock is a clock that is ahead of the wrapped clock.
type runningClock struct {
	store.Clock
	ahead atomic.Int64
}

func (c *runningClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

var limitFaults = map[string]fault{
	"permits are counted by runs": {"L1_CountsAreRebuiltFromFlags", func(w wrapper) store.Store {
		return limiting{edit: edit{wrapper: w}, told: func(ctx context.Context, all []store.LimitState) []store.LimitState {
			for i := range all {
				all[i].Held = 0
				for _, r := range w.snapshot(ctx).Runs {
					if r.Permits {
						all[i].Held++
					}
				}
			}
			return all
		}}
	}},
	"every run takes a permit": {"L1_UnlimitedRunsTouchNothing", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			c.Uses = []store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}}
			return nil
		}}
	}},
	"a run takes the permits of its first limit": {"L2_AllPermitsOrNone", uses(func(_ wrapper, c *store.Create) { c.Uses = c.Uses[:1] })},
	"a claim takes one permit too many":          {"L2_ConcurrentClaimersNeverExceed", widened(func(wrapper) bool { return true })},
	"a claim counts what it gives at its end":    {"L2_OneClaimCountsWhatItGivesForOthers", widened(func(wrapper) bool { return true })},
	"a run that is parked keeps its permits":     {"L2_PermitsAreGivenBackWithTheOwner", uses(func(_ wrapper, c *store.Create) { c.Whole = true })},
	"a whole run has permits while it is owned":  {"L2_AWholeRunKeepsItsPermitsWhileItIsParked", uses(func(_ wrapper, c *store.Create) { c.Whole = false })},
	"a dead owner gives back what the next one has": {"L2_RecoverGivesBackUnderANewFence", commits(func(_ context.Context, _ wrapper, c *store.Commit, r *store.RunState) *store.Committed {
		c.Fence = r.Fence
		return nil
	})},
	"a late release gives back what the owner has": {"L2_ALateEndGivesBackNothing", func(w wrapper) store.Store {
		return edit{wrapper: w, release: func(ctx context.Context, run event.RunID, fence *store.Fence) {
			if r := w.state(ctx, run); r != nil && r.Permits {
				*fence = r.Fence
			}
		}}
	}},
	"a closed session keeps its permits":         {"L2_ClosingASessionGivesBackItsPermits", func(w wrapper) store.Store { return unclosed{w} }},
	"a run that is created owned has no permits": {"L2_AnOwnerAtTheStartTakesThePermits", createsOwned(func(_ context.Context, _ wrapper, c *store.Create) *store.Created { c.Uses = nil; return nil })},
	"a permit is lent for an hour": {"L3_NoTimeGivesBackAPermit", func(w wrapper) store.Store {
		end := w.Clock().Now().Add(time.Hour)
		return widened(func(w wrapper) bool { return w.Clock().Now().After(end) })(w)
	}},
	"shrinking takes permits from their holders": {"L4_ShrinkingLetsHoldersFinish", func(w wrapper) store.Store {
		return limiting{edit: edit{wrapper: w}, done: func(ctx context.Context) { evict(ctx, w) }}
	}},
	"giving back asks for the capacity": {"L4_ShrinkingLetsHoldersFinish", commits(func(ctx context.Context, w wrapper, _ *store.Commit, r *store.RunState) *store.Committed {
		for _, u := range r.Uses {
			if l := w.snapshot(ctx).Limits[u.LimitID]; l.Held > l.Config.AtOnce {
				return &store.Committed{Err: store.ErrLater}
			}
		}
		return nil
	})},
	"heavy claims are passed": {"L5_AHeavyClaimIsNotPassed", uses(func(_ wrapper, c *store.Create) { c.Priority -= c.Uses[0].Weight })},
	"nested runs are kept back by all": {"L5_ANestedRunPassesWhoWaitsForWhatIsHeldAboveIt", uses(func(_ wrapper, c *store.Create) {
		for i := range c.Uses {
			c.Uses[i].Nested = false
		}
	})},
	"nested runs pass all": {"L5_ANestedRunIsKeptBackByWhoWaitsForNothingElse", uses(func(_ wrapper, c *store.Create) {
		if c.Uses[0].Nested {
			c.Priority = 9
		}
	})},
	"runs that use limits have no priority": {"L5_HigherPrioritiesGoFirst", uses(func(_ wrapper, c *store.Create) { c.Priority = 0 })},
	"one limit holds up the others":         {"L5_AnotherLimitIsNotHeldUp", uses(func(_ wrapper, c *store.Create) { c.Uses[0].Name = "a" })},
	"the parts of a limit are one":          {"L5_PartsOfALimitAreApart", uses(func(_ wrapper, c *store.Create) { c.Uses[0].Key = "" })},
	"who comes last goes first": {"L5_WaitersGoInOrder", func(w wrapper) store.Store {
		last := 0
		return uses(func(_ wrapper, c *store.Create) { last++; c.Priority = last })(w)
	}},
	"who waits for less goes first": {"L5_ACommitThatHandsOnCallsWhoComesNext", uses(func(_ wrapper, c *store.Create) { c.Priority = -len(c.Uses) })},
	"who gives back a permit tells nobody": {"L6_EveryWayToMakeRoomCalls", commits(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
		got, err := w.Commit(ctx, []store.Commit{*c})
		if err != nil {
			return &store.Committed{Err: err}
		}
		w.takeWakes(ctx)
		return &got[0]
	})},
	"more room is told to nobody": {"L6_EveryWayToMakeRoomCalls", func(w wrapper) store.Store {
		return limiting{edit: edit{wrapper: w}, done: w.takeWakes}
	}},
	"a grant tells nobody": {"L6_AGrantCallsTheNext", notifiesNone},
	"what a commit hands on is not in its answer": {"L6_ACommitThatGivesBackAPermitHandsItOnOnce", commits(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
		got, err := w.Commit(ctx, []store.Commit{*c})
		if err != nil {
			return &store.Committed{Err: err}
		}
		got[0].Next = store.Claimed{}
		return &got[0]
	})},
	"what a commit leaves is told to nobody": {"L6_ACommitThatClaimsAnnouncesWhatItLeaves", commits(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
		got, err := w.Commit(ctx, []store.Commit{*c})
		if err != nil {
			return &store.Committed{Err: err}
		}
		w.takeWakes(ctx)
		return &got[0]
	})},
	"a called line keeps its turn for no time": {"L7_ACallKeepsItsTurn", func(w wrapper) store.Store {
		return edit{wrapper: w, claim: func(_ context.Context, _ *store.Claim, got *store.Claimed) {
			if c, ok := w.Clock().(*runningClock); ok && got == nil {
				c.ahead.Add(int64(5 * time.Second))
			}
		}}
	}},
	"nobody is told when a call has ended": {"L7_ACallThatNobodyAnswersLosesItsTurnNotItsPlace", func(w wrapper) store.Store {
		return edit{wrapper: w, beat: func(b *store.Heartbeat) { b.Next = time.Time{} }}
	}},
	"a claim that leaves some tells nobody":                       {"L8_AClaimThatLeavesOpenLinesWakesAgain", notifiesNone},
	"a claim of a named run tells nobody of the rest of its line": {"L8_AClaimOfANamedRunThatLeavesAnOpenLineWakes", func(w wrapper) store.Store { return quiet{w} }},
	"a claim of a named run tells nobody of whom it calls":        {"L8_AClaimOfANamedRunWakesForTheNextThatItCalls", func(w wrapper) store.Store { return quiet{w} }},
	"who yields keeps its place": {"L8_AYieldComesAnewARecoveryKeepsItsPlace", commits(func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState) *store.Committed {
		if c.Effect != store.EffectYield {
			return nil
		}
		c.Effect = store.EffectNone
		got, err := w.Commit(ctx, []store.Commit{*c})
		if err == nil {
			err = w.Release(ctx, r.Run, r.Fence)
		}
		if err != nil {
			return &store.Committed{Err: err}
		}
		return &got[0]
	})},
	"a canceled run stays in its line": {"L9_ACanceledWaiterLeaves", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = false; return nil }}
	}},
	"a canceled run that parked comes into line": {"L9_ACanceledRunThatParkedComesIntoNoLine", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = false; return nil }}
	}},
	"a canceled run that is blocked comes into line": {"L9_ACanceledRunThatIsBlockedIsGivenByName", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = false; return nil }}
	}},
	"a canceled run comes out of one line into another": {"L9_ACanceledRunInLineForItsWorkflowIDComesIntoNoOtherLine", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = false; return nil }}
	}},
	"every message takes a run out of its line": {"L9_AnOrdinaryMessageLeavesAWaiterInItsLine", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = true; return nil }}
	}},
	"a run without its permits does not know": {"L9_WhatIsTooHeavyNowGoesWithoutPermits", func(w wrapper) store.Store {
		return edit{wrapper: w, claim: func(_ context.Context, _ *store.Claim, got *store.Claimed) {
			if got == nil {
				return
			}
			for i := range got.Runs {
				got.Runs[i].LeftQueue = false
			}
		}}
	}},
	"a rate has no bursts":  {"Rate_HoldsInEverySpan", sets(func(set *store.SetLimit) { set.Config.Burst = 1 })},
	"a rate has all bursts": {"Rate_HoldsInEverySpan", sets(func(set *store.SetLimit) { set.Config.Burst = set.Config.Rate })},
	"a rate is given back": {"Rate_IsNotGivenBack", func(w wrapper) store.Store {
		return edit{wrapper: w, release: func(ctx context.Context, run event.RunID, _ *store.Fence) {
			for _, u := range w.state(ctx, run).Uses {
				_ = w.limiter().SetLimits(ctx, 0, []store.SetLimit{{LimitID: u.LimitID, Reset: true}})
			}
		}}
	}},
	"a paused limit lets all begin": {"Rate_APausedLimitLetsNothingBegin", sets(func(set *store.SetLimit) { set.Config.Paused = false })},
	"nothing holds back": {"HoldBack_NothingBeginsByTheRateUntilItIsOver", commits(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
		c.HoldBack = 0
		return nil
	})},
	"who holds back must give up its run": {"HoldBack_HoldsForARunThatStaysOwned", commits(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
		if c.Effect == store.EffectNone {
			c.HoldBack = 0
		}
		return nil
	})},
	"a capacity is held back": {"HoldBack_WithoutARateHoldsNothing", commits(func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState) *store.Committed {
		if c.HoldBack > 0 {
			_ = w.limiter().SetLimits(ctx, 0, []store.SetLimit{{LimitID: r.Uses[0].LimitID, Config: store.LimitConfig{Paused: true}}})
		}
		return nil
	})},
	"a rate is held back by whoever asks": {"HoldBack_AFencedCommitHoldsNothing", commits(func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState) *store.Committed {
		if c.HoldBack > 0 {
			_ = w.limiter().SetLimits(ctx, 0, []store.SetLimit{{LimitID: r.Uses[0].LimitID, Config: store.LimitConfig{Paused: true}}})
		}
		return nil
	})},
	"a start that is too heavy waits for ever": {"AStartThatIsTooHeavyIsRefused", uses(func(_ wrapper, c *store.Create) { c.Uses[0].Weight = 1 })},
	"no limit refuses":                         {"ALimitMayRefuseInsteadOfLettingWait", sets(func(set *store.SetLimit) { set.Config.Refuse = false })},
	"any number may wait":                      {"ALimitBoundsThoseWhoWait", sets(func(set *store.SetLimit) { set.Config.Waiting = 0 })},
	"limits are listed backwards": {"LimitsAreListedByNameAndKey", func(w wrapper) store.Store {
		return limiting{edit: edit{wrapper: w}, told: func(ctx context.Context, all []store.LimitState) []store.LimitState {
			if len(all) == 1 {
				every, _ := w.limiter().Limits(ctx, 0, store.LimitID{}, 0)
				i := slices.IndexFunc(every, func(l store.LimitState) bool { return l.LimitID == all[0].LimitID })
				all = []store.LimitState{every[len(every)-1-i]}
			}
			return all
		}}
	}},
	"the code goes before what was set": {"WhatWasSetGoesBeforeTheCode", sets(func(set *store.SetLimit) { set.Default = false })},
	"bad limits are mended":             {"BadLimitsAreRefused", sets(func(set *store.SetLimit) { set.Config.AtOnce = max(set.Config.AtOnce, 0) })},
	"a record does not tell of limits":  {"TheRecordOfARunSaysWhatItUses", func(w wrapper) store.Store { return mute{w} }},
}

// limitHistoryFaults contains faults that change no record of a run. Random histories detect them
// by their effects on claims.
var limitHistoryFaults = func() map[string]fault {
	all := map[string]fault{}
	for _, name := range []string{
		"a late release gives back what the owner has", "a closed session keeps its permits", "shrinking takes permits from their holders",
		"giving back asks for the capacity", "who gives back a permit tells nobody", "a grant tells nobody", "who yields keeps its place",
		"a canceled run stays in its line", "every message takes a run out of its line", "a run without its permits does not know",
		"nothing holds back",
	} {
		all["in a history "+name] = fault{"RandomHistoriesMatchTheModel", limitFaults[name].wrap}
	}
	return all
}()

// notifiesNone returns a store that takes the wakes which its claims set, so that it notifies no
// worker.
func notifiesNone(w wrapper) store.Store {
	return edit{wrapper: w, claim: func(ctx context.Context, _ *store.Claim, got *store.Claimed) {
		if got != nil {
			w.takeWakes(ctx)
		}
	}}
}

// quiet is a store in which ClaimRun takes the wakes that it sets.
type quiet struct{ wrapper }

func (q quiet) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	got, err := q.Store.ClaimRun(ctx, partition, session, token, run)
	q.takeWakes(ctx)
	return got, err
}

// mute is a store whose records omit the limits of runs.
type mute struct{ wrapper }

func (m mute) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	all, err := m.Store.Load(ctx, runs)
	for i := range all {
		all[i].Record.Uses, all[i].Record.Permits = nil, false
	}
	return all, err
}
