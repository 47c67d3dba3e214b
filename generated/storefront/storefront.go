// Package storefront calls the steps and workflows of package billing, under names that are its own, too.
package storefront

import (
	"context"

	"github.com/flowgen/flowgen/generated/billing"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// charge is another step than that of package billing.
//
//flow:step
func charge(ctx context.Context, bill billing.Bill) (string, error) { return "own-" + bill.Order, nil }

// collect starts the workflow of package billing of this name, and pays it.
//
//flow:workflow
func collect(ctx workflow.Context, bill billing.Bill) (string, error) {
	collection := billing.Collect.StartChild(ctx, bill)
	if err := billing.Paid.SendFrom(ctx, collection.ID(), bill.Cents+1); err != nil {
		return "", err
	}
	if _, err := collection.Get(ctx); err != nil {
		return "", err
	}
	own, err := Charge(ctx, bill)
	if err != nil {
		return "", err
	}
	theirs, err := billing.Charge(ctx, bill)
	return own + " " + theirs, err
}
