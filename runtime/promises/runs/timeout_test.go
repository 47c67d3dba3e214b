package runs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN8_ContextsEndAsTimedOutWithWhatIsUnderThem(t *testing.T) {
	limited := flowtest.Flow[int, string]("limited")
	for name, with := range map[string]func(workflow.Context) (workflow.Context, workflow.CancelFunc){
		"WithTimeout": func(ctx workflow.Context) (workflow.Context, workflow.CancelFunc) {
			return workflow.WithTimeout(ctx, time.Minute)
		},
		"WithDeadline": func(ctx workflow.Context) (workflow.Context, workflow.CancelFunc) {
			return workflow.WithDeadline(ctx, workflow.Now(ctx).Add(time.Minute))
		},
		"of a parent": func(ctx workflow.Context) (workflow.Context, workflow.CancelFunc) {
			ctx, stop := workflow.WithTimeout(ctx, time.Minute)
			ctx, _ = workflow.WithTimeout(ctx, time.Hour)
			ctx, _ = workflow.WithCancel(ctx)
			return ctx, stop
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewVirtual(t)
			w.Work(worker.Config{}, flowtest.Work1.As(untilCanceled), flowtest.As(limited, func(outer workflow.Context, _ int) (string, error) {
				begun := workflow.Now(outer)
				ctx, stop := with(outer)
				defer stop()
				_, err := flowtest.Work1.Call(ctx, 1)
				var failed *workflow.StepError
				if !errors.Is(err, workflow.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, workflow.ErrCanceled) ||
					!errors.As(err, &failed) || failed.Code != event.CodeCanceled {
					t.Errorf("the step: got %v", err)
				}
				if err := workflow.Sleep(ctx, time.Second); !errors.Is(err, workflow.ErrTimeout) {
					t.Errorf("a sleep afterwards: got %v", err)
				}
				if took := workflow.Now(outer).Sub(begun); took < time.Minute || ctx.Err() != workflow.ErrTimeout || outer.Err() != nil {
					t.Errorf("after %v the context says %v, that around it %v", took, ctx.Err(), outer.Err())
				}
				return "went on", workflow.Sleep(outer, time.Hour)
			}))
			run := flowtest.Start(w, limited, 1)
			w.Reach(run, event.StepStarted, 1)
			w.Clock.Advance(time.Minute)
			w.Eventually("the step has failed", func() bool {
				w.Clock.Advance(20 * time.Millisecond) // one step may not suffice, because the worker may set its alarm after it
				return len(flowtest.Filter(w.Log(run), event.StepFailed)) > 0
			})
			w.Clock.Advance(time.Hour)
			if got := flowtest.Result(w, run); got != "went on" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestRUN8_ATimeoutThatIsPastEndsTheContextAtOnce(t *testing.T) {
	limited := flowtest.Flow[int, string]("limited")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(limited, func(outer workflow.Context, _ int) (string, error) {
		ctx, stop := workflow.WithTimeout(outer, 0)
		defer stop()
		return ctx.Err().Error(), workflow.Sleep(outer, time.Millisecond)
	}))
	if got := flowtest.Result(w, flowtest.Start(w, limited, 1)); got != workflow.ErrTimeout.Error() {
		t.Errorf("got %q", got)
	}
}

func TestRUN8_ACanceledTimeoutCostsNothingAfterwards(t *testing.T) {
	limited := flowtest.Flow[int, string]("limited")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.As(limited, func(ctx workflow.Context, _ int) (string, error) {
		inner, stop := workflow.WithTimeout(ctx, time.Minute)
		stop()
		stop()
		if inner.Err() != workflow.ErrCanceled {
			t.Errorf("after its CancelFunc the context says %v", inner.Err())
		}
		return "x", workflow.Sleep(ctx, time.Hour)
	}))
	run := flowtest.Start(w, limited, 1)
	w.Reach(run, event.WaitCreated, 2)
	if info, err := run.Info(w.Ctx); err != nil || info.Due.Sub(w.Clock.Now()) != time.Hour {
		t.Errorf("the run is due in %v, %v, want the sleep's hour", info.Due.Sub(w.Clock.Now()), err)
	}
	w.Clock.Advance(time.Hour)
	_ = flowtest.Result(w, run)
}

func TestRUN3_ARunTimeoutEndsTheRunAsTimedOut(t *testing.T) {
	endless := flowtest.Flow[int, int]("endless")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.As(endless, func(ctx workflow.Context, n int) (int, error) {
		err := workflow.Sleep(ctx, 1000*time.Hour)
		if ctx.Err() != workflow.ErrTimeout {
			t.Errorf("the context says %v, want ErrTimeout", ctx.Err())
		}
		if n == 1 { // this run cleans up and returns a result
			return n, workflow.Sleep(workflow.Detached(ctx), time.Hour)
		}
		return n, err
	}))
	fails := flowtest.Start(w, endless, 0, workflow.WithRunTimeout(2*time.Hour))
	cleans := flowtest.Start(w, endless, 1, workflow.WithRunTimeout(2*time.Hour))
	w.Reach(fails, event.WaitCreated, 2)
	w.Reach(cleans, event.WaitCreated, 2)
	w.Clock.Advance(2 * time.Hour)
	err := flowtest.Failure(w, fails)
	if err.Status != workflow.StatusFailed || err.Code != event.CodeTimeout || errors.Is(err, workflow.ErrTimeout) {
		t.Errorf("got %v with code %s, want a failed run with code timeout that does not match ErrTimeout", err, err.Code)
	}
	w.Reach(cleans, event.WaitCreated, 3)
	w.Clock.Advance(time.Hour)
	if got := flowtest.Result(w, cleans); got != 1 {
		t.Errorf("got %d", got)
	}
}
