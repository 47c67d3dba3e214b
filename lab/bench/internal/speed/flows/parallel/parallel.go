// Package parallel is a workflow of steps all at once.
package parallel

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// fanout executes steps all at once and returns how many gave back their input.
//
//flow:workflow
func fanout(ctx workflow.Context, steps int, data string) (int, error) {
	items := make([]string, steps)
	for i := range items {
		items[i] = data
	}
	results, err := workflow.Map(ctx, items, Noop)
	same := 0
	for i, r := range results {
		if r == items[i] {
			same++
		}
	}
	return same, err
}

// noop is a step that does nothing: the figures are those of the engine around it.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }
