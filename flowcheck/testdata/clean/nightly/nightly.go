// Package nightly closes the books of a day.
package nightly

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Total is the result for one currency.
type Total struct {
	Currency string
	Cents    int
}

//flow:step timeout=10m
func load(ctx context.Context, day string) (map[string][]int, error) {
	return map[string][]int{day: nil}, ctx.Err()
}

//flow:step key=total.Currency
func book(ctx context.Context, total Total) error { return ctx.Err() }

// totals has one entry per currency, in order.
func totals(entries map[string][]int) []Total {
	var list []Total
	for currency, cents := range entries {
		total := Total{Currency: currency}
		for _, c := range cents {
			total.Cents += c
		}
		list = append(list, total)
	}
	slices.SortFunc(list, func(a, b Total) int { return strings.Compare(a.Currency, b.Currency) })
	return list
}

// closeDay books all currencies of a day.
//
//flow:workflow schedule="30 2 * * * Europe/Zurich"
func closeDay(ctx workflow.Context) (int, error) {
	tick, ok := workflow.Tick(ctx)
	if !ok {
		tick = workflow.Now(ctx)
	}
	entries, err := Load(ctx, tick.AddDate(0, 0, -1).Format(time.DateOnly))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, total := range totals(entries) {
		if err := Book(ctx, total); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
