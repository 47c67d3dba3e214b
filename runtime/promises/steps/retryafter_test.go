package steps_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// TestSTEP5_RetryAfterUsesUpNoAttempt proves that attempts that return RetryAfter do not count, in
// place and on another queue. A busy service is not a failure of the step.
func TestSTEP5_RetryAfterUsesUpNoAttempt(t *testing.T) {
	const busy = 7
	asks := flowtest.AStep[string, int]("asks", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 2, Initial: time.Millisecond}})
	patient := flowtest.Flow[string, int]("patient")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Queues: []string{workflow.DefaultQueue, "tpu"}},
			flowtest.As(patient, func(ctx workflow.Context, where string) (int, error) {
				return asks.Call(workflow.WithStepOptions(ctx, workflow.Queue(where)), where)
			}),
			asks.As(func(ctx context.Context, _ string) (int, error) {
				switch n := step.Attempt(ctx); {
				case n <= busy:
					return 0, fmt.Errorf("ask: %w", step.RetryAfter(flowtest.ErrBusy, 0))
				case n == busy+1: // the first attempt that counts
					return 0, flowtest.ErrBusy
				default:
					return n, nil
				}
			}))
		for _, where := range []string{workflow.DefaultQueue, "tpu"} {
			run := flowtest.Start(w, patient, where)
			if got := flowtest.Result(w, run); got != busy+2 {
				t.Errorf("%s: completed by attempt %d, want %d", where, got, busy+2)
			}
			if where != workflow.DefaultQueue {
				continue // the log of the step run contains the attempts
			}
			var codes, want []string
			for _, e := range flowtest.Filter(w.Log(run), event.StepRetrying) {
				codes = append(codes, e.Failure.Code)
			}
			for range busy {
				want = append(want, event.CodeRetryAfter)
			}
			if diff := cmp.Diff(append(want, event.CodeError), codes); diff != "" {
				t.Errorf("codes in the log (-want +got):\n%s", diff)
			}
		}
	})
}

func TestSTEP5_RetryAfterBeyondItsBoundUsesUpAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		policy   workflow.RetryPolicy
		attempts int
	}{
		"default":        {workflow.RetryPolicy{}, 100 + 4},
		"of the policy":  {workflow.RetryPolicy{Attempts: 3, Waits: 5}, 8},
		"one attempt":    {workflow.RetryPolicy{Attempts: 1, Waits: 2}, 3},
		"the total time": {workflow.RetryPolicy{Total: 5*time.Minute + time.Second}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			asks := flowtest.AStep[int, int]("asks", shim.Policy{Retry: tt.policy})
			flow := flowtest.Flow[int, int]("impatient")
			w := flowtest.NewVirtual(t)
			var began atomic.Int64
			w.Work(worker.Config{}, flowtest.As(flow, asks.Call), asks.As(func(context.Context, int) (int, error) {
				began.Add(1)
				return 0, step.RetryAfter(flowtest.ErrBusy, time.Minute)
			}))
			run := flowtest.Start(w, flow, 1)
			w.FastForward(run)
			if err := flowtest.Failure(w, run); err.Code != event.CodeError {
				t.Errorf("got %v, want code %s", err, event.CodeError)
			}
			if n := began.Load(); n != int64(tt.attempts) {
				t.Errorf("%d attempts, want %d", n, tt.attempts)
			}
		})
	}
}

// TestSTEP5_RetryAfterIsCountedTheSameWhereverAWorkerCrashes proves that a crash at any point does
// not change the number of attempts that count. This number is derived from the log alone.
func TestSTEP5_RetryAfterIsCountedTheSameWhereverAWorkerCrashes(t *testing.T) {
	asks := flowtest.AStep[int, int]("asks", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 6, Initial: time.Millisecond}})
	flow := flowtest.Flow[int, int]("crashes")
	setup := func(e *workflowtest.Env) {
		shim.BindWorkflow(e, flow, asks.Call)
		busy := 0
		asks.As(func(context.Context, int) (int, error) {
			if busy++; busy <= 7 {
				return 0, step.RetryAfter(flowtest.ErrBusy, time.Minute)
			}
			return 1, nil
		})(e)
	}
	workflowtest.CrashEverywhere(t, flow, 1, setup)
}
