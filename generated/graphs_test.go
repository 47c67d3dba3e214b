package generated_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestRegister_NamesAMissingDependencyOfAGraph(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "llm *LLM is nil, but step graphs.research.") {
			t.Errorf("graphs.Register without a language model says %q", got)
		}
	}()
	graphs.Register(&registrar{}, nil, func(context.Context, string) (string, error) { return "", nil })
	t.Error("graphs.Register accepted a missing dependency")
}

// A stand-in for a step of a graph takes the input first.
func TestResearch_NeedsNoDependenciesIfItsStepsHaveStandIns(t *testing.T) {
	env := workflowtest.New(t)
	graphs.Register(env, nil, nil)
	workflowtest.Stub(env, graphs.Steps.ResearchPlan, func(_ context.Context, in graphs.ResearchInput) ([]string, error) { return []string{in.Tone}, nil })
	workflowtest.Stub(env, graphs.Steps.ResearchFetch, func(_ context.Context, _ graphs.ResearchInput, plan string) (graphs.Page, error) {
		return graphs.Page{Text: plan}, nil
	})
	workflowtest.Stub(env, graphs.Steps.ResearchWrite, func(_ context.Context, in graphs.ResearchInput, fetch []graphs.Page, review *graphs.Notes) (graphs.Report, error) {
		return graphs.Report{Title: in.Question, Text: fmt.Sprint(fetch, review)}, nil
	})
	got, err := graphs.Research.Execute(env.Context(), env.Client(), graphs.ResearchInput{Question: "why", Tone: "mild"})
	if want := (graphs.Report{Title: "why", Text: "[{mild}] <nil>"}); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
