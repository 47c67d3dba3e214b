package storetest_test

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// gives returns a constructor of stores with a mistake in the creation of runs with items.
func gives(wrong func(context.Context, wrapper, *store.Create) *store.Created) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(ctx context.Context, c *store.Create) *store.Created {
			if len(c.Items) == 0 || c.Check() != nil {
				return nil
			}
			return wrong(ctx, w, c)
		}}
	}
}

// deliversLater returns a constructor of stores that create a run without its items, and then
// deliver the items to the run that Create returned. If onlyNew is set, the store delivers only to
// new runs.
func deliversLater(onlyNew bool, id func(event.ItemID) event.ItemID) func(wrapper) store.Store {
	return gives(func(ctx context.Context, w wrapper, c *store.Create) *store.Created {
		items := c.Items
		c.Items = nil
		got, err := w.Create(ctx, []store.Create{*c})
		if err != nil {
			return &store.Created{Err: err}
		}
		if got[0].Err != nil || onlyNew && !got[0].New {
			return &got[0]
		}
		for _, i := range items {
			i.ID = id(i.ID)
			_, _ = w.Deliver(ctx, store.Deliver{Run: got[0].Run, Item: i})
		}
		return &got[0]
	})
}

func same(id event.ItemID) event.ItemID { return id }

var itemFaults = map[string]fault{
	"items of a start are forgotten": {"C2_ARunHasTheItemsThatItIsCreatedWith", gives(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		c.Items = nil
		return nil
	})},
	"items of a start wake":                    {"C2_ADelayedRunHoldsItsItemsUntilItIsDue", deliversLater(true, same)},
	"items of a start go to whoever is active": {"C2_TheItemsOfAStartThatIsNotExecutedAreNotAccepted", deliversLater(false, same)},
	"items of a start are not remembered": {"C2_WhatARunIsCreatedWithIsNotAcceptedAgain", gives(func(_ context.Context, _ wrapper, c *store.Create) *store.Created {
		for n := range c.Items {
			c.Items[n].ID += "?"
		}
		return nil
	})},
	"items of a start sent again are added": {"C2_ACreateSentAgainAddsNoItem", func(w wrapper) store.Store {
		n := 0
		return deliversLater(true, func(id event.ItemID) event.ItemID {
			n++
			return id + event.ItemID(rune('0'+n))
		})(w)
	}},
	"items of a start are in the inbox twice": {"C2_ItemsOfOneIDAreRefused", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if c.Check() != nil && c.Owner == nil {
				c.Items = c.Items[:2]
			}
			return nil
		}}
	}},
	"a run with items is created as owned": {"C2_ItemsOfARunThatIsCreatedAsOwnedAreRefused", func(w wrapper) store.Store {
		return edit{wrapper: w, create: func(_ context.Context, c *store.Create) *store.Created {
			if len(c.Items) > 0 && c.Owner != nil {
				c.Items = nil
			}
			return nil
		}}
	}},
}

// extremeFaults are mistakes with extreme values and unusual names.
var extremeFaults = map[string]fault{
	"a long retention overflows": {"TheLongestRetentionKeepsARun", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Retention = (c.Retention + time.Millisecond - 1) / time.Millisecond * time.Millisecond //nolint:durationcheck // rounded up
	})},
	"a long delay overflows": {"TheLongestDelayIsADelay", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Delay = time.Duration(int32(c.Delay / time.Millisecond))
	})},
	"a priority of more than 32 bits is cut": {"PrioritiesOfMoreAreRefused", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Priority = min(max(c.Priority, math.MinInt32), math.MaxInt32)
	})},
	"a name is cut at a zero byte": {"NamesThatAreNoneAreRefused", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		c.Route.Queue, _, _ = strings.Cut(c.Route.Queue, "\x00")
	})},
	"tags are made UTF-8": {"NamesThatAreNoneAreRefused", creating(func(_ context.Context, _ wrapper, c *store.Create) {
		tags := map[string]string{}
		for name, value := range c.Tags {
			tags[strings.ToValidUTF8(name, "?")] = strings.ToValidUTF8(value, "?")
		}
		c.Tags = tags
	})},
}
