package limits_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestPOOL7_ARestartOfABatchHasItsInputs(t *testing.T) {
	mail := shim.NewWorkflow[int, []int]("test.batch.again", "", shim.WorkflowPolicy{
		Collect: shim.Batch(func(int) string { return "" }, 3, time.Hour),
		Uses:    shim.Uses(func(int) []limit.Use { return []limit.Use{gpu.Use(1)} }),
	})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		first := flowtest.Start(w, mail, 1)
		if _, err := first.Restart(w.Ctx); err == nil {
			t.Error("a run that has no input yet was restarted")
		}
		flowtest.Start(w, mail, 2)
		flowtest.Start(w, mail, 3)
		w.Work(worker.Config{}, flowtest.AsBatch(mail, func(ctx workflow.Context, all []int) ([]int, error) {
			if len(all) == 3 {
				return nil, mail.ContinueAsNew(ctx, all[0])
			}
			return all, nil
		}))
		if got := flowtest.Result(w, first); !slices.Equal(got, []int{1}) {
			t.Errorf("continued with %v", got)
		}
		again, err := mail.Get(w.Client, first.ID()).Restart(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, again); !slices.Equal(got, []int{1}) {
			t.Errorf("restarted: got %v", got)
		}
	})
}

func TestPOOL7_ADebouncedStartRefusesWhatOnlyItWouldHave(t *testing.T) {
	reindex := debounced("refuses", time.Second, 0)
	w := flowtest.NewMemory(t)
	for option, opt := range map[string]workflow.StartOption{
		"WithID": workflow.WithID("x"), "WithDelay": workflow.WithDelay(time.Second), "WithHold": workflow.WithHold(),
		"WithStartBy": workflow.WithStartBy(time.Second), "WithMessage": workflow.WithMessage(goAhead, 1),
	} {
		if _, err := reindex.Start(w.Ctx, w.Client, edit{"a", "1"}, opt); err == nil || !strings.Contains(err.Error(), option) {
			t.Errorf("%s: got %v", option, err)
		}
	}
	parent := flowtest.Flow[int, string]("debounced.parent")
	w.Work(worker.Config{}, flowtest.As(parent, func(ctx workflow.Context, _ int) (string, error) { return reindex.Child(ctx, edit{"a", "1"}) }))
	if failed := flowtest.Failure(w, flowtest.Start(w, parent, 1)); !strings.Contains(failed.Error(), "share a run") {
		t.Errorf("as a child: got %v", failed)
	}
}
