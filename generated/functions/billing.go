package functions

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// A step, a workflow and a topic are called by package imports, which has its own of the same names.

// Invoice has the price of an order.
type Invoice struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// Paid tells a collection that somebody has paid.
var Paid = workflow.NewTopic[int64]("paid")

// settle charges an order at once.
//
//flow:step
func settle(ctx context.Context, invoice Invoice) (string, error) {
	return "charge-" + invoice.Order, nil
}

// collect waits until the invoice is paid, and returns what was paid too much.
//
//flow:workflow
func collect(ctx workflow.Context, invoice Invoice) (int64, error) {
	for invoice.Cents > 0 {
		cents, err := Paid.Receive(ctx)
		if err != nil {
			return 0, err
		}
		invoice.Cents -= cents
	}
	return -invoice.Cents, nil
}
