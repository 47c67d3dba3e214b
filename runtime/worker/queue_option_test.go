package worker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sited is a step whose result says on which worker it was executed.
var (
	sited  = aStep[int, string]("sited", shim.Policy{Retry: quick})
	siting = flow[int, []string]("siting")
)

func TestSTEP10_AnOptionSendsAStepToAnotherQueue(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		code := as(siting, func(ctx workflow.Context, n int) ([]string, error) {
			var all []string
			for _, ctx := range []workflow.Context{
				ctx,
				workflow.WithStepOptions(ctx, workflow.Queue("tpu")),
				workflow.WithStepOptions(ctx, workflow.Queue("tpu"), workflow.Retry(quick)),
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
		on := func(name string) binding {
			return sited.as(func(ctx context.Context, n int) (string, error) {
				if name == "tpu" && step.Attempt(ctx) == 1 {
					return "", errBusy
				}
				c, _ := step.Current(ctx)
				return fmt.Sprint(name, " ", c.Key, " ", c.Attempt), nil
			})
		}
		w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, on("default"))
		w.work(worker.Config{Queues: []string{"tpu"}}, on("tpu"))
		run := start(w, siting, 1)
		want := []string{
			"default siting/test.sited#1 1", "tpu siting/test.sited#2 2", "tpu siting/test.sited#3 2", "default siting/test.sited#4 1",
		}
		if diff := cmp.Diff(want, result(w, run)); diff != "" {
			t.Errorf("executed on (-want +got):\n%s", diff)
		}
		if n := len(filter(w.log(run), event.ChildCreated)); n != 2 {
			t.Errorf("%d steps have a run of their own, want 2", n)
		}
	})
}

func TestSTEP10_AnOptionGoesBeforeTheQueueOfTheDirective(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, as(renders, func(ctx workflow.Context, n int) (string, error) {
		return gpu.Call(workflow.WithStepOptions(ctx, workflow.Queue(workflow.DefaultQueue)), n)
	}), gpu.as(func(context.Context, int) (string, error) { return "here", nil }))
	run := start(w, renders, 1)
	if got := result(w, run); got != "here" {
		t.Errorf("got %q", got)
	}
	if n := len(filter(w.log(run), event.ChildCreated)); n != 0 {
		t.Errorf("%d steps have a run of their own, want none: the queue is that of the run", n)
	}
}

func TestSTEP10_AStepWaitsUntilSomebodyServesTheQueueOfItsOption(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, as(siting, func(ctx workflow.Context, n int) ([]string, error) {
		where, err := sited.Call(workflow.WithStepOptions(ctx, workflow.Queue("tpu")), n)
		return []string{where}, err
	}), sited.as(func(context.Context, int) (string, error) { return "wrong", nil }))
	run := start(w, siting, 1)
	w.reach(run, event.ChildCreated, 1)
	w.status(run, workflow.StatusWaiting)
	w.work(worker.Config{Queues: []string{"tpu"}}, sited.as(func(context.Context, int) (string, error) { return "right", nil }))
	if got := result(w, run); len(got) != 1 || got[0] != "right" {
		t.Errorf("got %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty name is no mistake")
		}
	}()
	workflow.Queue("")
}
