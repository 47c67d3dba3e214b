package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN8_ContextsEndAsTimedOutWithWhatIsUnderThem(t *testing.T) {
	limited := flow[int, string]("limited")
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
			w := newVirtual(t)
			w.work(worker.Config{}, work1.as(untilCanceled), as(limited, func(outer workflow.Context, _ int) (string, error) {
				begun := workflow.Now(outer)
				ctx, stop := with(outer)
				defer stop()
				_, err := work1.Call(ctx, 1)
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
			run := start(w, limited, 1)
			w.reach(run, event.StepStarted, 1)
			w.clock.Advance(time.Minute)
			w.nudge(run, event.StepFailed, 1)
			w.clock.Advance(time.Hour)
			if got := result(w, run); got != "went on" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// nudge lets a little time pass, again and again, until n events of a type are
// in the log of a run that is being executed: its worker may set the alarm only
// when the time has come already.
func (w *world) nudge(run follows, typ event.Type, n int) {
	w.t.Helper()
	w.eventually("there are enough "+typ.String(), func() bool {
		w.clock.Advance(20 * time.Millisecond)
		return len(filter(w.log(run), typ)) >= n
	})
}

func TestRUN8_ATimeoutThatIsPastEndsTheContextAtOnce(t *testing.T) {
	limited := flow[int, string]("limited")
	w := newMemory(t)
	w.work(worker.Config{}, as(limited, func(outer workflow.Context, _ int) (string, error) {
		ctx, stop := workflow.WithTimeout(outer, 0)
		defer stop()
		return ctx.Err().Error(), workflow.Sleep(outer, time.Millisecond)
	}))
	if got := result(w, start(w, limited, 1)); got != workflow.ErrTimeout.Error() {
		t.Errorf("got %q", got)
	}
}

func TestRUN8_ACanceledTimeoutCostsNothingAfterwards(t *testing.T) {
	limited := flow[int, string]("limited")
	w := newVirtual(t)
	w.work(worker.Config{}, as(limited, func(ctx workflow.Context, _ int) (string, error) {
		inner, stop := workflow.WithTimeout(ctx, time.Minute)
		stop()
		stop()
		if inner.Err() != workflow.ErrCanceled {
			t.Errorf("after its CancelFunc the context says %v", inner.Err())
		}
		return "x", workflow.Sleep(ctx, time.Hour)
	}))
	run := start(w, limited, 1)
	w.reach(run, event.WaitCreated, 2)
	if info, err := run.Info(w.ctx); err != nil || info.Due.Sub(w.clock.Now()) != time.Hour {
		t.Errorf("the run is due in %v, %v, want the sleep's hour", info.Due.Sub(w.clock.Now()), err)
	}
	w.clock.Advance(time.Hour)
	_ = result(w, run)
}

func TestRUN3_ARunTimeoutEndsTheRunAsTimedOut(t *testing.T) {
	endless := flow[int, int]("endless")
	w := newVirtual(t)
	w.work(worker.Config{}, as(endless, func(ctx workflow.Context, n int) (int, error) {
		err := workflow.Sleep(ctx, 1000*time.Hour)
		if ctx.Err() != workflow.ErrTimeout {
			t.Errorf("the context says %v, want ErrTimeout", ctx.Err())
		}
		if n == 1 { // clean up, and say so
			return n, workflow.Sleep(workflow.Detached(ctx), time.Hour)
		}
		return n, err
	}))
	fails := start(w, endless, 0, workflow.WithRunTimeout(2*time.Hour))
	cleans := start(w, endless, 1, workflow.WithRunTimeout(2*time.Hour))
	w.reach(fails, event.WaitCreated, 2)
	w.reach(cleans, event.WaitCreated, 2)
	w.clock.Advance(2 * time.Hour)
	err := failure(w, fails)
	if err.Status != workflow.StatusFailed || err.Code != event.CodeTimeout || errors.Is(err, workflow.ErrTimeout) {
		t.Errorf("got %v with code %s, want a failed run with code timeout that does not match ErrTimeout", err, err.Code)
	}
	w.reach(cleans, event.WaitCreated, 3)
	w.clock.Advance(time.Hour)
	if got := result(w, cleans); got != 1 {
		t.Errorf("got %d", got)
	}
}
