// Package functions holds steps that are functions: with several parameters, with one, with none, with and without a
// result, variadic ones, such that have types with other names, and such that workflows of other packages call. It has a manifest.
package functions

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Receipt is the proof of a payment.
type Receipt struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// ErrBroke is the customer's.
var ErrBroke = errors.New("no money")

// charge bills the customer's card.
//
// It may be called with:
//
//	charge(ctx, "ada", 100)
//
//flow:step retries=5 backoff=exponential(200ms,30s) timeout=10s fatal=ErrBroke
func charge(ctx context.Context, customer string, cents int64) (Receipt, error) {
	return Receipt{ID: customer}, nil
}

//flow:step
func ping(ctx context.Context) error { return nil }

// fulfil charges twice.
//
//flow:workflow
func fulfil(ctx workflow.Context, customer string) (Receipt, error) {
	if err := Ping(ctx); err != nil {
		return Receipt{}, err
	}
	return Charge(ctx, customer, 5)
}
