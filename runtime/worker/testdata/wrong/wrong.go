// Package wrong does what must not compile. Each line that is marked is an error.
package wrong

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/generated/functions"
	"github.com/flowgen/flowgen/generated/workflows"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func outside(ctx context.Context, c *workflow.Client) {
	var typed *workflow.Run[time.Time]
	typed, _ = workflows.Fulfil.Start(ctx, c, workflows.Order{ID: "1"})
	_, _ = workflows.Fulfil.Start(ctx, c, "1") // want: another input
	var other *workflow.Run[int]
	other, _ = workflows.Fulfil.Start(ctx, c, workflows.Order{}) // want: another result
	var result string
	result, _ = typed.Result(ctx) // want: another result
	workflowID := "order-1"
	_ = workflows.Fulfil.Get(c, workflowID) // want: a workflow id is no run id
	_ = workflow.Sleep(ctx, 1)              // want: a durable operation outside of workflow code
	_, _ = other, result
}

func aStep(ctx context.Context) error {
	_ = functions.Ping(ctx)                                              // want: a step called from a step
	_ = workflow.GoErr(ctx, func(workflow.Context) error { return nil }) // want: a branch opened from a step
	return workflow.Sleep(ctx, 1)                                        // want: a sleep in a step
}

func workflowCode(ctx workflow.Context) {
	_ = step.Attempt(ctx)          // want: a step's function called from workflow code
	_ = context.WithoutCancel(ctx) // want: a workflow.Context is no context.Context
}
