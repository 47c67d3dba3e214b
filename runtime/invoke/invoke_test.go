package invoke_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Orders is a workflow with three steps and a sleep.
var (
	addStep = flowtest.AStep[int, int]("invoke.add", shim.Policy{Retry: flowtest.Quick})
	orders  = flowtest.Flow[int, int]("invoke.orders")
	order   = flowtest.As(orders, func(ctx workflow.Context, n int) (int, error) {
		for i := range 3 {
			var err error
			if n, err = addStep.Call(ctx, n); err != nil {
				return 0, err
			}
			if i == 1 {
				if err := workflow.Sleep(ctx, 20*time.Millisecond); err != nil {
					return 0, err
				}
			}
		}
		return n, nil
	})
	add = addStep.As(func(_ context.Context, n int) (int, error) { return n + 1, nil })
)

func TestOPS7_FunctionsExecuteRunsWithoutAWorker(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		f := function(w, invoke.Config{}, order, add)
		dispatch(w, f.URL)
		var runs []*workflow.Run[int]
		for i := range 20 {
			runs = append(runs, flowtest.Start(w, orders, i))
		}
		for i, run := range runs {
			if got := flowtest.Result(w, run); got != i+3 {
				t.Errorf("result of run %d: %d, want %d", i, got, i+3)
			}
		}
		w.Healthy()
	})
}
