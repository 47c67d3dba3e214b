// Package dropped has workflow code that looks at no error.
package dropped

import (
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// told drops that of a step, and that of a sleep.
//
//flow:workflow
func told(ctx workflow.Context, order shop.Order) error {
	shop.Notify(ctx, order.Customer, "wait") // want `^the error of shop.Notify is dropped: check it, or write _ = if that is meant \[dropped\]$`
	workflow.Sleep(ctx, time.Hour)           // want `^the error of workflow.Sleep is dropped`
	return shop.Notify(ctx, order.Customer, "done")
}

// started starts branches, and a child.
//
//flow:workflow
func started(ctx workflow.Context, order shop.Order) error {
	workflow.GoErr(ctx, func(ctx workflow.Context) error { // want `^nobody asks for the result of workflow.GoErr, nor for its error`
		return shop.Notify(ctx, order.Customer, "hello")
	})
	shop.Ship.StartChild(ctx, order) // want `^nobody asks for the result of workflow.Definition.StartChild`
	return shop.Reserve(ctx, order.ID, 1)
}

// charged drops a result, too; and helped has a helper.
//
//flow:workflow
func charged(ctx workflow.Context, order shop.Order) error {
	shop.Charge(ctx, order.Customer, order.Cents) // want `^the error of shop.Charge is dropped`
	thank(ctx, order)                             // want `^the error of dropped.thank is dropped`
	return nil
}

func thank(ctx workflow.Context, order shop.Order) error {
	return shop.Notify(ctx, order.Customer, "thanks")
}
