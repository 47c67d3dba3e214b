package limits_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS4_WorkersPublishTheirRatesInTheStore proves that an operator reads the throughput and the
// latencies of a worker from the store, while the worker lives. A limited step is executed by an
// internal run, which is not counted as a run.
func TestOPS4_WorkersPublishTheirRatesInTheStore(t *testing.T) {
	single := limit.New("rates.single", limit.Config{AtOnce: 1})
	limited := flowtest.AStep[int, int]("limited", shim.Policy{Uses: shim.Uses(func(flowtest.StepArgs[int]) []limit.Use { return []limit.Use{single.Use(1)} })})
	both := flowtest.Flow[int, int]("both")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		rates := func() ops.Rates {
			got, err := ops.New(w.Client).Rates(w.Ctx)
			flowtest.Order(t, err)
			return got
		}
		if got := rates(); got.Workers != 0 || len(got.Steps) != 0 {
			t.Errorf("rates of a store without workers: got %+v", got)
		}
		failed := map[int]bool{}
		cfg := worker.Config{Heartbeat: 100 * time.Millisecond, ClaimExpiry: 5 * time.Second, Concurrency: 1}
		r := w.Work(cfg, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
			if !failed[n] {
				failed[n] = true
				return 0, flowtest.ErrBusy
			}
			return n, nil
		}), limited.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(both, func(ctx workflow.Context, n int) (int, error) {
				if _, err := flowtest.Work1.Call(ctx, n); err != nil {
					return 0, err
				}
				return limited.Call(ctx, n)
			}))
		const runs = 4
		for n := range runs {
			_ = flowtest.Result(w, flowtest.Start(w, both, n))
		}
		var got ops.Rates
		w.Eventually("as many runs have begun as have ended, with three attempts each", func() bool {
			got = rates()
			return len(got.Steps) == 2 && math.Abs(got.Attempts-3*got.Ended) < 1e-9 && math.Abs(got.Started-got.Ended) < 1e-9
		})
		if got.Workers != 1 || got.Started <= 0 {
			t.Errorf("got %+v, want one worker that has ended the runs that it has begun", got)
		}
		for i, want := range []string{"test.work1", "test.limited"} {
			s := got.Steps[i]
			if s.Step != want || math.Abs(s.Attempts-float64(2-i)*got.Ended) > 1e-9 || s.P50 <= 0 || s.P50 > s.P95 || s.P95 > s.P99 || s.P99 > flowtest.Patience {
				t.Errorf("step %d: got %+v, want %s with %d attempts for each of the runs", i, s, want, 2-i)
			}
		}
		r.Stop()
		if got := rates(); got.Workers != 0 || len(got.Steps) != 0 {
			t.Errorf("rates after the end of the worker: got %+v, want none", got)
		}
	})
}
