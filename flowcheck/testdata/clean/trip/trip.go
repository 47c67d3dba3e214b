// Package trip books a journey, all of it or nothing.
package trip

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Trip is what a traveller wants.
type Trip struct {
	Flight, Hotel, Car string
	From, To           time.Time
}

//flow:step
func book(ctx context.Context, what string, from, to time.Time) (string, error) {
	return what, ctx.Err()
}

//flow:step
func cancel(ctx context.Context, booking string) error { return ctx.Err() }

// travel books one thing after the other.
//
//flow:workflow
func travel(ctx workflow.Context, trip Trip) ([]string, error) {
	if nights := int(trip.To.Sub(trip.From).Hours() / 24); nights < 1 {
		return nil, errors.New("no night between the flights")
	}
	var bookings []string
	var withdraws []func()
	for _, what := range []string{trip.Flight, trip.Hotel, trip.Car} {
		if what == "" {
			continue
		}
		booking, err := Book(ctx, what, trip.From, trip.To)
		if err != nil {
			return nil, err
		}
		withdraw := workflow.Compensate(ctx, func(ctx workflow.Context) error { return Cancel(ctx, booking) })
		withdraws = append(withdraws, withdraw)
		bookings = append(bookings, booking)
	}
	for _, withdraw := range withdraws {
		withdraw()
	}
	return bookings, nil
}
