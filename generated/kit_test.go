package generated_test

import (
	"testing"

	"github.com/flowgen/flowgen/generated/functions"
	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/generated/methods"
	"github.com/flowgen/flowgen/generated/policies"
	"github.com/flowgen/flowgen/generated/workflows"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestGolden_WorkflowsSurviveEveryCrashAndWorkInAnyOrder(t *testing.T) {
	setup := func(env *workflowtest.Env) {
		functions.Register(env)
		graphs.Register(env, &graphs.LLM{Prefix: "on "}, echo)
		methods.Register(env, methods.Clock{}, same, &methods.Shop{}, &methods.Store{}, methods.Base{})
		policies.Register(env)
		workflows.Register(env)
	}
	survives(t, functions.Fulfil, "ada", setup)
	survives(t, graphs.Research, graphs.ResearchInput{Question: "life universe", Tone: "strict"}, setup)
	survives(t, graphs.Shapes, graphs.ShapesInput{N: 2}, setup)
	survives(t, graphs.Nightly, workflow.None{}, setup)
	survives(t, methods.Process, "7", setup)
	survives(t, functions.All, []string{"eu", "us"}, setup)
	survives(t, workflows.Fulfil, workflows.Order{ID: "1"}, setup)
	survives(t, workflows.Transfer, workflows.TransferInput{From: "a", To: "b", Cents: 7}, setup)
	// Its only step has one attempt, and fails.
	survives(t, policies.Flow, workflow.None{}, setup, workflowtest.AllowInterrupted())
}

func survives[In, Out any](t *testing.T, d workflow.Definition[In, Out], in In, setup func(*workflowtest.Env), opts ...workflowtest.Option) {
	t.Helper()
	t.Run(d.Name(), func(t *testing.T) {
		workflowtest.CrashEverywhere(t, d, in, setup, append(opts, workflowtest.Pairs(50/depth.Stride(10)))...)
		workflowtest.Interleave(t, d, in, setup, 30/depth.Stride(3))
	})
}
