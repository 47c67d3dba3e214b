package graphs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

type registrar struct{ registry workflow.Registry }

func (r *registrar) Registry() *workflow.Registry { return &r.registry }

func TestRegister_NamesAMissingDependency(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "llm *LLM is nil, but step graphs.research.") {
			t.Errorf("Register without a language model says %q", got)
		}
	}()
	Register(&registrar{}, nil, func(context.Context, string) (string, error) { return "", nil })
	t.Error("Register accepted a missing dependency")
}

// A stand-in for a step of a graph takes the input first.
func TestResearch_NeedsNoDependenciesIfItsStepsHaveStandIns(t *testing.T) {
	env := workflowtest.New(t)
	Register(env, nil, nil)
	workflowtest.Stub(env, Steps.ResearchPlan, func(_ context.Context, in ResearchInput) ([]string, error) { return []string{in.Tone}, nil })
	workflowtest.Stub(env, Steps.ResearchFetch, func(_ context.Context, _ ResearchInput, plan string) (Page, error) { return Page{plan}, nil })
	workflowtest.Stub(env, Steps.ResearchWrite, func(_ context.Context, in ResearchInput, fetch []Page, review *Notes) (Report, error) {
		return Report{Title: in.Question, Text: fmt.Sprint(fetch, review)}, nil
	})
	got, err := Research.Execute(env.Context(), env.Client(), ResearchInput{Question: "why", Tone: "mild"})
	if want := (Report{"why", "[{mild}] <nil>"}); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
