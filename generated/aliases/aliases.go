// Package aliases has steps and workflows whose types are aliases, generic ones among them, or have parameters that
// no field has.
package aliases

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// ID is another name of a type of the language, Receipt of one of this package, and Pair of any two.
type (
	ID          = string
	Receipt     = receipt
	Pair[A any] = [2]A
)

type receipt struct{ ID ID }

// Key names a thing of a kind: its parameter is in no field.
type Key[Kind any] struct{ Name ID }

// Order and Parcel are kinds.
type (
	Order  struct{}
	Parcel struct{}
)

// charge takes and returns aliases.
//
//flow:step
func charge(ctx context.Context, order Key[Order], cents Pair[int64]) (Receipt, error) {
	return Receipt{ID: order.Name}, nil
}

// ship returns a generic alias of a type with a parameter.
//
//flow:step
func ship(ctx context.Context, order Key[Order]) (Pair[Key[Parcel]], error) {
	return Pair[Key[Parcel]]{{Name: order.Name + "/1"}, {Name: order.Name + "/2"}}, nil
}

// fulfil has an input with a parameter, and the result of an alias.
//
//flow:workflow
func fulfil(ctx workflow.Context, order Key[Order]) (Pair[ID], error) {
	receipt, err := Charge(ctx, order, Pair[int64]{1, 2})
	if err != nil {
		return Pair[ID]{}, err
	}
	parcels, err := Ship(ctx, order)
	return Pair[ID]{receipt.ID, parcels[1].Name}, err
}
