package storetest_test

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// blind is a store whose Wait misses the starts and deliveries that are in progress when Wait
// begins. It imitates a store in which Wait reads before the operation writes, and subscribes after
// the operation has announced its changes.
type blind struct {
	wrapper

	starts, deliveries atomic.Int32 // number of calls in progress
}

func (b *blind) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	defer underway(&b.starts)()
	return b.Store.Create(ctx, runs)
}

func (b *blind) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	defer underway(&b.deliveries)()
	return b.Store.Deliver(ctx, d)
}

// underway increments n, yields the processor, and returns a function that decrements n.
func underway(n *atomic.Int32) (end func()) {
	n.Add(1)
	for range 200 {
		runtime.Gosched()
	}
	return func() { n.Add(-1) }
}

func (b *blind) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if b.starts.Load() > 0 {
		w.Routes = nil
	}
	if b.deliveries.Load() > 0 {
		w.Sessions = nil
	}
	return b.Store.Wait(ctx, w)
}

// hinting is a store whose hinted claims take the wake of a route but return no runs.
type hinting struct{ wrapper }

func (s *hinting) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if c.Hinted {
		c.Max = 0
	}
	return s.Store.Claim(ctx, c)
}

var waitFaults = map[string]fault{
	"a hinted claim hands out nothing": {"K2_AHintLeavesTheWakeToTheClaim", func(w wrapper) store.Store {
		return &hinting{w}
	}},
	"wait misses a start that is under way": {"K2_AWaitThatBeginsWithAStartIsToldOfIt", func(w wrapper) store.Store {
		return &blind{wrapper: w}
	}},
	"wait misses a delivery that is under way": {"K2_AWaitThatBeginsWithADeliveryIsToldOfIt", func(w wrapper) store.Store {
		return &blind{wrapper: w}
	}},
}
