// Package raw has workflow code that calls implementations.
package raw

import (
	"context"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Bank is where the money is.
type Bank struct{ open bool }

//flow:step
func (b *Bank) transfer(ctx context.Context, cents int) (string, error) { return "ok", ctx.Err() }

//flow:step
func check(ctx context.Context, cents int) (bool, error) { return cents > 0, ctx.Err() }

//flow:workflow
func pay(ctx workflow.Context, cents int) (string, error) { return Transfer(ctx, cents) }

// checked calls the function of a step.
//
//flow:workflow
func checked(ctx workflow.Context, cents int) (string, error) {
	fine, err := check(nil, cents) // want `^raw.check is an implementation, and its call is not recorded: it is executed again in every replay: call the counterpart that was generated for it \[raw\]$`
	if err != nil || !fine {
		return "", err
	}
	return Transfer(ctx, cents)
}

// nested calls the function of a workflow.
//
//flow:workflow
func nested(ctx workflow.Context, cents int) (string, error) {
	return pay(ctx, cents) // want `^raw.pay is an implementation`
}

// booked calls that of another package.
//
//flow:workflow
func booked(ctx workflow.Context, order shop.Order) (string, error) {
	return shop.BookNow(nil, order) // want `^shop.BookNow is an implementation`
}

// helped calls one in a helper.
//
//flow:workflow
func helped(ctx workflow.Context, cents int) (string, error) {
	if !fine(cents) { // want `^raw.fine → raw.check \(raw.go:\d+\) is an implementation`
		return "", nil
	}
	return Transfer(ctx, cents)
}

func fine(cents int) bool {
	ok, err := check(context.Background(), cents)
	return ok && err == nil
}
