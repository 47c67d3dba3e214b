// Package context has workflow code that uses contexts of the standard library.
package context

import (
	"context"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Worker keeps the context of the process.
type Worker struct{ ctx context.Context }

// made makes one.
//
//flow:workflow
func made(ctx workflow.Context, order shop.Order) error {
	background := context.Background() // want `^context.Background makes a context.Context, which ends by what is not in the log: use the workflow.Context, and leave context.Context to steps \[context\]$`
	if background.Err() != nil {
		return nil
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}

// todo leaves it for later.
//
//flow:workflow
func todo(ctx workflow.Context, order shop.Order) error {
	if closed(context.TODO()) { // want `^context.TODO makes`
		return nil
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}

func closed(ctx context.Context) bool { return ctx.Err() != nil }

// stopped asks whether the process ends.
func (w *Worker) stopped(ctx workflow.Context, order shop.Order) error {
	if w.ctx.Err() != nil { // want `^ctx is a context.Context from outside, which ends by what is not in the log`
		return nil
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}

// Watch makes a function that captures the context of its caller.
func Watch(outer context.Context) func(workflow.Context, shop.Order) error {
	return func(ctx workflow.Context, order shop.Order) error {
		if closed(outer) { // want `^outer is a context.Context from outside`
			return nil
		}
		return shop.Notify(ctx, order.Customer, "thanks")
	}
}

// canceled cancels by the wrong context.
func canceled(ctx workflow.Context, order shop.Order, base any) error {
	mine, cancel := context.WithCancel(base.(context.Context)) // want `^context.WithCancel makes`
	defer cancel()
	if mine.Err() != nil {
		return nil
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}
