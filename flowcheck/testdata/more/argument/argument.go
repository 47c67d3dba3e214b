// Package argument has steps that change what their arguments point at.
package argument

import (
	"context"
	"strings"
)

// Order is what is sold.
type Order struct {
	ID    string
	Cents int
	Lines []Line
}

// Line is a part of it.
type Line struct{ Name string }

//flow:step
func price(ctx context.Context, order *Order) error {
	order.Cents = 900 // want `^order is a copy that the step has for itself: the workflow does not see what is written to it: return the value \[argument\]$`
	return ctx.Err()
}

//flow:step
func rename(ctx context.Context, order *Order) error {
	order.Lines[0].Name = "x" // want `^order is a copy`
	return ctx.Err()
}

//flow:step
func replace(ctx context.Context, order *Order) error {
	*order = Order{ID: "new"} // want `^order is a copy`
	return ctx.Err()
}

//flow:step
func fill(ctx context.Context, into map[string]int) error {
	into["a"] = 1 // want `^into is a copy`
	return ctx.Err()
}

// Those below use what they write, or give it away.

//flow:step
func normalise(ctx context.Context, order *Order) (*Order, error) {
	order.ID = strings.ToUpper(order.ID)
	return order, ctx.Err()
}

//flow:step
func total(ctx context.Context, order *Order) (int, error) {
	if order.Cents == 0 {
		order.Cents = 100
	}
	return order.Cents, ctx.Err()
}

//flow:step
func saved(ctx context.Context, order *Order) error {
	order.ID = "saved"
	return save(order)
}

func save(*Order) error { return nil }
