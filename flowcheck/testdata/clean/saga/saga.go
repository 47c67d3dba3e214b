// Package saga takes an order from payment to shipment, and undoes what was done if that fails.
package saga

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is what was bought.
type Order struct {
	ID    string
	Cents int
	Items map[string]int
}

// fees has the fee of each country, and never changes.
var fees = map[string]int{"CH": 7, "DE": 4}

//flow:step retries=5
func charge(ctx context.Context, id string, cents int) (string, error) {
	return "payment " + id, ctx.Err()
}

//flow:step
func refund(ctx context.Context, payment string) error { return ctx.Err() }

//flow:step key=item
func reserve(ctx context.Context, item string, n int) error { return ctx.Err() }

//flow:step key=item
func putBack(ctx context.Context, item string, n int) error { return ctx.Err() }

//flow:step
func ship(ctx context.Context, id string) (string, error) { return "parcel " + id, ctx.Err() }

// fulfil undoes the payment and the reservations if a later step fails.
//
//flow:workflow
func fulfil(ctx workflow.Context, order Order, country string) (tracking string, err error) {
	payment, err := Charge(ctx, order.ID, order.Cents+fees[country])
	if err != nil {
		return "", err
	}
	workflow.Compensate(ctx, func(ctx workflow.Context) error { return Refund(ctx, payment) })
	for _, item := range slices.Sorted(maps.Keys(order.Items)) {
		n := order.Items[item]
		if err := Reserve(ctx, item, n); err != nil {
			return "", fmt.Errorf("reserve %s: %w", item, err)
		}
		workflow.Compensate(ctx, func(ctx workflow.Context) error { return PutBack(ctx, item, n) })
	}
	return Ship(ctx, order.ID)
}
