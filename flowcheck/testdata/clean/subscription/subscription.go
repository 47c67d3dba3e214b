// Package subscription charges a customer each month, for years.
package subscription

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// State is where a subscription stands.
type State struct {
	Customer string
	Cents    int
	Months   int
	Next     time.Time
}

// Stop ends a subscription.
var Stop = workflow.NewTopic[string]("stop")

//flow:step key=month
func charge(ctx context.Context, customer string, cents, month int) error { return ctx.Err() }

//flow:step
func goodbye(ctx context.Context, customer, reason string) error { return ctx.Err() }

// subscribe continues as new each month.
//
//flow:workflow as=Subscription
func subscribe(ctx workflow.Context, s State) error {
	if s.Next.IsZero() {
		s.Next = workflow.Now(ctx)
	}
	reason, err := Stop.Receive(ctx, workflow.Timeout(s.Next.Sub(workflow.Now(ctx))))
	if err == nil {
		return Goodbye(ctx, s.Customer, reason)
	}
	if !errors.Is(err, workflow.ErrReceiveTimeout) {
		return err
	}
	if err := Charge(ctx, s.Customer, s.Cents, s.Months); err != nil {
		return err
	}
	s.Months++
	s.Next = time.Date(s.Next.Year(), s.Next.Month()+1, s.Next.Day(), 8, 0, 0, 0, time.UTC)
	return Subscription.ContinueAsNew(ctx, s)
}
