// Package cases has workflow code that compares the winner with a new case.
package cases

import (
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// decided waits for a verdict.
//
//flow:workflow
func decided(ctx workflow.Context, order shop.Order) error {
	late := workflow.After(time.Hour)
	won, err := workflow.Select(ctx, shop.Verdict.Case(), late)
	if err != nil {
		return err
	}
	switch won {
	case shop.Verdict.Case(): // want `^shop.Verdict.Case\(\) makes a new case, which the winner of a Select never equals: keep the case in a variable, and give Select that \[case\]$`
		return shop.Notify(ctx, order.Customer, "decided")
	case late:
		return shop.Notify(ctx, order.Customer, "too late")
	}
	return nil
}

// compared does so with an if.
//
//flow:workflow
func compared(ctx workflow.Context, order shop.Order) error {
	verdict := shop.Verdict.Case()
	won, err := workflow.Select(ctx, verdict, workflow.After(time.Hour))
	if err != nil {
		return err
	}
	if won == workflow.After(time.Hour) { // want `^workflow.After\(time.Hour\) makes a new case`
		return shop.Notify(ctx, order.Customer, "too late")
	}
	return shop.Notify(ctx, order.Customer, verdict.Value())
}
