package pins_test

import (
	"context"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pinnedFlow declares a workflow whose runs are pinned.
func pinnedFlow[In, Out any](name string) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{Pin: true})
}

var (
	ordered = pinnedFlow[int, []string]("pins.ordered")
	onward  = workflow.NewTopic[int]("pins.onward")
)

// where is a step whose result names the build that has executed it.
var where = flowtest.AStep[int, string]("pins.where", shim.Policy{})

// build starts a worker of a build. Its runs of ordered execute a step, wait for a message, and
// execute another step. Code of another build does not match the log of such a run.
func build(w *flowtest.World, name string, more ...flowtest.Binding) *flowtest.Running {
	w.T.Helper()
	step := where.As(func(context.Context, int) (string, error) { return name, nil })
	return w.WorkOn(w.Store, worker.Config{Build: name}, append(more, orderedBy(name), step)...)
}

// orderedBy binds the code of ordered in a build.
func orderedBy(name string) flowtest.Binding {
	return flowtest.As(ordered, func(ctx workflow.Context, n int) ([]string, error) {
		if _, err := workflow.Record(ctx, func() (string, error) { return name, nil }); err != nil {
			return nil, err
		}
		first, err := where.CallKey(ctx, "first of "+name, n)
		if err != nil {
			return nil, err
		}
		if _, err := onward.Receive(ctx); err != nil {
			return nil, err
		}
		second, err := where.CallKey(ctx, "second of "+name, n)
		return []string{first, second}, err
	})
}

// serving waits until live workers of the builds serve the pinned runs of a workflow.
func serving(w *flowtest.World, of interface{ Name() string }, builds ...string) {
	w.T.Helper()
	teller, ok := store.As[store.FleetTeller](w.Store)
	if !ok {
		w.T.Fatal("the store does not report its fleet")
	}
	w.Eventually("workers of the builds serve the workflow", func() bool {
		fleet, err := teller.Fleet(w.Ctx)
		flowtest.Order(w.T, err)
		return !slices.ContainsFunc(builds, func(build string) bool {
			route := store.Route{Queue: event.PinnedQueue(workflow.DefaultQueue, build), Workflow: of.Name()}
			return !slices.ContainsFunc(fleet.Sessions, func(s store.FleetSession) bool { return slices.Contains(s.Routes, route) })
		})
	})
}

// Runs of a pinned workflow stay on the build of the process that starts them, although a worker of
// another build is free and cannot execute them.
func TestOPS10_APinnedRunStaysOnTheBuildThatStartedIt(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		builds := map[string]*flowtest.Running{"a": build(w, "a"), "b": build(w, "b")}
		serving(w, ordered, "a", "b")
		var runs []*workflow.Run[[]string]
		var want []string
		for n := range 10 {
			for name, r := range builds {
				run, err := ordered.Start(w.Ctx, r.Client, n)
				flowtest.Order(t, err)
				runs, want = append(runs, run), append(want, name)
			}
		}
		for i, run := range runs {
			w.ReachWaiting(run)
			info, err := run.Info(w.Ctx)
			if err != nil || info.Pin != want[i] || info.Queue != workflow.DefaultQueue {
				t.Errorf("run of build %s: pin %q on queue %q, %v", want[i], info.Pin, info.Queue, err)
			}
			flowtest.Order(t, onward.Send(w.Ctx, run, 1))
		}
		for i, run := range runs {
			if got := flowtest.Result(w, run); got[0] != want[i] || got[1] != want[i] {
				t.Errorf("run of build %s was executed by %v", want[i], got)
			}
		}
	})
}
