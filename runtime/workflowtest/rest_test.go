package workflowtest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// TestCrashEverywhere_ComparesWhatIsLeftBehindOnceItHasEnded proves that CrashEverywhere compares
// the effects of a child that outlives the run under test. In real time, the duration of the child
// differs in each execution.
func TestCrashEverywhere_ComparesWhatIsLeftBehindOnceItHasEnded(t *testing.T) {
	var executions atomic.Int64
	leaver, left := flow("shop.leaver"), flow("shop.left")
	setup := func(e *workflowtest.Env) {
		execution := executions.Add(1)
		shim.BindWorkflow(e, leaver, func(ctx workflow.Context, in string) (string, error) {
			child := left.StartChild(ctx, in, workflow.WithParentClose(workflow.ParentCloseAbandon))
			if err := child.Started(ctx); err != nil {
				return "", err
			}
			return in, workflow.Sleep(ctx, 50*time.Millisecond)
		})
		shim.BindWorkflow(e, left, func(ctx workflow.Context, in string) (string, error) {
			if _, err := call(ctx, pack, in); err != nil {
				return "", err
			}
			return in, workflow.Sleep(ctx, 1000*time.Hour) // no run waits for the child, so it may sleep for long
		})
		pack.Bind(e, func(ctx context.Context, arg string) (string, error) {
			if execution%2 == 0 {
				select {
				case <-time.After(150 * time.Millisecond): // longer than the run under test
				case <-ctx.Done():
				}
			}
			return arg, ctx.Err()
		})
	}
	open := func(testing.TB) store.Store { return memstore.New() }
	workflowtest.CrashEverywhere(t, leaver, "o1", setup, workflowtest.WithStore(open), workflowtest.Sample(10), workflowtest.Pairs(4))
}
