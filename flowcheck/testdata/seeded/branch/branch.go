// Package branch has workflow code whose branches use the context of another one.
package branch

import (
	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Discount is what people ask for.
var Discount = workflow.NewAsk[int, int]("discount")

// forked starts a branch.
//
//flow:workflow
func forked(ctx workflow.Context, carrier string) (shop.Offer, error) {
	offer := workflow.Go(ctx, func(workflow.Context) (shop.Offer, error) {
		return shop.Quote(ctx, carrier) // want `^ctx is the context of another branch than that of this function, which workflow.Go gives one of its own: use that \[branch\]$`
	})
	return offer.Get(ctx)
}

// mapped has a branch for each carrier.
//
//flow:workflow
func mapped(ctx workflow.Context, carriers []string) ([]shop.Offer, error) {
	return workflow.Map(ctx, carriers, func(branch workflow.Context, carrier string) (shop.Offer, error) {
		return shop.Quote(ctx, carrier) // want `^ctx is the context of another branch`
	})
}

// each does so without results.
//
//flow:workflow
func each(ctx workflow.Context, items []string) error {
	limited, cancel := workflow.WithCancel(ctx)
	defer cancel()
	return workflow.ForEach(limited, items, func(ctx workflow.Context, item string) error {
		return shop.Reserve(limited, item, 1) // want `^limited is the context of another branch`
	})
}

// haggled answers questions.
//
//flow:workflow
func haggled(ctx workflow.Context, order shop.Order) (string, error) {
	Discount.Handle(ctx, nil, func(_ workflow.Context, percent int) (int, error) {
		return percent, shop.Notify(ctx, order.Customer, "a discount") // want `^ctx is the context of another branch`
	})
	return Verdict.Receive(ctx)
}

// Verdict ends it.
var Verdict = workflow.NewTopic[string]("verdict")

// undone registers what undoes.
//
//flow:workflow
func undone(ctx workflow.Context, order shop.Order) error {
	workflow.Compensate(ctx, func(undo workflow.Context) error {
		return shop.Release(ctx, order.Lines) // want `^ctx is the context of another branch`
	})
	return shop.Reserve(ctx, order.ID, 1)
}

// nested has a branch in a branch.
//
//flow:workflow
func nested(ctx workflow.Context, order shop.Order) error {
	f := workflow.GoErr(ctx, func(outer workflow.Context) error {
		inner := workflow.GoErr(outer, func(ctx workflow.Context) error {
			return shop.Notify(outer, order.Customer, "hello") // want `^outer is the context of another branch`
		})
		_, err := inner.Get(outer)
		return err
	})
	_, err := f.Get(ctx)
	return err
}
