package worker_test

import (
	"context"
	"flag"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var parkedRuns = flag.Int("parked", 5_000, "number of runs that TestFLOW13_ParkedRunCostsFewBytes parks")

var (
	costSleeper = shim.NewWorkflow[workflow.None, workflow.None]("cost.sleeper", "", shim.WorkflowPolicy{})
	costLong    = shim.NewWorkflow[int, workflow.None]("cost.long", "steps", shim.WorkflowPolicy{})
	costStep    = shim.NewStep("cost.step", shim.Policy{}, func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, n int) (int, error) { return f(ctx, n) })
	})
)

func sleeper(ctx workflow.Context, _ workflow.None) (workflow.None, error) {
	return workflow.None{}, workflow.Sleep(ctx, time.Hour)
}

// heap returns the number of heap bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestFLOW13_ParkedRunCostsFewBytes bounds the memory that a waiting run takes. The run is in the
// store, and its branches are in the worker's cache up to the limit of the cache.
func TestFLOW13_ParkedRunCostsFewBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		cached int // number of branches that may stay in memory
		bound  uint64
	}{
		"in the store only":    {1, 3_000},
		"with its code cached": {1 << 30, 16_000},
	} {
		t.Run(name, func(t *testing.T) {
			clk := storetest.NewClock()
			st := memstore.NewWith(memstore.Config{Clock: clk})
			defer func() { _ = st.Close() }()
			c := workflow.NewClient(st, workflow.ClientConfig{})
			w := worker.New(c, worker.Config{Parked: tt.cached, NoLocalStart: true})
			shim.BindWorkflow(w, costSleeper, sleeper)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			wctx, stop := context.WithCancel(ctx)
			worked := make(chan error, 1)
			go func() { worked <- w.Run(wctx) }()

			last := make([]*workflow.Run[workflow.None], *parkedRuns)
			before, after := heap(), uint64(0)
			for after <= before { // again if memory of earlier tests was freed meanwhile
				before = heap()
				for i := range last {
					run, err := costSleeper.Start(ctx, c, workflow.None{})
					if err != nil {
						t.Fatal(err)
					}
					last[i] = run
				}
				for _, run := range last {
					if err := st.Watch(ctx, run.ID(), 1); err != nil { // the second frame parks the run
						t.Fatal(err)
					}
				}
				after = heap()
			}
			per := (after - before) / uint64(*parkedRuns)
			t.Logf("%d parked runs, %s: %d bytes each", *parkedRuns, name, per)
			if per > tt.bound {
				t.Errorf("a parked run costs %d bytes, want at most %d", per, tt.bound)
			}
			clk.Advance(2 * time.Hour)
			for _, run := range last[:100] {
				if _, err := run.Result(ctx); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			if err := <-worked; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCost_OfStepNineThousandIsThatOfStepNine proves that the cost of a step, measured in
// allocations, does not grow with the length of the log. Heartbeats and other periodic work
// allocate as well, and on a busy machine they add more per step. So the test compares the cheapest
// thousand of five thousand late steps.
func TestCost_OfStepNineThousandIsThatOfStepNine(t *testing.T) {
	const steps, window = 10_000, 1_000
	mallocs := make([]uint64, steps+1)
	st := memstore.New()
	defer func() { _ = st.Close() }()
	c := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(c, worker.Config{})
	costStep.Bind(w, func(_ context.Context, n int) (int, error) {
		if n%window == 0 || n%window == 9 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			mallocs[n] = m.Mallocs
		}
		return n, nil
	})
	shim.BindWorkflow(w, costLong, func(ctx workflow.Context, n int) (workflow.None, error) {
		for i := range n {
			if _, err := shim.Call[int](ctx, costStep, i); err != nil {
				return workflow.None{}, err
			}
		}
		return workflow.None{}, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	wctx, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(wctx) }()
	if _, err := costLong.Execute(ctx, c, steps); err != nil {
		t.Fatal(err)
	}
	early := float64(mallocs[window]-mallocs[9]) / (window - 9)
	late := math.Inf(1)
	for i := 4; i < 9; i++ {
		late = min(late, float64(mallocs[(i+1)*window]-mallocs[i*window])/window)
	}
	t.Logf("allocations per step: %.1f around step 9, %.1f around step 9,000", early, late)
	if late > 1.2*early {
		t.Errorf("a late step costs %.1f allocations, an early one %.1f", late, early)
	}
	// A step of a run in memory, with its commit, costs 14.0 allocations. Under the race detector,
	// pools drop a random part of the values put into them.
	const most = 15
	if late > most && !raced() {
		t.Errorf("a sequential step in memory costs %.1f allocations, want at most %d", late, most)
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}

// raced reports whether the test runs under the race detector.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
