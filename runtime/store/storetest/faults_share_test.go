package storetest_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// shared returns a constructor of stores that change the creation of runs with fairness keys.
func shared(change func(w wrapper, c *store.Create)) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if c.Fair != "" {
				change(w, c)
			}
			return nil
		}}
	}
}

func keyless(_ wrapper, c *store.Create) { c.Fair, c.Share = "", 0 }

// released returns a constructor of stores that, for commits with the given effect, release the run
// instead of applying the effect.
func released(effect store.Effect) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if c.Effect != effect {
				return nil
			}
			run, fence := c.Run, c.Fence
			c.Effect = store.EffectNone
			got, err := w.Commit(ctx, []store.Commit{*c})
			if err == nil {
				err = w.Release(ctx, run, fence)
			}
			if err != nil {
				return &store.Committed{Err: err}
			}
			return &got[0]
		}}
	}
}

var shareFaults = map[string]fault{
	"nobody looks at fair keys":            {"Shares_KeysTakeTurns", shared(keyless)},
	"a claim of many goes by arrival":      {"Shares_OneClaimOfManyIsFair", shared(keyless)},
	"all runs have one fair key":           {"Shares_ABacklogDelaysNobodyElse", shared(func(_ wrapper, c *store.Create) { c.Fair = "all" })},
	"all shares are the same":              {"Shares_AreByWeight", shared(func(_ wrapper, c *store.Create) { c.Share = 1 })},
	"runs with fair keys have no priority": {"Shares_AreWithinAPriority", shared(func(_ wrapper, c *store.Create) { c.Priority = 0 })},
	"a key that waits for nothing is forgotten": {"Shares_ComingBackGainsNothing", func(w wrapper) store.Store {
		times := map[string]int{}
		return shared(func(w wrapper, c *store.Create) {
			waits := false
			for _, r := range w.snapshot(context.Background()).Runs {
				waits = waits || r.InFairKey() && strings.HasPrefix(r.Fair, c.Fair+"/")
			}
			if !waits {
				times[c.Fair]++
			}
			c.Fair = fmt.Sprint(c.Fair, "/", times[c.Fair])
		})(w)
	}},
	"who was away begins where others were then": {"Shares_WhoWasAwayGetsNothingForIt", shared(func(_ wrapper, c *store.Create) {
		if c.Fair == "bolt" {
			c.Fair = string(c.Run)
		}
	})},
	"runs without a fair key have one": {"Shares_ARunWithoutAKeyGoesByItsArrival", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if c.Fair == "" {
				c.Fair = "none"
			}
			return nil
		}}
	}},
	"lines know no fair keys": {"Shares_HoldInTheLinesOfLimits", shared(func(w wrapper, c *store.Create) {
		if len(c.Uses) > 0 {
			keyless(w, c)
		}
	})},
	"new keys pass all": {"Shares_AHeavyClaimIsNotPassedByNewKeys", func(w wrapper) store.Store {
		known := map[string]bool{}
		return shared(func(_ wrapper, c *store.Create) {
			if !known[c.Fair] {
				known[c.Fair] = true
				c.Priority++
			}
		})(w)
	}},
	"a yield keeps the place of a fair key": {"Shares_ARecoveryKeepsItsPlaceAYieldComesAnew", released(store.EffectYield)},
	"a run with a fair key does not sleep":  {"Shares_WhatWakesComesAnew", released(store.EffectPark)},
	"what is blocked is counted as waiting": {"Shares_WhatIsBlockedLeavesItsFlow", released(store.EffectBlock)},
	"who creates a run as owned passes all": {"Shares_AnOwnerTakesNobodysTurn", createsOwned(func(_ context.Context, w wrapper, c *store.Create) *store.Created { keyless(w, c); return nil })},
	"a canceled run stays in its flow": {"Shares_ACanceledWaiterLeavesItsFlow", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = false; return nil }}
	}},
	"a record does not tell of shares": {"Shares_AreKeptWithTheRun", func(w wrapper) store.Store { return shareless{w} }},
	"runs without a fair key come last": {"Shares_KeysThatAlwaysWaitDoNotKeepARunWithoutAKey", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if c.Fair == "" {
				c.Priority--
			}
			return nil
		}}
	}},
	"a canceled run waits for room": {"Local_WhatWasCalledOffNeedsNoRoom", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error { d.Urgent = false; return nil }}
	}},
	"a nested run waits as all do": {"L6_ANestedRunIsLookedAtAgainWhenOtherRoomIsTaken", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			for i := range c.Uses {
				c.Uses[i].Nested = false
			}
			return nil
		}}
	}},
	"bad shares are mended": {"Shares_BadOnesAreRefused", shared(func(_ wrapper, c *store.Create) {
		c.Share = min(max(c.Share, 0), store.MaxShare)
	})},
}

// shareless is a store whose records omit fairness keys and shares.
type shareless struct{ wrapper }

func (m shareless) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	all, err := m.Store.Load(ctx, runs)
	for i := range all {
		all[i].Record.Fair, all[i].Record.Share = "", 0
	}
	return all, err
}
