// Package parallel contains a workflow with parallel steps.
package parallel

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// fanout executes steps in parallel and returns the number of steps that returned their input.
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

// noop returns its input, so that only the engine is measured.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }
