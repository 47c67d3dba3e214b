// Package machines contains the code that the page about state machines quotes.
//
//flow:package name=refunds
package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Claim is a request of a customer for a refund of an order.
type Claim struct {
	Order string
	Cents int64
}

// Outcome is the result of a claim.
type Outcome struct {
	Refunded  int64
	Reminders int
	Why       string
}

// Decisions is the topic for the decisions of a clerk about a claim.
var Decisions = workflow.NewTopic[Decision]("decisions")

// Decision is the message with which a clerk decides about a claim.
type Decision struct {
	OK  bool
	Why string
}

// ErrNoOrder is returned for a claim whose order does not exist.
//
//flow:error
var ErrNoOrder = errors.New("there is no such order")

// Shop contains the dependencies of the steps.
type Shop interface {
	Check(ctx context.Context, order string) error
	Ask(ctx context.Context, order, text string) error
	Refund(ctx context.Context, order string, cents int64) error
}

// refund handles a claim until it is paid or refused.
//
//flow:machine start=check max=100
type refund struct {
	Order     string // Exported fields are kept between steps.
	Cents     int64
	Reminders int

	shop Shop // Unexported fields are parameters of Register.
}

//flow:step retries=5 backoff=exponential(1s,1m) fatal=ErrNoOrder catch=refuse
func (r *refund) check(ctx context.Context, claim Claim) (step.Next[refund, Outcome], error) {
	if err := r.shop.Check(ctx, claim.Order); err != nil {
		return step.Next[refund, Outcome]{}, err
	}
	r.Order, r.Cents = claim.Order, claim.Cents
	if r.Cents < 2000 {
		return r.goPay(), nil // A clerk need not approve this claim.
	}
	return r.goAsk("is this right?"), nil
}

//flow:step
func (r *refund) ask(ctx context.Context, text string) (step.Next[refund, Outcome], error) {
	if err := r.shop.Ask(ctx, r.Order, text); err != nil {
		return step.Next[refund, Outcome]{}, err
	}
	return r.awaitDecide(Decisions).OrAfter(24*time.Hour, r.goRemind()), nil
}

//flow:step
func (r *refund) remind(context.Context) (step.Next[refund, Outcome], error) {
	if r.Reminders == 3 {
		return r.goPay(), nil // Without a decision, the claim is approved.
	}
	r.Reminders++
	return r.goAsk(fmt.Sprintf("reminder %d", r.Reminders)), nil
}

//flow:step
func (r *refund) decide(_ context.Context, d Decision) (step.Next[refund, Outcome], error) {
	if d.OK {
		return r.goPay(), nil
	}
	return r.done(Outcome{Reminders: r.Reminders, Why: d.Why}), nil
}

//flow:step retries=10
func (r *refund) pay(ctx context.Context) (step.Next[refund, Outcome], error) {
	if err := r.shop.Refund(ctx, r.Order, r.Cents); err != nil {
		return step.Next[refund, Outcome]{}, err
	}
	return r.done(Outcome{Refunded: r.Cents, Reminders: r.Reminders}), nil
}

//flow:step
func (r *refund) refuse(_ context.Context, why step.Failure) (step.Next[refund, Outcome], error) {
	if errors.Is(why, ErrNoOrder) {
		return r.done(Outcome{Why: "no such order"}), nil
	}
	return r.done(Outcome{Why: "later, please: " + why.Error()}), nil
}
