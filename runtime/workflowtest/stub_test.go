package workflowtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func callWork(ctx workflow.Context, in string) (string, error) { return call(ctx, work, in) }

func TestTEST2_AStandInReplacesAStepAndCountsItsCalls(t *testing.T) {
	var calls *workflowtest.Calls
	_, run := start(t, callWork, func(e *workflowtest.Env) {
		work.Bind(e, func(context.Context, string) (string, error) { panic("the real step was executed") })
		calls = workflowtest.Stub(e, work, func(_ context.Context, arg string) (string, error) { return "fake " + arg, nil })
	})
	if got, err := run.Result(t.Context()); got != "fake in" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	var args stepArgs
	calls.Args(0, &args)
	if calls.Count() != 1 || args.Arg != "in" {
		t.Errorf("got %d calls, the first with %+v", calls.Count(), args)
	}
}

func TestTEST2_AStepNeedsNoRegistrationIfItHasAStandIn(t *testing.T) {
	_, run := start(t, callWork, func(e *workflowtest.Env) { workflowtest.Stub(e, work, nil) })
	if got, err := run.Result(t.Context()); got != "" || err != nil {
		t.Errorf("got %q, %v, want the zero value of a nil stand-in", got, err)
	}
}

func TestTEST2_StandInsFailAndTakeTime(t *testing.T) {
	broken := errors.New("broken")
	var calls *workflowtest.Calls
	env, run := start(t, callWork, func(e *workflowtest.Env) {
		calls = workflowtest.Stub(e, work, echo).FailFirst(2, broken).Delay(time.Minute)
	})
	if got, err := run.Result(t.Context()); got != "in" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	// There are three attempts of a minute each, and delays of 1 s and 2 s between them.
	if d := env.Now().Sub(workflowtest.Epoch); calls.Count() != 3 || d != 3*time.Minute+3*time.Second {
		t.Errorf("%d calls in %v, want 3 in 3m3s", calls.Count(), d)
	}
}

func TestTEST2_AStandInThatHangsTimesOut(t *testing.T) {
	var calls *workflowtest.Calls
	env, run := start(t, callWork, func(e *workflowtest.Env) { calls = workflowtest.Stub(e, work, echo).HangFirst(1) })
	if got, err := run.Result(t.Context()); got != "in" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if d := env.Now().Sub(workflowtest.Epoch); calls.Count() != 2 || d != 10*time.Minute+time.Second {
		t.Errorf("%d calls in %v, want 2 in the timeout and a second", calls.Count(), d)
	}
}

func TestTEST2_FailuresOfStandInsSayWhatToDo(t *testing.T) {
	tests := map[string]struct {
		test func(t testing.TB)
		says string
	}{
		"a receiver that is nil": {func(t testing.TB) {
			_, run := start(t, callWork, func(e *workflowtest.Env) {
				shim.Receiver(e, "shop *Shop", true, work)
				bindWork(e)
			})
			_, _ = run.Result(context.Background())
		}, "step defects.work was called, but shop *Shop is nil: pass a value to Register, or replace the step with Stub"},
		"an execution that was not": {func(t testing.TB) {
			var calls *workflowtest.Calls
			_, run := start(t, callWork, func(e *workflowtest.Env) { calls = workflowtest.Stub(e, work, echo) })
			_, _ = run.Result(context.Background())
			calls.Args(1, new(stepArgs))
		}, "Args(1) of step defects.work: it was executed 1 times"},
		"arguments of another type": {func(t testing.TB) {
			var calls *workflowtest.Calls
			_, run := start(t, callWork, func(e *workflowtest.Env) { calls = workflowtest.Stub(e, work, echo) })
			_, _ = run.Result(context.Background())
			calls.Args(0, new([]int))
		}, `read {"arg":"in"}`},
		"a step that nobody knows": {func(t testing.TB) {
			_, run := start(t, callWork, func(*workflowtest.Env) {})
			_, _ = run.Result(context.Background())
		}, "calls step defects.work, which is not registered on this worker"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := observe(t, tt.test); !strings.Contains(got, tt.says) {
				t.Errorf("got %q, want %q", got, tt.says)
			}
		})
	}
}

func TestTEST2_AReceiverThatIsNilIsNotMissedIfItsStepHasAStandIn(t *testing.T) {
	_, run := start(t, callWork, func(e *workflowtest.Env) {
		shim.Receiver(e, "shop *Shop", true, work)
		bindWork(e)
		workflowtest.Stub(e, work, echo)
	})
	if got, err := run.Result(t.Context()); got != "in" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStepContext_LetsStepsBeCalledAsFunctions(t *testing.T) {
	var beats workflowtest.Beats
	first := workflowtest.StepContext(t, workflowtest.Heartbeats(&beats), workflowtest.StepName("shop.copy"), workflowtest.WorkflowID("w"),
		workflowtest.Tags(map[string]string{"a": "b"}))
	got, _ := step.Current(first)
	want := step.Call{RunID: got.RunID, WorkflowID: "w", Step: "shop.copy", Key: "shop.copy", Attempt: 1, Tags: map[string]string{"a": "b"}}
	if d := cmp.Diff(want, got); d != "" || got.RunID == "" {
		t.Errorf("call (-want +got):\n%s", d)
	}
	if _, ok := step.LastHeartbeat[int](first); ok {
		t.Error("the first attempt finds a heartbeat")
	}
	if err := step.Heartbeat(first, 7); err != nil {
		t.Fatal(err)
	}
	second := workflowtest.StepContext(t, workflowtest.Heartbeats(&beats), workflowtest.Attempt(2))
	if n, ok := step.LastHeartbeat[int](second); n != 7 || !ok || step.Attempt(second) != 2 {
		t.Errorf("attempt %d finds %d, %v, want attempt 2 to find 7", step.Attempt(second), n, ok)
	}
	var last int
	if !beats.Last(&last) || last != 7 || beats.Count() != 1 {
		t.Errorf("beats: %d of %d", last, beats.Count())
	}
	if n, ok := step.LastHeartbeat[string](workflowtest.StepContext(t, workflowtest.LastHeartbeat("x"))); n != "x" || !ok {
		t.Errorf("LastHeartbeat: got %q, %v", n, ok)
	}
	if attempt.From(t.Context()) != nil {
		t.Error("the context of the test was changed")
	}
}
