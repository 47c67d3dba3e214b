package limits_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestPOOL1_StepsOfALimitThatWasNeverConfiguredCostNothing proves that a step whose limit was never
// configured is executed in place. The log of the run, and its number of creates, are the same as
// without the limit.
func TestPOOL1_StepsOfALimitThatWasNeverConfiguredCostNothing(t *testing.T) {
	free := limit.New("test.neverset", limit.Config{})
	plain := flowtest.AStep[int, int]("limits.plain", using(func(int) []limit.Use { return nil }))
	uses := flowtest.AStep[int, int]("limits.neverset", using(func(int) []limit.Use { return []limit.Use{free.Use(3)} }))
	costs := func(t *testing.T, w *flowtest.World, step flowtest.StepOf[int, int]) (map[string]int, []event.Type) {
		between := &flowtest.Between{Store: w.Store}
		w.Client = flowtest.NewClient(between, workflow.ClientConfig{})
		t.Cleanup(func() { _ = w.Client.Close() })
		flow := flowtest.Flow[int, int]("limits.ten")
		w.Work(worker.Config{}, flowtest.As(flow, func(ctx workflow.Context, n int) (int, error) {
			for range 10 {
				if _, err := step.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		}), step.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		run := flowtest.Start(w, flow, 7)
		flowtest.Result(w, run)
		var types []event.Type
		for _, e := range w.Log(run) {
			types = append(types, e.Type)
		}
		calls := between.Tally()
		return map[string]int{"commit": calls["commit"], "create": calls["create"]}, types
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		without, log := costs(t, flowtest.NewMemory(t), plain)
		with, same := costs(t, w, uses)
		if diff := cmp.Diff(log, same); diff != "" {
			t.Errorf("the log is another one (-without limit +with):\n%s", diff)
		}
		if with["create"] > without["create"] {
			t.Errorf("ten steps cost %v, without the limit %v", with, without)
		}
	})
}

// TestPOOL1_ARunKeepsTheCallsFromBeforeItsLimitWasConfigured proves that the first configuration of
// a limit applies from the next heartbeat on, and until it is reset. The calls of one run are
// executed in place and by step runs, and a replay finds no difference.
func TestPOOL1_ARunKeepsTheCallsFromBeforeItsLimitWasConfigured(t *testing.T) {
	loose := limit.New("test.loose", limit.Config{})
	step := flowtest.AStep[int, int]("limits.loose", using(func(int) []limit.Use { return []limit.Use{loose.Use(1)} }))
	flow := flowtest.Flow[int, int]("limits.looseFlow")
	probe := flowtest.Flow[int, int]("limits.looseProbe")
	bindings := []flowtest.Binding{
		flowtest.As(flow, func(ctx workflow.Context, n int) (int, error) {
			for range 3 {
				if _, err := flowtest.Numbers.Receive(ctx); err != nil {
					return 0, err
				}
				var err error
				if n, err = step.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		}),
		flowtest.As(probe, func(ctx workflow.Context, n int) (int, error) { return step.Call(ctx, n) }),
		step.As(func(_ context.Context, n int) (int, error) { return n + 1, nil }),
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		cfg := worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute}
		// known waits until the worker executes steps of new runs in place, or by step runs if
		// inPlace is false.
		known := func(inPlace bool) {
			w.Eventually("the worker has heard of the limit", func() bool {
				run := flowtest.Start(w, probe, 1)
				flowtest.Result(w, run)
				return inPlace == (len(flowtest.Filter(w.Log(run), event.StepCreated)) == 1)
			})
		}
		limits := ops.New(w.Client).Limits()
		first := w.Work(cfg, bindings...)
		run := flowtest.Start(w, flow, 0)
		known(true)
		w.Send(run, 1)
		w.Reach(run, event.StepCompleted, 1)
		if err := limits.Set(w.Ctx, loose, limit.Config{AtOnce: 1}); err != nil {
			t.Fatal(err)
		}
		known(false)
		w.Send(run, 2)
		w.Reach(run, event.ChildCompleted, 1)
		first.Stop()
		if err := limits.Reset(w.Ctx, loose); err != nil {
			t.Fatal(err)
		}
		w.Work(cfg, bindings...)
		known(true)
		w.Send(run, 3)
		if got := flowtest.Result(w, run); got != 3 {
			t.Errorf("got %d, want 3: each call was executed once", got)
		}
		var got []event.Type
		for _, e := range flowtest.Filter(w.Log(run), event.StepCreated, event.ChildCreated) {
			got = append(got, e.Type)
		}
		if diff := cmp.Diff([]event.Type{event.StepCreated, event.ChildCreated, event.StepCreated}, got); diff != "" {
			t.Errorf("the calls (-want +got):\n%s", diff)
		}
	})
}
