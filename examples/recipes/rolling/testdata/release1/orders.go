// Package orders is the release that is in production.
package orders

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Packed is sent when an order is packed.
var Packed = workflow.NewTopic[workflow.None]("packed")

// fulfil waits between two steps, often for days: a deployment finds many such runs.
//
//flow:workflow
func fulfil(ctx workflow.Context, id string) (string, error) {
	if err := Reserve(ctx, id); err != nil {
		return "", err
	}
	if _, err := Packed.Receive(ctx); err != nil {
		return "", err
	}
	return Ship(ctx, id)
}

//flow:step
func reserve(_ context.Context, id string) error { return nil }

//flow:step
func ship(_ context.Context, id string) (string, error) { return id + " is shipped", nil }
