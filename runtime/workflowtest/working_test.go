package workflowtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// worksFor is the real time for which the steps of these tests work. Virtual time would advance
// within it if the scheduler classified the steps as waiting. No result depends on it.
const worksFor = 100 * time.Millisecond

// TestTEST1_TimeStandsStillWhileAStepThatLooksAtItsContextWorks proves that a step that has checked
// its context counts as working until it waits for the end of the context. Otherwise virtual time
// would advance by ten minutes on a slow machine, and the timeout of the attempt would end the
// step.
func TestTEST1_TimeStandsStillWhileAStepThatLooksAtItsContextWorks(t *testing.T) {
	work := func(ctx context.Context) {
		for began := time.Now(); time.Since(began) < worksFor && ctx.Err() == nil; {
		}
	}
	steps := map[string]stepFunc{
		"looks and computes": func(ctx context.Context, arg string) (string, error) {
			select {
			case <-ctx.Done():
			default:
			}
			work(ctx)
			return arg, context.Cause(ctx)
		},
		"waits for a goroutine that computes": func(ctx context.Context, arg string) (string, error) {
			done := make(chan struct{})
			go func() {
				work(ctx)
				close(done)
			}()
			select {
			case <-ctx.Done():
			case <-done:
			}
			return arg, context.Cause(ctx)
		},
		"looks and writes to a stream": func(ctx context.Context, arg string) (string, error) {
			select {
			case <-ctx.Done():
			default:
			}
			for began := time.Now(); time.Since(began) < worksFor; {
				if err := step.Write(ctx, lines, arg); err != nil {
					return "", err
				}
			}
			return arg, context.Cause(ctx)
		},
	}
	for name, code := range steps {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.New(t)
			shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) { return call(ctx, charge, in) })
			charge.Bind(env, code)
			got, err := order.Execute(t.Context(), env.Client(), "o1")
			if got != "o1" || err != nil {
				t.Errorf("got %q, %v, want o1", got, err)
			}
			if d := env.Now().Sub(workflowtest.Epoch); d != 0 {
				t.Errorf("%v of virtual time have passed, want 0: the step was at work", d)
			}
		})
	}
}
