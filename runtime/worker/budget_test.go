package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A run that keeps executing would hold the only place for ever: the other run
// ends it, and gets its turn only if the first one gives way.
func TestREC9_RunThatKeepsExecutingGivesWayToOthers(t *testing.T) {
	var done atomic.Bool
	var turns atomic.Int64
	turn := shim.NewStep("budget.turn", shim.Policy{}, func(f func(context.Context) error) shim.Handler {
		return shim.HandleErr(func(ctx context.Context, _ struct{}) error { return f(ctx) })
	})
	hog := shim.NewWorkflow[workflow.None, workflow.None]("budget.hog", "", shim.WorkflowPolicy{})
	modest := shim.NewWorkflow[workflow.None, workflow.None]("budget.modest", "", shim.WorkflowPolicy{})

	st := memstore.New()
	defer func() { _ = st.Close() }()
	c := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(c, worker.Config{Runs: 1, RunBudget: 10 * time.Millisecond})
	turn.Bind(w, func(context.Context) error {
		turns.Add(1)
		return nil
	})
	shim.BindWorkflow(w, hog, func(ctx workflow.Context, _ workflow.None) (workflow.None, error) {
		for !done.Load() {
			if err := shim.CallErr(ctx, turn, struct{}{}); err != nil {
				return workflow.None{}, err
			}
		}
		return workflow.None{}, nil
	})
	shim.BindWorkflow(w, modest, func(ctx workflow.Context, _ workflow.None) (workflow.None, error) {
		err := shim.CallErr(ctx, turn, struct{}{})
		done.Store(true)
		return workflow.None{}, err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	wctx, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(wctx) }()
	first, err := hog.Start(ctx, c, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range first.Events(ctx, workflow.Types(event.StepStarted)) {
		if err != nil {
			t.Fatal(err)
		}
		break // it has the place
	}
	second, err := modest.Start(ctx, c, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Result(ctx); err != nil {
		t.Errorf("the other run did not get its turn: %v", err)
	}
	if _, err := first.Result(ctx); err != nil {
		t.Error(err)
	}
	if turns.Load() < 2 {
		t.Errorf("got %d turns, want both runs to have had one", turns.Load())
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}
