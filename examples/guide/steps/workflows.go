package steps

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is the input of sell. It contains the goods that the customer bought.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
	Address  string `json:"address"`
}

// NoCardError is returned if the customer must provide another card.
//
//flow:error
type NoCardError struct{ Customer string }

// Error returns the problem with the name of the customer.
func (e *NoCardError) Error() string { return e.Customer + " has no card that works" }

// sell charges the customer and orders the pick-up of the parcel.
//
//flow:workflow
func sell(ctx workflow.Context, order Order) (Receipt, error) {
	if err := Check(ctx, order.Address); err != nil {
		return Receipt{}, err
	}
	receipt, err := Charge(ctx, order.Customer, order.Cents)
	var declined *DeclinedError
	switch {
	case errors.As(err, &declined): // errors.As works even after the error was recorded in the log.
		return Receipt{}, &NoCardError{Customer: order.Customer}
	case err != nil:
		return Receipt{}, fmt.Errorf("sell %s: %w", order.ID, err)
	}
	return receipt, Fetch(ctx, order.ID)
}

// move copies many rows.
//
//flow:workflow
func move(ctx workflow.Context) (int, error) {
	return CopyAll(ctx)
}

// collect debits a customer who accepts a delay.
//
//flow:workflow
func collect(ctx workflow.Context, customer string, cents int64) (Receipt, error) {
	patient := workflow.WithStepOptions(ctx,
		workflow.Retry(workflow.RetryPolicy{Attempts: 100, Initial: time.Minute, Max: time.Hour}),
		workflow.AttemptTimeout(time.Minute))
	return Charge(patient, customer, cents)
}
