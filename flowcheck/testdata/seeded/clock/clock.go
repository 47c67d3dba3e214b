// Package clock has workflow code that reads the clock.
package clock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/tax"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is what is sold.
type Order struct {
	ID      string
	Country string
	Cents   int
	Lines   []Line
	Made    time.Time
}

// Line is a part of an order.
type Line struct {
	Name string
	Due  time.Time
}

// ship sends an order.
//
//flow:step
func ship(ctx context.Context, id string, cents int) error { return ctx.Err() }

// direct takes the time where it needs it.
//
//flow:workflow
func direct(ctx workflow.Context, order Order) error {
	if time.Now().Hour() < 8 { // want `^time.Now reads the wall clock, which shows another time in every replay: use workflow.Now, or compute it in a step \[clock\]$`
		return errors.New("closed")
	}
	return Ship(ctx, order.ID, order.Cents)
}

// away adds taxes that depend on the day, two packages away.
//
//flow:workflow
func away(ctx workflow.Context, order Order) error {
	total := tax.Total(order.Cents, order.Country) // want `^tax.Total → tax.of → rate.Of → time.Now \(rate.go:\d+\) reads the wall clock`
	return Ship(ctx, order.ID, total)
}

// method asks a table whether it is old.
//
//flow:workflow
func method(ctx workflow.Context, order Order) error {
	table := &tax.Table{Made: order.Made}
	if table.Old() { // want `^tax.Table.Old → time.Since \(tax.go:\d+\) reads`
		return errors.New("the taxes are out of date")
	}
	return Ship(ctx, order.ID, order.Cents)
}

// recursive has helpers that call each other.
//
//flow:workflow
func recursive(ctx workflow.Context, order Order) error {
	if tax.Odd(order.Cents) { // want `^tax.Odd → tax.Even → time.Now \(tax.go:\d+\) reads`
		order.Cents++
	}
	return Ship(ctx, order.ID, order.Cents)
}

// generic calls a generic helper.
//
//flow:workflow
func generic(ctx workflow.Context, order Order) error {
	newest := tax.Newest(order.Lines, func(l Line) time.Time { return l.Due }) // want `^tax.Newest → time.Now \(tax.go:\d+\) reads`
	return Ship(ctx, newest.Name, order.Cents)
}

// third uses another module.
//
//flow:workflow
func third(ctx workflow.Context, order Order) error {
	if ulid.Now() > ulid.Timestamp(order.Made)+1000 { // want `^ulid.Now → time.Now \(ulid.go:\d+\) reads`
		return errors.New("too late")
	}
	return Ship(ctx, order.ID, order.Cents)
}

// deferred takes the time at the end.
//
//flow:workflow
func deferred(ctx workflow.Context, order Order) error {
	started := workflow.Now(ctx)
	defer func() {
		workflow.Logger(ctx).Info("shipped", "took", time.Since(started)) // want `^time.Since reads`
	}()
	return Ship(ctx, order.ID, order.Cents)
}

// compared sorts by what is due.
//
//flow:workflow
func compared(ctx workflow.Context, order Order) error {
	slices.SortFunc(order.Lines, byDue) // want `^clock.byDue → clock.left → time.Until \(clock.go:\d+\) reads`
	return Ship(ctx, order.Lines[0].Name, order.Cents)
}

func byDue(a, b Line) int { return int(left(a) - left(b)) }

func left(l Line) time.Duration { return time.Until(l.Due).Round(time.Minute) }

// limited gives a helper a second by the wrong clock.
//
//flow:workflow
func limited(ctx workflow.Context, order Order) error {
	if !fits(order) { // want `^clock.fits → context.WithTimeout \(clock.go:\d+\) ends by the clock of the process`
		return errors.New("no room")
	}
	return Ship(ctx, order.ID, order.Cents)
}

func fits(order Order) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for range order.Lines {
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// helped has a helper in its own package.
//
//flow:workflow
func helped(ctx workflow.Context, order Order) error {
	if weekend() { // want `^clock.weekend → time.Now \(clock.go:\d+\) reads`
		return nil
	}
	return Ship(ctx, order.ID, order.Cents)
}

func weekend() bool { return time.Now().Weekday() == time.Saturday }
