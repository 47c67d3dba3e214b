// Package ignores has comments that silence nothing.
package ignores

import (
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// silenced has reasons.
//
//flow:workflow
func silenced(ctx workflow.Context, order shop.Order) error {
	//flow:ignore clock only for people, it decides nothing
	started := time.Now()
	workflow.Logger(ctx).Info("started", "at", started, "day", day()) //flow:ignore clock the wrong one, see below // want `//flow:ignore clock silences nothing: remove it \[ignore\]$`
	return shop.Notify(ctx, order.Customer, "hello")
}

// day is silenced where the clock is read, for all of its callers.
func day() string {
	return time.Now().Format(time.DateOnly) //flow:ignore clock it is only printed
}

// whole is silenced as a whole.
//
//flow:ignore clock the times are only printed
func whole(ctx workflow.Context, order shop.Order) error {
	workflow.Logger(ctx).Info("took", "time", time.Since(time.Now()))
	return shop.Notify(ctx, order.Customer, "hello")
}

// unexplained gives no reason.
//
//flow:workflow
func unexplained(ctx workflow.Context, order shop.Order) error {
	// want below:1 `^//flow:ignore gives no reason: write why clock is wrong here \[ignore\]$`
	//flow:ignore clock
	return shop.Notify(ctx, order.Customer, "hello")
}

// misspelt names no rule; and unnamed none at all.
//
//flow:workflow
func misspelt(ctx workflow.Context, order shop.Order) error {
	//flow:ignore clocks the times are only printed // want `^//flow:ignore names clocks, which is no rule: did you mean clock\? \[ignore\]$`
	// want below:1 `^//flow:ignore names no rule: write //flow:ignore RULE reason \[ignore\]$`
	//flow:ignore
	return shop.Notify(ctx, order.Customer, "hello")
}
