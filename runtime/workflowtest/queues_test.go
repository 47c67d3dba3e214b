package workflowtest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestWithQueues_ServesTheQueuesOfRunsAndSteps(t *testing.T) {
	env := workflowtest.New(t, workflowtest.WithQueues("fast", "tpu"))
	shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) {
		return call(workflow.WithStepOptions(ctx, workflow.Queue("tpu")), pack, in)
	})
	pack.Bind(env, echo)
	if got, err := order.Execute(t.Context(), env.Client(), "o1", workflow.WithQueue("fast")); got != "o1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// farNovel is a workflow whose steps are executed on another queue. The stream operations of these
// steps go through the inbox of the calling run.
var farNovel = flow("shop.farNovel")

func setupFarNovel(e *workflowtest.Env) {
	setupNovel(e)
	shim.BindWorkflow(e, farNovel, func(ctx workflow.Context, in string) (string, error) {
		lines.Write(ctx, "begin")
		ctx = workflow.WithStepOptions(ctx, workflow.Queue("tpu"))
		for _, s := range []shim.Step[stepFunc]{write, seal} {
			if _, err := call(ctx, s, in); err != nil {
				return "", err
			}
		}
		return in, nil
	})
}

// farStory checks the stream that a run of farNovel has written.
func farStory(t testing.TB, e *workflowtest.Env, o workflowtest.Outcome) {
	if o.Status != workflow.StatusCompleted {
		return // a canceled run may have written only a part
	}
	got, err := told(e)
	want := map[writer][]string{
		{}:                                 {"begin"},
		{"run 1", "farNovel/shop.write#1"}: {"x1", "x2"},
		{"run 1", "farNovel/shop.seal#1"}:  {"sealed"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the stream holds %v (-want +got):\n%s", err, diff)
	}
}

func TestSTEP10_StreamsOfStepsOnOtherQueuesSurviveEveryCrashAndOrder(t *testing.T) {
	tpu := workflowtest.WithQueues("tpu")
	r := workflowtest.CrashEverywhere(t, farNovel, "x", setupFarNovel, tpu, workflowtest.Check(farStory), workflowtest.Pairs(50))
	if r.Tried != r.Points || r.Pairs != 50 || r.Points < 20 || r.Failed+r.Interrupted != 0 {
		t.Errorf("got %+v", r)
	}
	workflowtest.Interleave(t, farNovel, "x", setupFarNovel, 100, tpu, workflowtest.Check(farStory))
}
