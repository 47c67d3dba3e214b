// Package orders is the next release of the code. It insures each order before it waits for the
// order to be packed. Runs that have begun to wait continue without the insurance.
package orders

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Packed is the topic for the message that an order is packed.
var Packed = workflow.NewTopic[workflow.None]("packed")

// fulfil insures the orders of runs that reach the call of Version with this release. Without
// Version, a run that is past this point would be blocked, because its log does not contain the new
// step.
//
//flow:workflow
func fulfil(ctx workflow.Context, id string) (string, error) {
	if err := Reserve(ctx, id); err != nil {
		return "", err
	}
	insured := ""
	if workflow.Version(ctx, "insure", 1) >= 1 {
		if err := Insure(ctx, id); err != nil {
			return "", err
		}
		insured = "insured "
	}
	if _, err := Packed.Receive(ctx); err != nil {
		return "", err
	}
	shipped, err := Ship(ctx, id)
	return insured + shipped, err
}

//flow:step
func reserve(_ context.Context, id string) error { return nil }

//flow:step
func insure(_ context.Context, id string) error { return nil }

//flow:step
func ship(_ context.Context, id string) (string, error) { return id + " is shipped", nil }
