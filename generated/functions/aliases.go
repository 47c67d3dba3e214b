package functions

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Steps and workflows have types that are aliases, generic ones among them, or have parameters that no field has.

// ID is another name of a type of the language, Proof one of this package, and Pair of any two.
type (
	ID          = string
	Proof       = proof
	Pair[A any] = [2]A
)

type proof struct{ ID ID }

// Key names a thing of a kind: its parameter is in no field.
type Key[Kind any] struct{ Name ID }

// Purchase and Parcel are kinds.
type (
	Purchase struct{}
	Parcel   struct{}
)

// bill takes and returns aliases.
//
//flow:step
func bill(ctx context.Context, order Key[Purchase], cents Pair[int64]) (Proof, error) {
	return Proof{ID: order.Name}, nil
}

// ship returns a generic alias of a type with a parameter.
//
//flow:step
func ship(ctx context.Context, order Key[Purchase]) (Pair[Key[Parcel]], error) {
	return Pair[Key[Parcel]]{{Name: order.Name + "/1"}, {Name: order.Name + "/2"}}, nil
}

// send has an input with a parameter, and the result of an alias.
//
//flow:workflow
func send(ctx workflow.Context, order Key[Purchase]) (Pair[ID], error) {
	proof, err := Bill(ctx, order, Pair[int64]{1, 2})
	if err != nil {
		return Pair[ID]{}, err
	}
	parcels, err := Ship(ctx, order)
	return Pair[ID]{proof.ID, parcels[1].Name}, err
}
