package workflowtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var errBroken = errors.New("the box is broken")

func init() { shim.RegisterSentinel("workflowtest_test.errBroken", errBroken) }

// parcels sends one parcel after the other. If the first parcel breaks, it sends that parcel again.
func parcels(ctx workflow.Context, in string) (string, error) {
	first, err := parcel.Child(ctx, in)
	if errors.Is(err, errBroken) {
		first, err = parcel.Child(ctx, in+" again")
	}
	if err != nil {
		return "", err
	}
	second, err := parcel.Child(ctx, "b")
	return first + ", " + second, err
}

func realParcel(ctx workflow.Context, _ string) (string, error) {
	return "", errors.New("this is not the stand-in")
}

// stubParcel registers the workflows. It replaces the code of parcel before or after it binds the
// real code.
func stubParcel(e *workflowtest.Env, early bool) *workflowtest.Calls {
	if !early {
		shim.BindWorkflow(e, parcel, realParcel)
	}
	calls := workflowtest.StubChild(e, parcel, func(_ context.Context, in string) (string, error) { return "<" + in + ">", nil })
	if early {
		shim.BindWorkflow(e, parcel, realParcel)
	}
	shim.BindWorkflow(e, order, parcels)
	return calls.FailFirst(1, errBroken).Delay(7 * 24 * time.Hour)
}

func TestTEST2_AChildRunHasAStandIn(t *testing.T) {
	for name, early := range map[string]bool{"registered before": true, "registered behind": false} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.New(t)
			calls := stubParcel(env, early)
			got, err := order.Execute(t.Context(), env.Client(), "a")
			if want := "<a again>, <b>"; got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			var inputs []string
			for i := range calls.Count() {
				var args struct{ In string }
				calls.Args(i, &args)
				inputs = append(inputs, args.In)
			}
			if d := cmp.Diff([]string{"a", "a again", "b"}, inputs); d != "" {
				t.Errorf("inputs (-want +got):\n%s", d)
			}
			if d := env.Now().Sub(workflowtest.Epoch); d != 21*24*time.Hour {
				t.Errorf("virtual time: got %v, want three weeks", d)
			}
		})
	}
}

func TestTEST2_AStandInOfAChildFailsAsTheChildDoes(t *testing.T) {
	var failures []*workflow.RunError
	for _, stub := range []bool{false, true} {
		env := workflowtest.New(t)
		shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) { return parcel.Child(ctx, in) })
		if stub {
			workflowtest.StubChild(env, parcel, func(context.Context, string) (string, error) { return "", errBroken })
		} else {
			shim.BindWorkflow(env, parcel, func(workflow.Context, string) (string, error) { return "", errBroken })
		}
		_, err := order.Execute(t.Context(), env.Client(), "a")
		var failed *workflow.RunError
		if !errors.As(err, &failed) || !errors.Is(err, errBroken) {
			t.Fatalf("got %v, want a RunError because of errBroken", err)
		}
		failures = append(failures, &workflow.RunError{Workflow: failed.Workflow, Status: failed.Status, Code: failed.Code, Reason: failed.Reason})
		if !strings.Contains(failed.Error(), errBroken.Error()) {
			t.Errorf("got %q, want it to say %q", failed, errBroken)
		}
	}
	if d := cmp.Diff(failures[0].Error(), failures[1].Error()); d != "" {
		t.Errorf("failure (-of the child +of its stand-in):\n%s", d)
	}
}

func TestTEST2_AStandInOfAChildEndsWithItsParent(t *testing.T) {
	env := workflowtest.New(t)
	shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) {
		child := parcel.StartChild(ctx, in)
		return "", child.Started(ctx)
	})
	calls := workflowtest.StubChild[string, string](env, parcel, nil).HangFirst(1)
	if _, err := order.Execute(t.Context(), env.Client(), "a"); err != nil {
		t.Fatal(err)
	}
	env.Advance(time.Hour)
	children := 0
	for run, err := range env.Client().List(t.Context(), workflow.Filter{Workflow: parcel.Name()}) {
		children++
		if err != nil || run.Status != workflow.StatusCanceled {
			t.Errorf("the child is %s, %v; want %s", run.Status, err, workflow.StatusCanceled)
		}
	}
	if children != 1 || calls.Count() > 1 {
		t.Errorf("%d children with %d executions, want 1 with at most 1", children, calls.Count())
	}
}

func TestTEST2_AWorkflowWhoseChildrenHaveStandInsSurvivesEveryCrash(t *testing.T) {
	setup := func(e *workflowtest.Env) {
		workflowtest.StubChild(e, parcel, func(_ context.Context, in string) (string, error) { return "<" + in + ">", nil }).Delay(time.Hour)
		shim.BindWorkflow(e, order, parcels)
	}
	if r := workflowtest.CrashEverywhere(t, order, "a", setup, workflowtest.Pairs(50)); r.Failed+r.Interrupted != 0 {
		t.Errorf("got %+v", r)
	}
	workflowtest.Interleave(t, order, "a", setup, 40)
}

func TestTEST2_ABatchWorkflowHasAStandInThatTakesTheInputsOfAllStarts(t *testing.T) {
	mail := shim.NewWorkflow[string, int]("shop.mail", "", shim.WorkflowPolicy{
		Collect: shim.Batch(func(string) string { return shim.Key("all") }, 3, time.Hour),
	})
	for name, early := range map[string]bool{"registered before": true, "registered behind": false} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.New(t)
			realMail := func(workflow.Context, []string) (int, error) {
				return 0, errors.New("this is not the stand-in")
			}
			if !early {
				shim.BindBatch(env, mail, realMail)
			}
			calls := workflowtest.StubBatch(env, mail, func(_ context.Context, emails []string) (int, error) { return len(emails), nil })
			if early {
				shim.BindBatch(env, mail, realMail)
			}
			var runs []*workflow.Run[int]
			for _, email := range []string{"a", "b", "c", "d"} {
				run, err := mail.Start(t.Context(), env.Client(), email)
				if err != nil {
					t.Fatal(err)
				}
				runs = append(runs, run)
			}
			for i, want := range []int{3, 3, 3, 1} { // the last run has a single start and begins when its hour has passed
				if got, err := runs[i].Result(t.Context()); got != want || err != nil {
					t.Errorf("start %d: got %d, %v, want %d", i, got, err, want)
				}
			}
			inputs := make([][]string, calls.Count())
			for i := range inputs {
				calls.Args(i, &inputs[i])
			}
			if d := cmp.Diff([][]string{{"a", "b", "c"}, {"d"}}, inputs); d != "" {
				t.Errorf("inputs (-want +got):\n%s", d)
			}
		})
	}
}

func TestTEST2_AStepOfAnotherQueueHasAStandInLikeAnyOther(t *testing.T) {
	env := workflowtest.New(t)
	shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) { return call(ctx, render, in) })
	render.Bind(env, func(context.Context, string) (string, error) { return "", errors.New("this is not the stand-in") })
	calls := workflowtest.Stub(env, render, echo).FailFirst(1, errors.New("busy")).Delay(time.Minute)
	got, err := order.Execute(t.Context(), env.Client(), "scene")
	if got != "scene" || err != nil || calls.Count() != 2 {
		t.Errorf("got %q, %v with %d calls, want scene with 2", got, err, calls.Count())
	}
	var args stepArgs
	if calls.Args(1, &args); args.Arg != "scene" {
		t.Errorf("args: got %+v", args)
	}
}

// Workers of another queue execute the step render.
var render = newStep("shop.render", shim.Policy{Queue: "gpu"})
