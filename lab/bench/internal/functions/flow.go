package functions

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// steps is the number of steps of a run.
const steps = 5

type args struct {
	N int `json:"n"`
}

// hop is a step that adds one to its argument.
var (
	hop = shim.NewStep("bench.functions.hop", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 10, Initial: time.Millisecond}}, func(f func(context.Context, args) (int, error)) shim.Handler {
		return shim.Handle(f)
	})
	hops = shim.NewWorkflow[int, int]("bench.functions.hops", "n", shim.WorkflowPolicy{})
)

// register registers the code. note is called with each execution of a step.
func register(r workflow.Registrar, note func(what string, run workflow.RunID, key string)) {
	hop.Bind(r, func(ctx context.Context, a args) (int, error) {
		call, _ := step.Current(ctx)
		note("executed", call.RunID, call.Key)
		return a.N + 1, nil
	})
	shim.BindWorkflow(r, hops, func(ctx workflow.Context, n int) (int, error) {
		for range steps {
			var err error
			if n, err = shim.Call[int](ctx, hop, args{n}); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
}
