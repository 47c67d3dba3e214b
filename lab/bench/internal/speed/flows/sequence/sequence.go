// Package sequence is a workflow of steps one after the other.
package sequence

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// chain executes steps one after the other, each with the result of the one
// before.
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

// noop is a step that does nothing: the figures are those of the engine around it.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }
