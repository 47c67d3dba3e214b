// Package key has workflow code whose keys no replay repeats.
package key

import (
	"context"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// bill has a key by the day.
//
//flow:step key="today()+customer"
func bill(ctx context.Context, customer string) error { return ctx.Err() } // want above:1 `^the key of a step is made with key.today → time.Now \(key.go:\d+\), which no replay repeats: make it of the workflow's input or what steps returned \[key\]$`

func today() string { return time.Now().Format(time.DateOnly) }

// keyed has a key by chance.
//
//flow:workflow
func keyed(ctx workflow.Context, order shop.Order) error {
	ctx = workflow.WithStepOptions(ctx, workflow.Key(uuid.NewString())) // want `^the key of a step is made with uuid.NewString, which`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// child has an id by the clock.
//
//flow:workflow
func child(ctx workflow.Context, order shop.Order) error {
	_, err := shop.Ship.StartChild(ctx, order, workflow.WithID("ship-"+time.Now().String())).Get(ctx) // want `^the id of a child is made with time.Now`
	return err
}

// changed has a change by the environment.
//
//flow:workflow
func changed(ctx workflow.Context, order shop.Order) error {
	if workflow.Version(ctx, "fraud-"+os.Getenv("REGION"), 1) == 0 { // want `^the name of a change is made with os.Getenv`
		return nil
	}
	return shop.Notify(ctx, order.Customer, "thanks")
}

// sent has a key of a message by chance.
//
//flow:workflow
func sent(ctx workflow.Context, to string) error {
	return shop.Verdict.SendFrom(ctx, workflow.RunID(to), "yes", workflow.IdempotencyKey(uuid.New().String())) // want `^the key of a message is made with uuid.New`
}
