package limits_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestPOOL1_StepsTakeALimitByTheirWeights proves that steps take a limit of 3 by their weights.
// Three attempts of weight 1 run concurrently, and the held weight never exceeds the limit.
func TestPOOL1_StepsTakeALimitByTheirWeights(t *testing.T) {
	render := flowtest.AStep[int, int]("limits.weighs", using(func(n int) []limit.Use { return []limit.Use{disk.Use(n)} }))
	weighs := flowtest.Flow[int, int]("limits.weighed")
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var held, most, begun atomic.Int64
		var light sync.WaitGroup
		light.Add(3)
		for range 3 {
			w.Work(worker.Config{}, flowtest.As(weighs, func(ctx workflow.Context, n int) (int, error) {
				return render.Call(ctx, n)
			}), render.As(func(_ context.Context, n int) (int, error) {
				now := held.Add(int64(n))
				defer held.Add(-int64(n))
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				if begun.Add(1) <= 3 {
					light.Done()
					light.Wait()
				}
				return n, nil
			}))
		}
		var runs []*workflow.Run[int]
		weights := []int{1, 1, 1, 3, 2, 1, 1, 2}
		for n := range 40 {
			if n == 3 {
				light.Wait() // a heavy attempt between the three would keep them from running concurrently
			}
			runs = append(runs, flowtest.Start(w, weighs, weights[n%len(weights)]))
		}
		for n, run := range runs {
			if got := flowtest.Result(w, run); got != weights[n%len(weights)] {
				t.Errorf("run %d: got %d", n, got)
			}
		}
		if most.Load() != 3 {
			t.Errorf("at most %d were under way at once, the limit is 3", most.Load())
		}
		limits, err := ops.New(w.Client).Limits().List(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range limits {
			if l.Held != 0 || l.Waits != 0 {
				t.Errorf("when all have ended, somebody has permits: %+v", l)
			}
		}
	})
}

// TestPOOL1_TheStepsOfASerialRunNeverWaitForOneAnother proves that a run whose steps are executed
// one after the other never waits for its own steps. Each step takes the whole limit, and has
// released it when the next step begins.
func TestPOOL1_TheStepsOfASerialRunNeverWaitForOneAnother(t *testing.T) {
	all := func(int) []limit.Use { return []limit.Use{gpu.Use(2), disk.Use(3)} }
	link := flowtest.AStep[int, int]("limits.link", using(all))
	serial := flowtest.Flow[int, int]("limits.serial")
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(serial, func(ctx workflow.Context, n int) (sum int, err error) {
			for range n {
				if sum, err = link.Call(ctx, sum); err != nil {
					return 0, err
				}
			}
			return sum, nil
		}), link.As(func(_ context.Context, n int) (int, error) { return n + 1, nil }))
		run := flowtest.Start(w, serial, 25)
		if got := flowtest.Result(w, run); got != 25 {
			t.Errorf("got %d", got)
		}
		if waited := flowtest.Filter(w.Log(run), event.ResourceWait); len(waited) > 0 {
			t.Errorf("a step waited for those before it: %+v", waited)
		}
	})
}

// TestPOOL1_ALimitTakesNoRoundTrip proves that a run that uses limits sends no more requests to the
// store than a run without limits. It tests a limit without a bound, and limits with free capacity,
// whose permits are taken by the claim itself.
func TestPOOL1_ALimitTakesNoRoundTrip(t *testing.T) {
	open := limit.New("test.open", limit.Config{})
	costs := func(t *testing.T, name string, uses func(int) []limit.Use) map[string]int {
		w := flowtest.NewMemory(t)
		between := &flowtest.Between{Store: w.Store}
		w.Client = flowtest.NewClient(between, workflow.ClientConfig{})
		t.Cleanup(func() { _ = w.Client.Close() })
		flow := flowtest.LimitedFlow[int, int](name, uses)
		w.Work(worker.Config{}, flowtest.As(flow, func(ctx workflow.Context, n int) (int, error) { return n, nil }))
		for n := range 20 {
			if got := flowtest.Result(w, flowtest.Start(w, flow, n)); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
		calls := between.Tally()
		maps.DeleteFunc(calls, func(op string, _ int) bool { return op == "wait" || op == "claim" || op == "heartbeat" })
		return calls
	}
	without := costs(t, "limits.free", func(int) []limit.Use { return nil })
	for n, uses := range [][]limit.Use{{open.Use(1000)}, {gpu.Use(1)}, {gpu.Use(1), disk.Use(2)}} {
		with := costs(t, fmt.Sprint("limits.uses", n), func(int) []limit.Use { return uses })
		if diff := cmp.Diff(without, with); diff != "" {
			t.Errorf("runs that use %v cost otherwise (-without +with):\n%s", uses, diff)
		}
	}
}
