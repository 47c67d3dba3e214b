package storetest_test

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// continuing returns a constructor of stores with a mistake in the commits that continue a run. The
// store calls do with each such commit that it would apply, and with the state of the run.
func continuing(do func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState) *store.Committed) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && c.Effect == store.EffectContinue && c.Continue != nil && r.Last != c.CommitID {
				return do(ctx, w, c, r)
			}
			return nil
		}}
	}
}

// takeAll makes a commit consume the whole inbox.
func takeAll(c *store.Commit, inbox []store.Item) {
	if n := len(inbox); n > 0 {
		c.Consume, c.ConsumeLast = n, inbox[n-1].ID
	}
}

var chainFaults = map[string]fault{
	"continue is an end": {"ContinuePutsANewRunIntoThePlaceOfTheOld",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
			c.Effect, c.Continue = store.EffectFinish, nil
			return nil
		})},
	"continue drops the inbox": {"M4_ContinueTakesTheRestOfTheInboxAlong",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, r *store.RunState) *store.Committed {
			takeAll(c, r.Inbox)
			return nil
		})},
	"continue overlooks what is for the run alone": {"M4_ContinueNeedsItemsForTheRunAloneToBeRead",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, r *store.RunState) *store.Committed {
			for _, i := range r.Inbox {
				if i.Scope == store.ScopeRun {
					takeAll(c, r.Inbox)
				}
			}
			return nil
		})},
	"continue needs an empty inbox": {"M4_ContinueTakesTheRestOfTheInboxAlong",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, r *store.RunState) *store.Committed {
			if c.Consume < len(r.Inbox) {
				return &store.Committed{Err: store.ErrUnread}
			}
			return nil
		})},
	"continue hands the workflow id to the line": {"TheLineWaitsForTheEndOfTheWholeChain",
		continuing(func(ctx context.Context, w wrapper, c *store.Commit, r *store.RunState) *store.Committed {
			if len(w.snapshot(ctx).Lines[c.WorkflowID]) > 0 {
				c.Effect, c.Continue = store.EffectFinish, nil
				takeAll(c, r.Inbox)
			}
			return nil
		})},
	"continue overwrites a run": {"W4_TheGuardsOfContinueAnswerInTheirOrder",
		continuing(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
			if w.state(ctx, c.Continue.Run) != nil {
				c.Continue.Run = event.NewRunID(w.Clock().Now(), c.Run.Slot())
			}
			return nil
		})},
	"continue asks for the new run first": {"W4_TheGuardsOfContinueAnswerInTheirOrder",
		continuing(func(ctx context.Context, w wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
			if w.state(ctx, c.Continue.Run) != nil {
				return &store.Committed{Err: &store.ConflictError{Run: c.Run}}
			}
			return nil
		})},
	"continue forgets the priority": {"ContinuePutsANewRunIntoThePlaceOfTheOld",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
			next := *c.Continue
			next.Priority = 0
			c.Continue = &next
			return nil
		})},
	"continue writes no records": {"ACommitWritesItsRecordsWithEveryEffect",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, _ *store.RunState) *store.Committed {
			c.Send = nil
			return nil
		})},
	"the model notices a run that does not continue": {"RandomHistoriesMatchTheModel",
		continuing(func(_ context.Context, _ wrapper, c *store.Commit, r *store.RunState) *store.Committed {
			takeAll(c, r.Inbox)
			return nil
		})},
	"continue does not know itself again": {"W3_ContinueSentAgainIsAppliedOnce", func(w wrapper) store.Store {
		return edit{wrapper: w, commit: func(ctx context.Context, c *store.Commit) *store.Committed {
			if r := w.state(ctx, c.Run); r != nil && r.Next != "" {
				return &store.Committed{Err: store.ErrFenced}
			}
			return nil
		}}
	}},
	"deliver knows the first and the last run of a chain only": {"DeliverToAnyRunOfAChainReachesTheLast", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(ctx context.Context, d *store.Deliver) error {
			if r := w.state(ctx, d.Run); r != nil && r.Next != "" && r.Chain != r.Run {
				return &store.TerminalError{Run: r.Run, Status: r.Status}
			}
			return nil
		}}
	}},
	"deliver goes no further than to the next run": {"DeliverToAnyRunOfAChainReachesTheLast", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(ctx context.Context, d *store.Deliver) error {
			if r := w.state(ctx, d.Run); r != nil && r.Next != "" && d.Item.Scope == store.ScopeChain {
				d.Run, d.Item.Scope = r.Next, store.ScopeRun
			}
			return nil
		}}
	}},
	"deliver for a run alone follows its chain": {"DeliverForARunAloneDoesNotFollowItsChain", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			d.Item.Scope = store.ScopeChain
			return nil
		}}
	}},
	"deliver refuses what a run that has continued has accepted": {"M2_WhatARunHasAcceptedIsAcceptedAgainAfterItContinued", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(ctx context.Context, d *store.Deliver) error {
			if r := w.state(ctx, d.Run); r != nil && r.Next != "" && d.Item.Scope == store.ScopeRun {
				return &store.TerminalError{Run: r.Run, Status: r.Status}
			}
			return nil
		}}
	}},
	"deliver finds no chain whose last run is gone": {"DeliverToAChainWhoseLastRunIsGoneIsAnsweredForTheRunNamed", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(ctx context.Context, d *store.Deliver) error {
			for r := w.state(ctx, d.Run); r != nil && r.Next != ""; {
				if r = w.state(ctx, r.Next); r == nil || r.Hidden {
					return store.ErrRunNotFound
				}
			}
			return nil
		}}
	}},
}
