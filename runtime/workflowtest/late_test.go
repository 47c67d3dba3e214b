package workflowtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// late is a store that responds to commits after a delay, and returns an error if the caller has
// stopped waiting. Stores that are accessed over a network or that batch their writes behave like
// this.
type late struct{ store.Store }

func (s *late) Unwrap() store.Store { return s.Store }

func (s *late) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := s.Store.Commit(context.WithoutCancel(ctx), commits)
	select {
	case <-time.After(5 * time.Millisecond):
		return answers, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCrashEverywhere_KnowsWhatADyingWorkerHasWritten proves that requests which a worker sent
// before its crash are executed, and that the Env records their effects.
func TestCrashEverywhere_KnowsWhatADyingWorkerHasWritten(t *testing.T) {
	many := flow("shop.many")
	setup := func(e *workflowtest.Env) {
		bindFamily(e)
		shim.BindWorkflow(e, many, func(ctx workflow.Context, in string) (string, error) {
			_, err := workflow.Map(ctx, []string{"a", "b", "c", "d"}, parcel.Child)
			return in, err
		})
	}
	open := func(testing.TB) store.Store { return &late{memstore.New()} }
	workflowtest.CrashEverywhere(t, many, "o1", setup, workflowtest.WithStore(open), workflowtest.Sample(40), workflowtest.Pairs(20))
}
