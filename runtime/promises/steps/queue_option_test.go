package steps_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sited is a step that returns the name of the worker that executes it.
var (
	sited  = flowtest.AStep[int, string]("sited", shim.Policy{Retry: flowtest.Quick})
	siting = flowtest.Flow[int, []string]("siting")
)

func TestSTEP10_AnOptionSendsAStepToAnotherQueue(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		code := flowtest.As(siting, func(ctx workflow.Context, n int) ([]string, error) {
			var all []string
			for _, ctx := range []workflow.Context{
				ctx,
				workflow.WithStepOptions(ctx, workflow.Queue("tpu")),
				workflow.WithStepOptions(ctx, workflow.Queue("tpu"), workflow.Retry(flowtest.Quick)),
				workflow.WithStepOptions(workflow.WithStepOptions(ctx, workflow.Queue("tpu")), workflow.Queue(workflow.DefaultQueue)),
			} {
				where, err := sited.Call(ctx, n)
				if err != nil {
					return all, err
				}
				all = append(all, where)
			}
			return all, nil
		})
		on := func(name string) flowtest.Binding {
			return sited.As(func(ctx context.Context, n int) (string, error) {
				if name == "tpu" && step.Attempt(ctx) == 1 {
					return "", flowtest.ErrBusy
				}
				c, _ := step.Current(ctx)
				return fmt.Sprint(name, " ", c.Key, " ", c.Attempt), nil
			})
		}
		w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, on("default"))
		w.Work(worker.Config{Queues: []string{"tpu"}}, on("tpu"))
		run := flowtest.Start(w, siting, 1)
		want := []string{
			"default siting/test.sited#1 1", "tpu siting/test.sited#2 2", "tpu siting/test.sited#3 2", "default siting/test.sited#4 1",
		}
		if diff := cmp.Diff(want, flowtest.Result(w, run)); diff != "" {
			t.Errorf("executed on (-want +got):\n%s", diff)
		}
		if n := len(flowtest.Filter(w.Log(run), event.ChildCreated)); n != 2 {
			t.Errorf("%d steps have a run of their own, want 2", n)
		}
	})
}

func TestSTEP10_AnOptionGoesBeforeTheQueueOfTheDirective(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(flowtest.Renders, func(ctx workflow.Context, n int) (string, error) {
		return flowtest.Gpu.Call(workflow.WithStepOptions(ctx, workflow.Queue(workflow.DefaultQueue)), n)
	}), flowtest.Gpu.As(func(context.Context, int) (string, error) { return "here", nil }))
	run := flowtest.Start(w, flowtest.Renders, 1)
	if got := flowtest.Result(w, run); got != "here" {
		t.Errorf("got %q", got)
	}
	if n := len(flowtest.Filter(w.Log(run), event.ChildCreated)); n != 0 {
		t.Errorf("%d steps have a run of their own, want none: the queue is that of the run", n)
	}
}

func TestSTEP10_AStepWaitsUntilSomebodyServesTheQueueOfItsOption(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(siting, func(ctx workflow.Context, n int) ([]string, error) {
		where, err := sited.Call(workflow.WithStepOptions(ctx, workflow.Queue("tpu")), n)
		return []string{where}, err
	}), sited.As(func(context.Context, int) (string, error) { return "wrong", nil }))
	run := flowtest.Start(w, siting, 1)
	w.Reach(run, event.ChildCreated, 1)
	w.Status(run, workflow.StatusWaiting)
	w.Work(worker.Config{Queues: []string{"tpu"}}, sited.As(func(context.Context, int) (string, error) { return "right", nil }))
	if got := flowtest.Result(w, run); len(got) != 1 || got[0] != "right" {
		t.Errorf("got %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty name is no mistake")
		}
	}()
	workflow.Queue("")
}
