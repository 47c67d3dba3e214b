// Package spin has workflow code that asks again and again.
package spin

import (
	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// polled asks a future until it is done.
//
//flow:workflow
func polled(ctx workflow.Context, carrier string) (shop.Offer, error) {
	offer := workflow.Go(ctx, func(ctx workflow.Context) (shop.Offer, error) { return shop.Quote(ctx, carrier) })
	for !offer.Done() { // want `^this loop never ends, and nothing in it waits, so that the run stands still: wait for a future, a message or a time \[spin\]$`
	}
	return offer.Get(ctx)
}

// counted never stops.
//
//flow:workflow
func counted(ctx workflow.Context, order shop.Order) error {
	if err := shop.Notify(ctx, order.Customer, "hello"); err != nil {
		return err
	}
	n := 0
	for { // want `^this loop never ends`
		n++
		if n > len(order.Lines) {
			n = 0
		}
	}
}
