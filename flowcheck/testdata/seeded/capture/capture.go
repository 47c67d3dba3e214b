// Package capture has workflow code whose recorded functions assign variables.
package capture

import (
	"os"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// assigned keeps a value outside.
//
//flow:workflow
func assigned(ctx workflow.Context, order shop.Order) error {
	var host string
	_, err := workflow.Record(ctx, func() (bool, error) {
		host, _ = os.Hostname() // want `^host is assigned in the function of a Record, which no replay calls: return the value, and assign what Record returns \[capture\]$`
		return true, nil
	})
	if err != nil {
		return err
	}
	return shop.Notify(ctx, order.Customer, host)
}

// counted counts outside.
//
//flow:workflow
func counted(ctx workflow.Context, order shop.Order) error {
	tries := 0
	if _, err := workflow.Record(ctx, func() (string, error) {
		tries++ // want `^tries is assigned`
		return os.Getenv("REGION"), nil
	}); err != nil {
		return err
	}
	return shop.Reserve(ctx, order.ID, tries)
}

// field sets a part of what it has.
//
//flow:workflow
func field(ctx workflow.Context, order shop.Order) error {
	_, err := workflow.Record(ctx, func() (bool, error) {
		order.Customer = os.Getenv("CUSTOMER") // want `^order.Customer is assigned`
		return true, nil
	})
	if err != nil {
		return err
	}
	return shop.Notify(ctx, order.Customer, "hello")
}

// appended appends.
//
//flow:workflow
func appended(ctx workflow.Context, order shop.Order) error {
	var items []string
	_, err := workflow.Record(ctx, func() (int, error) {
		items = append(items, os.Args...) // want `^items is assigned`
		return len(items), nil
	})
	if err != nil {
		return err
	}
	return shop.Release(ctx, items)
}
