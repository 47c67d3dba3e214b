// Package account keeps the balance of an account.
package account

import (
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Movement is money that comes or goes.
type Movement struct {
	Cents int
	Text  string
}

// Account is the state.
type Account struct {
	Cents int
	Last  []Movement
}

// What an account hears and shows.
var (
	Movements = workflow.NewTopic[Movement]("movements")
	Balance   = workflow.NewValue[int]("balance")
	CanPay    = workflow.NewAsk[int, bool]("can-pay")
)

// account takes movements for ever, in one run after the other.
//
//flow:workflow as=Keep
func account(ctx workflow.Context, a Account) error {
	CanPay.Handle(ctx, func(cents int) error {
		if cents < 0 {
			return errors.New("a negative amount")
		}
		return nil
	}, func(_ workflow.Context, cents int) (bool, error) { return a.Cents >= cents, nil })
	for workflow.LogLength(ctx) < 5000 {
		m, err := Movements.Receive(ctx)
		if err != nil {
			return err
		}
		a.Cents += m.Cents
		if a.Last = append(a.Last, m); len(a.Last) > 10 {
			a.Last = a.Last[1:]
		}
		Balance.Set(ctx, a.Cents)
	}
	return Keep.ContinueAsNew(ctx, a)
}
