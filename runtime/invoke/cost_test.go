package invoke_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// fiveSteps is a workflow with five steps.
var (
	fives = flowtest.Flow[int, int]("invoke.fives")
	five  = flowtest.As(fives, func(ctx workflow.Context, n int) (int, error) {
		for range 5 {
			var err error
			if n, err = addStep.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
)

// TestOPS7_AnInvocationCostsFourRequestsBesidesTheCommits proves what an invocation adds to the
// commits of its run: it reads the run, opens a session, claims the run by name, and closes the
// session.
func TestOPS7_AnInvocationCostsFourRequestsBesidesTheCommits(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		h := handler(w, invoke.Config{}, five, add)
		run := flowtest.Start(w, fives, 1)
		calls := w.Client.Store().(*flowtest.Between)
		before := calls.Tally()
		got := ask(t, h, run.ID())
		if got.status != http.StatusOK || got.Status != invoke.StatusDone {
			t.Fatalf("answer %+v, want done", got)
		}
		after := calls.Tally()
		maps.DeleteFunc(after, func(op string, n int) bool { return n == before[op] })
		for op := range after {
			after[op] -= before[op]
		}
		// Each step has one commit with its start, which has the completion of the step before, and the
		// last commit ends the run.
		want := map[string]int{"load": 1, "open": 1, "claimrun": 1, "commit": 6, "close": 1}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("requests of an invocation (-want +got):\n%s", diff)
		}
		if n := flowtest.Result(w, run); n != 6 {
			t.Errorf("result %d, want 6", n)
		}
	})
}
