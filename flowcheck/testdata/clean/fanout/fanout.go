// Package fanout has a run of its own for each customer.
package fanout

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
func invoice(ctx context.Context, customer string) (int, error) { return len(customer), ctx.Err() }

// bill bills one customer.
//
//flow:workflow
func bill(ctx workflow.Context, customer string) (int, error) { return Invoice(ctx, customer) }

// billAll bills all, and leaves those alone that are billed already.
//
//flow:workflow children=1000
func billAll(ctx workflow.Context, month string, customers []string) (int, error) {
	var children []*workflow.Child[int]
	for _, customer := range customers {
		child := Bill.StartChild(ctx, customer, workflow.WithID("bill-"+month+"-"+customer))
		if err := child.Started(ctx); err != nil {
			if _, active := errors.AsType[*workflow.ActiveRunError](err); active {
				continue
			}
			return 0, err
		}
		children = append(children, child)
	}
	total := 0
	for _, child := range children {
		cents, err := child.Get(ctx)
		if err != nil {
			return total, err
		}
		total += cents
	}
	return total, nil
}
