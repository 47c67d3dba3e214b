package graphs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// generated starts a worker that executes the graphs generated from structs.
func generated(w *flowtest.World, work graphs.Work) {
	w.Work(worker.Config{}, func(r workflow.Registrar) { graphs.Register(r, &graphs.LLM{}, work) })
}

func same(_ context.Context, what string) (string, error) { return what, nil }

// broken returns work that fails if its input is one of whats.
func broken(whats ...string) graphs.Work {
	return func(_ context.Context, what string) (string, error) {
		if slices.Contains(whats, what) {
			return "", step.Fatal(errors.New(what + " failed"))
		}
		return what, nil
	}
}

func TestDAG1_AStepOfAStructBeginsOnceThoseHaveEndedThatItsParametersName(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		second, slow := make(chan struct{}), make(chan struct{})
		generated(w, func(ctx context.Context, what string) (string, error) {
			switch what {
			case "first second": // the argument contains the result of the first step
				close(second)
			case "slow":
				select {
				case <-slow:
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return what, nil
		})
		run := flowtest.Start(w, graphs.Diamond, graphs.DiamondInput{Name: "x"})
		w.Await("the second step, although the slow one runs", second)
		close(slow)
		if got := flowtest.Result(w, run); got != "slow and first second" {
			t.Errorf("got %q", got)
		}
		var created []string
		for _, e := range flowtest.Filter(w.Log(run), event.StepCreated) {
			created = append(created, e.Key+" "+string(e.Payload))
		}
		slices.Sort(created)
		if diff := cmp.Diff([]string{
			`diamond/graph#1.both/graphs.diamond.both#1 {"in":{"Name":"x"},"slow":"slow","second":"first second"}`,
			`diamond/graph#1.first/graphs.diamond.first#1 {"in":{"Name":"x"}}`,
			`diamond/graph#1.second/graphs.diamond.second#1 {"in":{"Name":"x"},"first":"first"}`,
			`diamond/graph#1.slow/graphs.diamond.slow#1 {"in":{"Name":"x"}}`,
		}, created); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

func TestDAG1_TheFirstFailureOfAStructsStepCancelsTheOthers(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var canceled flowtest.Seen[error]
		running := make(chan struct{})
		generated(w, func(ctx context.Context, what string) (string, error) {
			switch what {
			case "slow":
				close(running)
				<-ctx.Done()
				canceled.Add(ctx.Err())
				return "", ctx.Err()
			case "first":
				select {
				case <-running:
				case <-ctx.Done():
				}
				return "", step.Fatal(errors.New("first failed"))
			}
			return what, nil
		})
		run := flowtest.Start(w, graphs.Diamond, graphs.DiamondInput{})
		if err := flowtest.Failure(w, run); !strings.Contains(err.Error(), "first failed") {
			t.Errorf("got %v", err)
		}
		if canceled.Len() != 1 {
			t.Errorf("the slow step got %v", canceled.Get())
		}
		if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n != 2 {
			t.Errorf("%d steps were created, want those two that need nothing", n)
		}
	})
}

func TestDAG1_OnFailFinishLetsStepsGoOnThatDoNotNeedTheOneThatFailed(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var done flowtest.Seen[string]
		breaks := broken("one", "may", "after may")
		generated(w, func(ctx context.Context, what string) (string, error) {
			done.Add(what)
			return breaks(ctx, what)
		})
		run := flowtest.Start(w, graphs.Survey, workflow.None{})
		err := flowtest.Failure(w, run)
		if !flowtest.ContainsAll(err.Error(), "one failed", "after may failed") || strings.Contains(err.Error(), "\nmay failed") {
			t.Errorf("got %v", err)
		}
		// A node with onfail=skip is skipped if it fails. Nodes that take its value are also
		// skipped, unless they take a pointer. Nodes that only come after it begin.
		got := done.Get()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"after may", "good alone", "may", "one"}, got); diff != "" {
			t.Errorf("what was done (-want +got):\n%s", diff)
		}
	})
}

func TestDAG3_TheResultIsThatOfTheSinks(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		generated(w, same)
		// The graph has one sink.
		if got := flowtest.Result(w, flowtest.Start(w, graphs.Diamond, graphs.DiamondInput{})); got != "slow and first second" {
			t.Errorf("one sink: got %q", got)
		}
		// The result of a graph with several sinks has a field for each of them. The field of a
		// sink that may be skipped is a pointer.
		end := "end 12"
		for n, want := range map[int]graphs.ShapesResult{
			0: {Copy: "copy false"},
			3: {Copy: "copy true", End: &end, G: true},
		} {
			if diff := cmp.Diff(want, flowtest.Result(w, flowtest.Start(w, graphs.Shapes, graphs.ShapesInput{N: n}))); diff != "" {
				t.Errorf("several sinks, %d (-want +got):\n%s", n, diff)
			}
		}
		// The result is the one that result= names, although other steps depend on the named step.
		if got := flowtest.Result(w, flowtest.Start(w, graphs.Survey, workflow.None{})); got != "good with may" {
			t.Errorf("named: got %q", got)
		}
		// The graph has no result.
		flowtest.Result(w, flowtest.Start(w, graphs.Nightly, workflow.None{}))
	})
}
