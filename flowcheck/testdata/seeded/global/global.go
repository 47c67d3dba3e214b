// Package global has workflow code that uses package variables.
package global

import (
	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/config"
	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	orders  int
	prices  = map[string]int{"book": 900}
	limits  struct{ Cents int }
	greeted bool
	rate    = 7
)

// SetRate changes the rate of a running process.
func SetRate(percent int) { rate = percent }

func remember() *bool { return &greeted }

// counted counts orders.
//
//flow:workflow
func counted(ctx workflow.Context, order shop.Order) error {
	orders++ // want `^global.orders belongs to the process: a write is repeated in every replay, and others may see or change it: use a local variable, or keep it in a step \[global\]$`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// priced keeps a price.
//
//flow:workflow
func priced(ctx workflow.Context, order shop.Order) error {
	prices[order.ID] = order.Cents // want `^global.prices belongs`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// limited sets a part of a variable.
//
//flow:workflow
func limited(ctx workflow.Context, order shop.Order) error {
	limits.Cents = order.Cents // want `^global.limits belongs`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// forgot removes one.
//
//flow:workflow
func forgot(ctx workflow.Context, order shop.Order) error {
	delete(prices, order.ID) // want `^global.prices belongs`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// taxed reads what SetRate writes.
//
//flow:workflow
func taxed(ctx workflow.Context, order shop.Order) error {
	_, err := shop.Charge(ctx, order.Customer, order.Cents*rate/100) // want `^global.rate, which global.SetRate writes, may have another value in a replay`
	return err
}

// pointed reads what others may write by its address.
//
//flow:workflow
func pointed(ctx workflow.Context, order shop.Order) error {
	if greeted { // want `^global.greeted, which global.remember writes, may have another value`
		return nil
	}
	return shop.Notify(ctx, order.Customer, "hello")
}

// configured reads a variable of another package of the module.
//
//flow:workflow
func configured(ctx workflow.Context, order shop.Order) error {
	if order.Cents > config.Most { // want `^config.Most, which config.Load writes, may have another value`
		return nil
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}

// helped reads one with a helper.
//
//flow:workflow
func helped(ctx workflow.Context, order shop.Order) error {
	_, err := shop.Charge(ctx, order.Customer, withTax(order.Cents)) // want `^global.withTax → global.rate, which global.SetRate writes, \(global.go:\d+\) may have another value`
	return err
}

func withTax(cents int) int { return cents * (100 + rate) / 100 }
