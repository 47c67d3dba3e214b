package storetest_test

import (
	"context"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// opaque is a store that implements only the required interfaces. Its state is visible only through
// its answers.
type opaque struct {
	store.Store
	store.Purger
}

func hide(s store.Store) store.Store {
	p, _ := store.As[store.Purger](s)
	return opaque{s, p}
}

func TestRun_TakesAStoreThatDoesNotShowItsState(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Checks: 20,
		Open: func(_ testing.TB, clock store.Clock) store.Store {
			return hide(memstore.NewWith(memstore.Config{Clock: clock}))
		},
	})
}

// opaqueFaults are mistakes of stores that do not show their state. Random histories detect them by
// the answers of the store.
var opaqueFaults = map[string]fault{
	"an opaque store hides unread items": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store { return hide(mutedHeart{w}) }},
	"an opaque store forgets recoveries": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store {
		return hide(edit{wrapper: w, commit: func(_ context.Context, c *store.Commit) *store.Committed {
			c.Progress = true
			return nil
		}})
	}},
	"an opaque store accepts an item twice": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store {
		n := 0
		return hide(edit{wrapper: w, deliver: func(_ context.Context, d *store.Deliver) error {
			n++
			d.Item.ID += event.ItemID(rune('0' + n))
			return nil
		}})
	}},
	"an opaque store takes no wake": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store {
		return hide(edit{wrapper: w, wait: func(*store.Wait) *store.Woken { return &store.Woken{Due: true} }})
	}},
	"an opaque store does not purge": {"RandomHistoriesMatchTheModel", func(w wrapper) store.Store {
		return hide(purger{wrapper: w, idle: true})
	}},
}
