// Package shop has the steps and workflows that the seeded packages use.
package shop

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is what a customer wants.
type Order struct {
	ID       string
	Customer string
	Cents    int
	Lines    []string
	Stock    map[string]int
}

// Offer is what a carrier asks.
type Offer struct {
	Carrier string
	Cents   int
}

// Verdict holds a decision.
var Verdict = workflow.NewTopic[string]("verdict")

// Stage is what readers see.
var Stage = workflow.NewValue[string]("stage")

// Charge takes the money.
//
//flow:step as=Charge
func charge(ctx context.Context, customer string, cents int) (string, error) {
	return fmt.Sprintf("%s paid %d", customer, cents), ctx.Err()
}

// Implementation of a step that is exported.
//
//flow:step as=Book
func BookNow(ctx context.Context, order Order) (string, error) { return order.ID, ctx.Err() }

//flow:step
func notify(ctx context.Context, customer, text string) error { return ctx.Err() }

//flow:step
func reserve(ctx context.Context, item string, n int) error { return ctx.Err() }

//flow:step
func release(ctx context.Context, items []string) error { return ctx.Err() }

//flow:step
func quote(ctx context.Context, carrier string) (Offer, error) {
	return Offer{Carrier: carrier}, ctx.Err()
}

// Ship sends an order.
//
//flow:workflow
func ship(ctx workflow.Context, order Order) (string, error) {
	return Charge(ctx, order.Customer, order.Cents)
}
