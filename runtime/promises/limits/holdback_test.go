package limits_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestPOOL2_HoldBackClosesTheRateForTheWholeFleet proves that a HoldBack which a step returns on
// one worker closes the rate for all workers, so that no other run begins that uses the rate.
func TestPOOL2_HoldBackClosesTheRateForTheWholeFleet(t *testing.T) {
	for name, retry := range map[string]workflow.RetryPolicy{"before another attempt": {}, "after the last attempt": {Attempts: 1, Waits: 1}} {
		t.Run(name, func(t *testing.T) {
			api := limit.New("test.api", limit.Config{Rate: 1000, Burst: 100})
			policy := shim.Policy{Retry: retry, Uses: shim.Uses(func(flowtest.StepArgs[int]) []limit.Use { return []limit.Use{api.Use(1)} })}
			call := flowtest.AStep[int, int]("limits.api", policy)
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				const hold = time.Hour
				var begun atomic.Int64
				for range 2 {
					w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return call.Call(ctx, n) }),
						call.As(func(ctx context.Context, n int) (int, error) {
							begun.Add(1)
							if retry.Attempts == 1 && step.Attempt(ctx) == 1 {
								return 0, step.RetryAfter(flowtest.ErrBusy, 0)
							}
							return n, fmt.Errorf("call: %w", step.HoldBack(flowtest.ErrBusy, hold))
						}))
				}
				before := time.Now()
				first := flowtest.Start(w, renders, 1)
				state := func() (l ops.LimitInfo) {
					all, err := ops.New(w.Client).Limits().List(w.Ctx)
					if err != nil {
						t.Fatal(err)
					}
					for _, l := range all {
						if l.Name == "test.api" {
							return l
						}
					}
					return l
				}
				w.Eventually("the rate is closed", func() bool { return !state().Next.Before(before.Add(hold)) })
				if retry.Attempts == 1 {
					flowtest.Failure(w, first)
				}
				n := begun.Load()
				flowtest.Start(w, renders, 2)
				w.Eventually("another step waits", func() bool { return state().Waits == 1 })
				if more := begun.Load() - n; more != 0 {
					t.Errorf("%d attempts have begun while the rate was closed", more)
				}
			})
		})
	}
}

// TestSTEP5_HoldBackWithoutARateIsRetryAfter proves that HoldBack has the effect of RetryAfter if
// the step uses no rate: the step is retried later, and the attempt is not counted.
func TestSTEP5_HoldBackWithoutARateIsRetryAfter(t *testing.T) {
	plain := flowtest.AStep[int, int]("limits.plain", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	pooled := flowtest.AStep[int, int]("limits.pooled", shim.Policy{
		Retry: workflow.RetryPolicy{Attempts: 1}, Uses: using(func(int) []limit.Use { return []limit.Use{gpu.Use(1)} }).Uses,
	})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		busy := func(ctx context.Context, n int) (int, error) {
			if step.Attempt(ctx) <= 3 {
				return 0, step.HoldBack(flowtest.ErrBusy, time.Millisecond)
			}
			return n, nil
		}
		w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
			a, err := plain.Call(ctx, n)
			if err != nil {
				return 0, err
			}
			b, err := pooled.Call(ctx, n)
			return a + b, err
		}), plain.As(busy), pooled.As(busy))
		run := flowtest.Start(w, renders, 2)
		if got := flowtest.Result(w, run); got != 4 {
			t.Errorf("got %d, want 4", got)
		}
		for _, e := range flowtest.Filter(w.Log(run), event.StepRetrying) {
			if e.Failure.Code != event.CodeRetryAfter {
				t.Errorf("attempt %d ended with code %s, want %s", e.Attempt, e.Failure.Code, event.CodeRetryAfter)
			}
		}
	})
}
