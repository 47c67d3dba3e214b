package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/control"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// agency registers all code with an agency that has no flights left, and sends an answer to the
// run.
func agency(env *workflowtest.Env) {
	full := func(what string) bool { return what == "flight" }
	control.Register(env, &control.Agency{Full: full, Log: func(string) {}}, nil, &control.Studio{})
	env.At(time.Hour, func(ctx context.Context) {
		if err := control.Answer.Send(ctx, env.Run(), "welcome"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			panic(err)
		}
	})
}

func TestTravel_IsUndoneWhateverCrashes(t *testing.T) {
	undone := workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, run workflowtest.Outcome) {
		if run.Status != workflow.StatusFailed {
			t.Errorf("the run is %s, want %s", run.Status, workflow.StatusFailed)
		}
	})
	// A crash during the last attempt to book a flight also fails the run. The run then undoes its
	// bookings.
	workflowtest.CrashEverywhere(t, control.Travel, trip, agency, undone, workflowtest.AllowUnread(), workflowtest.AllowInterrupted(), workflowtest.Pairs(40))
	workflowtest.Interleave(t, control.Travel, trip, agency, 40, workflowtest.AllowUnread())
}

func TestAdmitAndDraw_SurviveCrashesAndAnyOrder(t *testing.T) {
	workflowtest.CrashEverywhere(t, control.Admit, "c-7", agency)
	workflowtest.Interleave(t, control.Admit, "c-7", agency, 40)
	scenes := []string{"sea", "sky"}
	workflowtest.CrashEverywhere(t, control.Draw, scenes, agency, workflowtest.AllowUnread(), workflowtest.Pairs(40))
	workflowtest.Interleave(t, control.Draw, scenes, agency, 40, workflowtest.AllowUnread())
}
