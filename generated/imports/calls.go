package imports

import (
	"context"

	"github.com/flowgen/flowgen/generated/functions"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// settle is another step than that of package functions.
//
//flow:step
func settle(ctx context.Context, invoice functions.Invoice) (string, error) {
	return "own-" + invoice.Order, nil
}

// collect starts the workflow of package functions of this name, and pays it.
//
//flow:workflow
func collect(ctx workflow.Context, invoice functions.Invoice) (string, error) {
	collection := functions.Collect.StartChild(ctx, invoice)
	if err := functions.Paid.SendFrom(ctx, collection.ID(), invoice.Cents+1); err != nil {
		return "", err
	}
	if _, err := collection.Get(ctx); err != nil {
		return "", err
	}
	own, err := Settle(ctx, invoice)
	if err != nil {
		return "", err
	}
	theirs, err := functions.Settle(ctx, invoice)
	return own + " " + theirs, err
}
