// Package flows contains the workflow that flowgen executes.
package flows

import (
	"context"

	"github.com/flowgen/flowgen/lab/versus/internal/task"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Work has the step of the workflow.
type Work struct{ Probe *task.Probe }

// run executes the steps of a run in sequence or in parallel.
//
//flow:workflow
func run(ctx workflow.Context, in task.Input) (string, error) {
	if in.Parallel {
		all := make([]task.Step, in.Steps)
		for n := range all {
			all[n] = in.Step(n, in.Data)
		}
		results, err := workflow.Map(ctx, all, Do)
		if err != nil {
			return "", err
		}
		return in.Join(results)
	}
	data := in.Data
	for n := range in.Steps {
		var err error
		if data, err = Do(ctx, in.Step(n, data)); err != nil {
			return "", err
		}
	}
	return data, nil
}

// do executes a step.
//
//flow:step
func (w *Work) do(_ context.Context, in task.Step) (string, error) { return w.Probe.Do(in), nil }
