package attributes_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// shown contains the attributes that the code of a run, a step on the queue of the run, and a step
// on another queue have read.
type shown struct{ Code, Step, Away map[string]string }

var (
	look  = flowtest.AStep[string, map[string]string]("look", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	away  = flowtest.AStep[string, map[string]string]("away", shim.Policy{Queue: "elsewhere"})
	shows = shim.NewWorkflow[string, shown]("test.shows", "in", shim.WorkflowPolicy{
		Rerun: workflow.RetryPolicy{Attempts: 2, Initial: time.Millisecond, Max: time.Millisecond},
	})
)

// show returns the attributes that it can read, or starts another run that returns them.
func show(ctx workflow.Context, in string) (s shown, err error) {
	switch in {
	case "child":
		return shows.Child(ctx, "")
	case "detached":
		return shows.StartChild(workflow.Detached(ctx), "", workflow.WithParentClose(workflow.ParentCloseAbandon)).Get(ctx)
	case "grandchild":
		return shows.Child(ctx, "child")
	case "continue":
		return s, shows.ContinueAsNew(ctx, "")
	}
	s.Code = workflow.Attributes(ctx)
	if s.Step, err = look.Call(ctx, in); err != nil {
		return s, err
	}
	s.Away, err = away.Call(ctx, in)
	return s, err
}

// serve starts a worker for shows. The step look fails for the inputs in failing as often as the
// counter requires.
func serve(w *flowtest.World, failing *atomic.Int64) *flowtest.Running {
	attributes := func(ctx context.Context, _ string) (map[string]string, error) { return step.Attributes(ctx), nil }
	return w.Work(worker.Config{Queues: []string{workflow.DefaultQueue, "elsewhere"}}, flowtest.As(shows, show), away.As(attributes),
		look.As(func(ctx context.Context, in string) (map[string]string, error) {
			if in == "fails" && failing.Add(-1) >= 0 {
				return nil, flowtest.ErrBusy
			}
			return attributes(ctx, in)
		}))
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// given are the attributes that requested sets.
var given = map[string]string{"tenant": "acme", "traceparent": parent, "principal": "ada"}

func requested(ctx context.Context) context.Context {
	ctx = workflow.WithAttribute(workflow.OnBehalfOf(ctx, "ada"), "tenant", "replaced")
	return workflow.WithAttribute(workflow.WithAttribute(ctx, "tenant", "acme"), "traceparent", parent)
}

// other is a context with other attributes, which must not reach the run.
func other(ctx context.Context) context.Context {
	return workflow.WithAttribute(workflow.WithAttribute(workflow.OnBehalfOf(ctx, "eve"), "tenant", "others"), "more", "x")
}

// last returns the run to which the log of a run refers in its last event of a type.
func last(w *flowtest.World, run workflow.RunID, typ event.Type) workflow.RunID {
	flowtest.Result(w, shows.Get(w.Client, run))
	found := flowtest.Filter(w.Log(shows.Get(w.Client, run)), typ)
	if len(found) == 0 {
		w.T.Fatalf("run %s has no event %s", run, typ)
	}
	return found[len(found)-1].Next
}

func started(w *flowtest.World, in string) workflow.RunID {
	w.T.Helper()
	run, err := shows.Start(requested(w.Ctx), w.Client, in)
	flowtest.Order(w.T, err)
	return run.ID()
}

func runOf(w *flowtest.World) func(run *workflow.Run[shown], err error) workflow.RunID {
	return func(run *workflow.Run[shown], err error) workflow.RunID {
		w.T.Helper()
		flowtest.Order(w.T, err)
		return run.ID()
	}
}

// edges contains a function for each way in which a run comes into being. The function returns the
// run.
var edges = map[string]func(w *flowtest.World, failing *atomic.Int64) workflow.RunID{
	"start": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID { return started(w, "") },
	"bulk start": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		many, err := shows.StartMany(requested(w.Ctx), w.Client, []workflow.StartRequest[string]{{}, {}})
		flowtest.Order(w.T, err)
		flowtest.Result(w, many[0].Run)
		return many[1].Run.ID()
	},
	"child": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		return last(w, started(w, "child"), event.ChildCreated)
	},
	"detached child": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		return last(w, started(w, "detached"), event.ChildCreated)
	},
	"grandchild": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		return last(w, last(w, started(w, "grandchild"), event.ChildCreated), event.ChildCreated)
	},
	"continue as new": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		return last(w, started(w, "continue"), event.RunContinued)
	},
	"retry": func(w *flowtest.World, failing *atomic.Int64) workflow.RunID {
		failing.Store(2) // the run and its automatic rerun fail
		first := w.Client.Run(started(w, "fails"))
		w.Reach(first, event.RunFailed, 1)
		return runOf(w)(shows.Get(w.Client, rerunOf(w, first)).Retry(other(w.Ctx)))
	},
	"automatic rerun": func(w *flowtest.World, failing *atomic.Int64) workflow.RunID {
		failing.Store(1)
		return rerunOf(w, w.Client.Run(started(w, "fails")))
	},
	"fork": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		run := shows.Get(w.Client, started(w, ""))
		flowtest.Result(w, run)
		return runOf(w)(run.Fork(other(w.Ctx), flowtest.Filter(w.Log(run), event.StepCreated)[0].Key))
	},
	"restart": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		run := shows.Get(w.Client, started(w, ""))
		flowtest.Result(w, run)
		return runOf(w)(run.Restart(other(w.Ctx)))
	},
	"tick of a schedule": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		flowtest.Order(w.T, shows.Schedule(requested(w.Ctx), w.Client, "noon", schedule.Spec{When: "0 12 * * *"}, ""))
		flowtest.Order(w.T, ops.New(w.Client).Schedules().Backfill(other(w.Ctx), "noon", schedule.Backfill{From: noon, To: noon.Add(time.Hour)}))
		run := event.TickRunID("noon", noon.Format(time.RFC3339Nano), noon)
		w.Eventually("the run of the tick exists", func() bool {
			_, err := w.Client.Run(run).Info(w.Ctx)
			return err == nil
		})
		return run
	},
	"trigger of a schedule": func(w *flowtest.World, _ *atomic.Int64) workflow.RunID {
		flowtest.Order(w.T, shows.Schedule(requested(w.Ctx), w.Client, "s", schedule.Spec{When: "every 24h"}, ""))
		flowtest.Order(w.T, shows.Schedule(other(w.Ctx), w.Client, "s", schedule.Spec{When: "every 48h"}, ""))
		run, err := ops.New(w.Client).Schedules().Trigger(other(w.Ctx), "s")
		flowtest.Order(w.T, err)
		w.Eventually("the triggered run exists", func() bool {
			_, err := w.Client.Run(run).Info(w.Ctx)
			return err == nil
		})
		return run
	},
}

// rerunOf waits until a failed run has a rerun that has ended, and returns the rerun.
func rerunOf(w *flowtest.World, run *workflow.Handle) (id workflow.RunID) {
	w.T.Helper()
	w.Eventually("the run has a rerun", func() bool {
		info, err := run.Info(w.Ctx)
		flowtest.Order(w.T, err)
		id = info.RetriedAs
		return id != ""
	})
	w.Eventually("the rerun has ended", func() bool {
		info, err := w.Client.Run(id).Info(w.Ctx)
		flowtest.Order(w.T, err)
		return info.Status.Terminal()
	})
	return id
}

// TestEV11_EachWayInWhichARunComesIntoBeingHasItsAttributes proves the propagation rule for each
// edge: code, steps, steps on another queue and operators read the same attributes, and a build.
func TestEV11_EachWayInWhichARunComesIntoBeingHasItsAttributes(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		failing := &atomic.Int64{}
		serve(w, failing)
		flowtest.Result(w, flowtest.Start(w, shows, "")) // from here on the client has the build of its worker
		for edge, reach := range edges {
			run := shows.Get(w.Client, reach(w, failing))
			want := maps.Clone(given)
			info, err := run.Info(w.Ctx)
			flowtest.Order(t, err)
			if want["build"] = w.Reach(run, event.RunStarted, 1).Build; len(want["build"]) != 12 {
				t.Errorf("%s: the build is %q, want 12 characters", edge, want["build"])
			}
			got := flowtest.Result(w, run)
			for what, all := range map[string]map[string]string{"code": got.Code, "step": got.Step, "step on another queue": got.Away, "Info": info.Attributes} {
				if diff := cmp.Diff(want, all); diff != "" {
					t.Errorf("%s, as %s reads them (-want +got):\n%s", edge, what, diff)
				}
			}
		}
		w.Healthy()
	})
}

// TestEV11_ARunWithoutAttributesHasOnlyItsBuild proves that nothing else is recorded, that attributes
// of other contexts do not reach the run, and what the build costs.
func TestEV11_ARunWithoutAttributesHasOnlyItsBuild(t *testing.T) {
	w := flowtest.NewMemory(t)
	serve(w, &atomic.Int64{})
	flowtest.Result(w, shows.Get(w.Client, started(w, "")))
	run := flowtest.Start(w, shows, "")
	got := flowtest.Result(w, run)
	if want := (map[string]string{"build": got.Code["build"]}); len(got.Code["build"]) != 12 || !cmp.Equal(got, shown{want, want, want}) {
		t.Errorf("got %v, want a build of 12 characters alone", got)
	}
	e := w.Log(run)[0]
	with := frameSize(t, e)
	e.Spec.Build = ""
	if n := with - frameSize(t, e); n != 14 {
		t.Errorf("the build needs %d bytes, want 14", n)
	}
}

func frameSize(t *testing.T, e event.Event) int {
	t.Helper()
	b, err := event.AppendFrame(nil, &event.Frame{Time: e.Time, Events: []event.Event{e}})
	flowtest.Order(t, err)
	return len(b)
}

// TestEV11_TheBuildIsOfTheProgramThatCreatesTheRun proves that a child, which a worker creates, has
// the build of the worker and not of the program that started its parent.
func TestEV11_TheBuildIsOfTheProgramThatCreatesTheRun(t *testing.T) {
	w := flowtest.NewMemory(t)
	parentRun := flowtest.Start(w, shows, "child") // before the client knows a worker
	serve(w, &atomic.Int64{})
	flowtest.Result(w, parentRun)
	info, err := parentRun.Info(w.Ctx)
	flowtest.Order(t, err)
	child, err := w.Client.Run(w.Reach(parentRun, event.ChildCreated, 1).Next).Info(w.Ctx)
	flowtest.Order(t, err)
	here := w.Reach(parentRun, event.RunStarted, 1).Build
	if got := child.Attributes["build"]; got != here {
		t.Errorf("the child has build %s, want that of the worker, %s", got, here)
	}
	if got := info.Attributes["build"]; got == here || len(got) != 12 {
		t.Errorf("the parent has build %q, want another one than the worker's, %s", got, here)
	}
}
