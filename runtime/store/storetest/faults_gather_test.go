package storetest_test

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// collectFaults are mistakes with starts that share a run through Collect.
var collectFaults = map[string]fault{
	"a start that is sent again joins again": {"L12_AStartJoinsOnce", func(w wrapper) store.Store {
		n := 0
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if c.Collect != nil && w.state(ctx, c.Run) == nil {
				n++
				c.Run = event.NewRunID(w.Clock().Now(), c.Run.Slot())
				c.Items[0].ID += event.ItemID(fmt.Sprint(n))
			}
			return nil
		}}
	}},
	"a start looks only at who gathers now": {"L12_AStartJoinsOnce", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if c.Collect == nil || w.state(ctx, c.Run) != nil {
				return nil
			}
			snap := w.snapshot(ctx)
			for _, i := range snap.Runs[snap.Collecting[c.Collect.Key]].Inbox {
				if i.ID == c.Items[0].ID {
					return nil
				}
			}
			c.Run = event.NewRunID(w.Clock().Now(), c.Run.Slot())
			return nil
		}}
	}},
	"a start joins a run that has begun": {"L12_NothingJoinsWhatHasBegun", func(w wrapper) store.Store {
		collected := map[string]event.RunID{}
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if c.Collect == nil {
				return nil
			}
			if r := w.state(ctx, collected[c.Collect.Key]); r != nil && r.Run != c.Run {
				if _, err := w.Deliver(ctx, store.Deliver{Run: r.Run, Item: c.Items[0]}); err == nil {
					return &store.Created{Run: r.Run}
				}
			}
			collected[c.Collect.Key] = c.Run
			return nil
		}}
	}},
	"a start does not delay a run": {"L12_ARunIsDueWhenItWasQuietAndAtTheLatestAfterMost", func(w wrapper) store.Store {
		return collectOf(w, func(g *store.Collect) { g.Most = g.Quiet })
	}},
	"a start delays a run without end": {"L12_ARunIsDueWhenItWasQuietAndAtTheLatestAfterMost", func(w wrapper) store.Store {
		return collectOf(w, func(g *store.Collect) { g.Most = 0 })
	}},
	"a run keeps what was before the last start": {"L12_OnlyTheItemOfTheLastStartIsKept", func(w wrapper) store.Store {
		return collectOf(w, func(g *store.Collect) { g.Keep = true })
	}},
	"a run keeps only the last of all": {"L12_TheItemsOfAllStartsAreKeptInOrder", func(w wrapper) store.Store {
		return collectOf(w, func(g *store.Collect) { g.Keep, g.Full = false, 0 })
	}},
	"a run is never full": {"L12_AFullRunIsReadyAndGathersNoMore", func(w wrapper) store.Store {
		return collectOf(w, func(g *store.Collect) { g.Full = 0 })
	}},
	"a run that is asked to end gathers on": {"L12_NothingJoinsWhatIsAskedToEnd", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			d.Urgent = false
			return nil
		}}
	}},
	"a message wakes a run that gathers": {"L12_AMessageDoesNotWakeARunThatGathers", func(w wrapper) store.Store {
		return edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			d.Urgent = true
			return nil
		}}
	}},
	"all keys are one": {"L12_KeysGatherEachForItself", func(w wrapper) store.Store {
		return collectOf(w, func(g *store.Collect) { g.Key = "key" })
	}},
}

// collectOf returns a store that changes the Collect settings of starts.
func collectOf(w wrapper, change func(*store.Collect)) store.Store {
	return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
		if c.Collect != nil && c.Collect.Key != "" {
			g := *c.Collect
			change(&g)
			c.Collect = &g
		}
		return nil
	}}
}
