package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// by returns the types of the events in a log that contain the name who as the requester.
func by(w *flowtest.World, run flowtest.Follows, who string) (all []string) {
	w.T.Helper()
	for _, e := range w.Log(run) {
		if e.By == who {
			all = append(all, e.Type.String())
		}
	}
	return all
}

func wantBy(w *flowtest.World, run flowtest.Follows, who string, want ...string) {
	w.T.Helper()
	if diff := cmp.Diff(want, by(w, run, who)); diff != "" {
		w.T.Errorf("events on behalf of %.40q (-want +got):\n%s", who, diff)
	}
}

// gated is a payload type. Only its own method can refuse a payload.
type gated int

func (g *gated) UnmarshalJSON(b []byte) error {
	if string(b) == "13" {
		return errors.New("13 is refused")
	}
	*g = gated(len(b))
	return nil
}

var (
	gates    = workflow.NewHook[gated]("gates")
	finished = workflow.NewHook[int]("finished")
	gating   = flowtest.Flow[int, int]("gating")
	outside  = flowtest.AStep[int, int]("outside", shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond}})
)

// TestBehalf_TheLogSaysOnWhoseBehalfSomethingWasAsked proves that events contain the name on whose
// behalf they were requested. A step is failed and then completed from outside. A hook gets a
// payload that its code cannot decode, and one that it can. A run is executed step by step and
// forked.
func TestBehalf_TheLogSaysOnWhoseBehalfSomethingWasAsked(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ada := workflow.OnBehalfOf(w.Ctx, "ada")
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1, outside.As(func(ctx context.Context, _ int) (int, error) {
			later, err := step.Later(ctx, finished)
			if err != nil {
				return 0, err
			}
			return later.Pending()
		}), flowtest.As(gating, func(ctx workflow.Context, n int) (int, error) {
			if n, err := outside.Call(ctx, n); err != nil {
				return n, err
			}
			hook, err := gates.Open(ctx)
			if err != nil {
				return 0, err
			}
			flowtest.Token.Set(ctx, hook.Token())
			_, err = hook.Receive(ctx)
			return n, err
		}))
		run := flowtest.Start(w, gating, 0)
		flowtest.Order(t, finished.Fail(ada, w.Client, w.Reach(run, event.StepHookCreated, 1).Token, flowtest.ErrBusy))
		flowtest.Order(t, finished.Send(ada, w.Client, w.Reach(run, event.StepHookCreated, 2).Token, 1))
		for _, payload := range []gated{13, 1} {
			flowtest.Order(t, gates.Send(ada, w.Client, w.TokenOf(run), payload))
		}
		flowtest.Result(w, run)
		wantBy(w, run, "ada", "step_retrying", "step_completed", "hook_missed", "hook_received")

		debugged := flowtest.Start(w, flowtest.Steps, 2, workflow.WithDebug())
		flowtest.Order(t, debugged.Step(ada))
		w.Reach(debugged, event.RunStepped, 1)
		flowtest.Order(t, debugged.Resume(w.Ctx))
		flowtest.Result(w, debugged)
		wantBy(w, debugged, "ada", "run_stepped")

		long := strings.Repeat("ö", 1000) + "\xff"
		again, err := debugged.Fork(workflow.OnBehalfOf(w.Ctx, long), flowtest.Filter(w.Log(debugged), event.StepCreated)[0].Key)
		flowtest.Order(t, err)
		flowtest.Result(w, again)
		wantBy(w, again, strings.Repeat("ö", 512), "run_created")
	})
}

// TestBehalf_WhoeverEndsARunWithoutAWorkerIsInItsLog proves that the log contains the name of the
// user who ends a run that no worker serves. The client itself ends such a run.
func TestBehalf_WhoeverEndsARunWithoutAWorkerIsInItsLog(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		bob := workflow.OnBehalfOf(w.Ctx, "bob")
		canceled, terminated, message := flowtest.Start(w, flowtest.Steps, 1), flowtest.Start(w, flowtest.Steps, 2), workflow.NewTopic[int]("t")
		together, err := flowtest.Steps.Start(bob, w.Client, 3, workflow.WithMessage(message, 1))
		flowtest.Order(t, err)
		flowtest.Order(t, canceled.Cancel(bob, ""))
		flowtest.Order(t, ops.New(w.Client).Terminate(bob, terminated.ID(), ""))
		flowtest.Order(t, ops.New(w.Client).CancelMany(bob, "", together.ID())[0])
		wantBy(w, canceled, "bob", "cancel_requested")
		wantBy(w, terminated, "bob", "run_cancelled")
		wantBy(w, together, "bob", "run_created", "message_received", "cancel_requested")
		if got := by(w, canceled, "client"); !cmp.Equal(got, []string{"run_cancelled"}) {
			t.Errorf("the client has signed %v, want the end", got)
		}
	})
}

// TestBehalf_ANameGoesNoFurtherThanTheRun proves that only the events that a request causes
// directly contain the name of the requester. Consequences, such as the end of a child, do not.
func TestBehalf_ANameGoesNoFurtherThanTheRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		child := flowtest.Flow[int, int]("behalf-child")
		parent := flowtest.Flow[int, int]("behalf-parent")
		w.Work(worker.Config{}, flowtest.As(child, func(ctx workflow.Context, _ int) (int, error) {
			return 0, workflow.Sleep(ctx, time.Hour)
		}), flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) { return child.Child(ctx, n) }))
		run, err := parent.Start(workflow.OnBehalfOf(w.Ctx, "eve"), w.Client, 0)
		flowtest.Order(t, err)
		below := child.Get(w.Client, childOf(w, run))
		flowtest.Order(t, run.Cancel(workflow.OnBehalfOf(w.Ctx, "eve"), ""))
		flowtest.Failure(w, run)
		flowtest.Failure(w, below)
		wantBy(w, run, "eve", "run_created", "cancel_requested")
		wantBy(w, below, "eve")
	})
}
