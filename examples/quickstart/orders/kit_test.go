package orders

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func setupFulfil(env *workflowtest.Env) {
	Register(env, &Shop{})
	env.At(time.Hour, func(ctx context.Context) {
		err := Approval.Send(ctx, env.Run(), "ann", workflow.IdempotencyKey("click-1"))
		if err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			panic(err)
		}
	})
}

var testOrder = Order{ID: "order-1", Cents: 4990, Items: []string{"lamp", "desk", "chair"}}

func TestFulfil_SurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, Fulfil, testOrder, setupFulfil)
}

func TestFulfil_WorksInAnyOrder(t *testing.T) {
	// An approval that arrives after the timeout of the receive is not accepted.
	workflowtest.Interleave(t, Fulfil, testOrder, setupFulfil, 100, workflowtest.AllowUnread())
}
