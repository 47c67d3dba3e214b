// Package sentinel has workflow code that looks for errors which are not recorded.
package sentinel

import (
	"errors"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ErrGone is not known to the generator.
var ErrGone = errors.New("gone")

// ErrKnown is.
//
//flow:error
var ErrKnown = errors.New("known")

func compares(ctx workflow.Context, order shop.Order) error {
	err := shop.Reserve(ctx, order.ID, 1)
	if errors.Is(err, ErrGone) { // want `^ErrGone has no //flow:error, so that an error which was recorded never matches it: put //flow:error on its declaration \[sentinel\]$`
		return nil
	}
	if errors.Is(err, ErrKnown) {
		return nil
	}
	return err
}

// own compares with what it has returned itself.
func own(ctx workflow.Context, order shop.Order) error {
	err := checked(ctx, order)
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

func checked(ctx workflow.Context, order shop.Order) error {
	if order.ID == "" {
		return ErrGone
	}
	return shop.Reserve(ctx, order.ID, 1)
}

// either has an error of both kinds.
func either(ctx workflow.Context, order shop.Order) error {
	err := shop.Reserve(ctx, order.ID, 1)
	if order.Customer == "" {
		err = ErrGone
	}
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}
