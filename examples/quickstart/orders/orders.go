// Package orders contains the workflow of the quickstart. Other examples execute it in other ways.
//
//flow:package name=quickstart
package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is the input of fulfil. It contains the goods that the customer bought.
type Order struct {
	ID    string   `json:"id"`
	Cents int64    `json:"cents"`
	Items []string `json:"items"`
}

// Receipt is the result of an order.
type Receipt struct {
	Payment  string   `json:"payment"`
	Boxes    []string `json:"boxes"`
	Tracking string   `json:"tracking"`
	Approved string   `json:"approved_by"`
}

// Approval is the topic for the approval of an order. A message contains the name of the person who
// approves the order.
var Approval = workflow.NewTopic[string]("approval")

// fulfil processes an order from the payment to the parcel service.
//
//flow:workflow
func fulfil(ctx workflow.Context, order Order) (Receipt, error) {
	payment, err := Charge(ctx, order.ID, order.Cents)
	if err != nil {
		return Receipt{}, err
	}
	if err := workflow.Sleep(ctx, 500*time.Millisecond); err != nil { // Wait for the end of a cooling-off period.
		return Receipt{}, err
	}
	approver, err := Approval.Receive(ctx, workflow.Timeout(24*time.Hour))
	if err != nil {
		return Receipt{}, fmt.Errorf("order %s was not approved: %w", order.ID, err)
	}
	boxes, err := workflow.Map(ctx, order.Items, Pack) // Each item is packed in a parallel branch.
	if err != nil {
		return Receipt{}, err
	}
	tracking, err := Ship(ctx, order.ID, boxes)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Payment: payment, Boxes: boxes, Tracking: tracking, Approved: approver}, nil
}

// charge debits the customer.
//
//flow:step timeout=10s
func (s *Shop) charge(ctx context.Context, orderID string, cents int64) (string, error) {
	s.effect(ctx) // A real bank would use step.IdempotencyKey(ctx) to detect a repeated debit.
	return fmt.Sprintf("%d.%02d paid for %s", cents/100, cents%100, orderID), nil
}

// pack puts an item into a box.
//
//flow:step
func (s *Shop) pack(ctx context.Context, item string) (string, error) {
	s.effect(ctx)
	return "box with " + item, nil
}

// ship passes the boxes to the parcel service. The service fails for the first two attempts.
//
//flow:step retries=9 backoff=constant(200ms)
func (s *Shop) ship(ctx context.Context, orderID string, boxes []string) (string, error) {
	s.effect(ctx)
	if step.Attempt(ctx) < 3 {
		return "", errors.New("parcel service is down")
	}
	return fmt.Sprintf("parcel %s-%d", orderID, len(boxes)), nil
}
