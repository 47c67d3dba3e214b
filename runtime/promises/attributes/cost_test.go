package attributes_test

import (
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestEV11_AttributesThatNoCodeReadsCostAStepNothing proves that a step allocates as often in a run
// with 32 attributes as in a run without. The smallest of several figures counts, because the
// runtime of Go allocates as well.
func TestEV11_AttributesThatNoCodeReadsCostAStepNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	const steps = 2000
	nothing := flowtest.AStep[int, int]("nothing", shim.Policy{})
	chain := flowtest.Flow[int, int]("chain")
	w.Work(worker.Config{}, nothing.As(func(_ context.Context, n int) (int, error) { return n, nil }), flowtest.As(chain, func(ctx workflow.Context, n int) (int, error) {
		for range n {
			if _, err := nothing.Call(ctx, 1); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}))
	perStep := func(ctx context.Context) float64 {
		least := math.Inf(1)
		for range 5 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run, err := chain.Start(ctx, w.Client, steps)
			flowtest.Order(t, err)
			flowtest.Result(w, run)
			runtime.ReadMemStats(&after)
			least = min(least, float64(after.Mallocs-before.Mallocs)/steps)
		}
		return least
	}
	perStep(w.Ctx) // warm up
	without, with := perStep(w.Ctx), perStep(many(w.Ctx, 32))
	t.Logf("%.2f allocations per step without attributes, %.2f with 32", without, with)
	if math.Abs(with-without) > 0.5 {
		t.Errorf("%.2f allocations per step without attributes, %.2f with 32, want the same", without, with)
	}
}
