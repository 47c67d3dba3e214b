// Package version has workflow code whose changes are not constant.
package version

import (
	"fmt"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// named makes the name.
//
//flow:workflow
func named(ctx workflow.Context, order shop.Order) error {
	for i := range 3 {
		if workflow.Version(ctx, fmt.Sprintf("change-%d", i), 1) == 0 { // want `^the name of a change is no constant: write it out, so that the code says which changes there are \[version\]$`
			return nil
		}
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}

// latest takes the latest version from the input.
//
//flow:workflow
func latest(ctx workflow.Context, order shop.Order, newest int) error {
	if workflow.Version(ctx, "fraud", newest) >= 1 { // want `^the latest version of a change is no constant`
		return shop.Notify(ctx, order.Customer, "checked")
	}
	return nil
}

// twice has two latest versions of one change.
//
//flow:workflow
func twice(ctx workflow.Context, order shop.Order) error {
	if workflow.Version(ctx, "fraud", 1) >= 1 { // want `^the change fraud has another latest version in this function: write the same in all calls`
		if err := shop.Notify(ctx, order.Customer, "checked"); err != nil {
			return err
		}
	}
	if workflow.Version(ctx, "fraud", 2) >= 2 {
		return shop.Notify(ctx, order.Customer, "checked again")
	}
	return nil
}

// branched has them in a branch.
//
//flow:workflow
func branched(ctx workflow.Context, order shop.Order) error {
	const fraud = "fraud"
	err := workflow.ForEach(ctx, order.Lines, func(ctx workflow.Context, line string) error {
		if workflow.Version(ctx, fraud, 1) == 0 { // want `^the change fraud has another latest version`
			return nil
		}
		return shop.Reserve(ctx, line, 1)
	})
	if err != nil || workflow.Version(ctx, "fraud", 3) < 3 {
		return err
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}
