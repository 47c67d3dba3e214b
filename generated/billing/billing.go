// Package billing has what package storefront calls: a step, a workflow, and a topic.
package billing

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Bill has the price of an order.
type Bill struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// Paid tells a collection that somebody has paid.
var Paid = workflow.NewTopic[int64]("paid")

// charge charges an order at once.
//
//flow:step
func charge(ctx context.Context, bill Bill) (string, error) { return "charge-" + bill.Order, nil }

// collect waits until the bill is paid, and returns what was paid too much.
//
//flow:workflow
func collect(ctx workflow.Context, bill Bill) (int64, error) {
	for bill.Cents > 0 {
		cents, err := Paid.Receive(ctx)
		if err != nil {
			return 0, err
		}
		bill.Cents -= cents
	}
	return -bill.Cents, nil
}
