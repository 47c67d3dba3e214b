// Package sequence contains a workflow with sequential steps.
package sequence

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// chain executes steps in sequence. The input of each step is the result of the previous one.
//
//flow:workflow
func chain(ctx workflow.Context, steps int, data string) (string, error) {
	var err error
	for range steps {
		if data, err = Noop(ctx, data); err != nil {
			return "", err
		}
	}
	return data, nil
}

// noop returns its input, so that only the engine is measured.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }
