package steps_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
	"github.com/flowgen/flowgen/sqlitestore"
)

var declined = workflow.NewHook[int]("declined")

// settles returns a workflow with three steps whose attempts are pending. One step is completed
// from outside, one is failed, and one gets no outcome.
func settles(timeout time.Duration) (flow workflow.Definition[int, string], setup func(*workflowtest.Env)) {
	flow = flowtest.Flow[int, string]("settles")
	good := flowtest.AStep[int, int]("settles.good", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 9}})
	bad := flowtest.AStep[int, int]("settles.bad", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 9}})
	slow := flowtest.AStep[int, int]("settles.slow", shim.Policy{Timeout: timeout, NonIdempotent: true})
	return flow, func(e *workflowtest.Env) {
		shim.BindWorkflow(e, flow, func(ctx workflow.Context, n int) (string, error) {
			code := func(err error) string {
				var failed *workflow.StepError
				switch {
				case err == nil:
					return "done"
				case errors.As(err, &failed) && (failed.Code == event.CodeTimeout || failed.Code == event.CodeInterrupted):
					return "nobody" // a timeout or a crash has ended the step, which is not idempotent
				case errors.Is(err, workflow.ErrCanceled):
					return "canceled"
				}
				return err.Error()
			}
			first := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return good.Call(ctx, n) })
			second := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return bad.Call(ctx, n) })
			_, slow := slow.Call(ctx, n)
			v, err := first.Get(ctx)
			_, bad := second.Get(ctx)
			var negative *flowtest.NegativeError
			return fmt.Sprint(v, " ", code(err), " ", errors.As(bad, &negative), " ", code(slow)), ctx.Err()
		})
		good.As(leaves)(e)
		bad.As(func(ctx context.Context, _ int) (int, error) {
			later, err := step.Later(ctx, declined)
			if err != nil {
				return 0, err
			}
			return later.Pending()
		})(e)
		slow.As(func(ctx context.Context, _ int) (int, error) {
			later, err := step.Later(ctx, workflow.NewHook[int]("nobody"))
			if err != nil {
				return 0, err
			}
			return later.Pending()
		})(e)
		workflowtest.StubHook(e, charged, workflowtest.Payload[int]{After: 5 * time.Millisecond, Value: 7})
		workflowtest.StubHook(e, declined, workflowtest.Payload[int]{After: 3 * time.Millisecond, Err: step.Fatal(&flowtest.NegativeError{N: -1})})
	}
}

func TestSTEP13_AnOutcomeFromOutsideSurvivesEveryCrash(t *testing.T) {
	flow, setup := settles(time.Hour)
	r := workflowtest.CrashEverywhere(t, flow, 1, setup, workflowtest.Pairs(100))
	if r.Tried != r.Points || r.Points < 30 {
		t.Errorf("got %+v", r)
	}
	t.Logf("%+v", r)
}

func TestSTEP13_AnOutcomeFromOutsideSurvivesCrashesOnEveryStore(t *testing.T) {
	flow, setup := settles(50 * time.Millisecond)
	for name, open := range map[string]func(t testing.TB) store.Store{
		"sqlite": func(t testing.TB) store.Store {
			st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "flows.db"))
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
		"redis": func(t testing.TB) store.Store {
			st, err := redisstore.Open(redistest.Start(t).URL())
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.CrashEverywhere(t, flow, 1, setup, workflowtest.WithStore(open), workflowtest.Sample(12), workflowtest.Pairs(4))
		})
	}
}

func TestSTEP13_OutcomesFromOutsideMayComeInEveryOrder(t *testing.T) {
	flow, setup := settles(time.Hour)
	workflowtest.Interleave(t, flow, 1, setup, 100)
}

// TestSTEP13_AStepOnAnotherQueueIsFinishedFromOutside proves that a step on another queue can be
// completed, failed and canceled from outside. Such a step has its own run, to which its token
// belongs.
func TestSTEP13_AStepOnAnotherQueueIsFinishedFromOutside(t *testing.T) {
	render := flowtest.AStep[int, int]("charge.remote", shim.Policy{Queue: "gpu", Retry: flowtest.Quick})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, render.As(leaves), flowtest.As(charges, render.Call))
		w.Work(worker.Config{Queues: []string{"gpu"}, Parked: 1}, render.As(leaves))
		run := flowtest.Start(w, charges, 1)
		var hooks []workflow.HookInfo
		listed := func(attempt int) func() bool {
			return func() bool {
				var err error
				if hooks, err = run.Hooks(w.Ctx); err != nil {
					t.Fatal(err)
				}
				return len(hooks) == 1 && hooks[0].Attempt == attempt
			}
		}
		w.Eventually("the hook of the step is listed", listed(1))
		if hooks[0].Run == run.ID() {
			t.Error("the hook belongs to the run of the caller")
		}
		if err := charged.Fail(w.Ctx, w.Client, hooks[0].Token, flowtest.ErrBusy); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the hook of the next attempt is listed", listed(2))
		if err := charged.Send(w.Ctx, w.Client, hooks[0].Token, 21); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != 21 {
			t.Errorf("got %d, want 21", got)
		}

		canceled := flowtest.Start(w, charges, 2)
		run = canceled
		w.Eventually("the hook of the step is listed", listed(1))
		if err := canceled.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		flowtest.Failure(w, canceled)
		over(t, "after the cancel", charged.Send(w.Ctx, w.Client, hooks[0].Token, 1), false)
	})
}

// TestSTEP13_AStepGivesItsPermitsBackWhileItIsLeftToOthers proves that a pending attempt holds no
// permits. It releases them when the code has returned, and takes them again while its outcome is
// recorded.
func TestSTEP13_AStepGivesItsPermitsBackWhileItIsLeftToOthers(t *testing.T) {
	one := limit.New("test.outside", limit.Config{AtOnce: 1})
	charge := flowtest.AStep[int, int]("charge.limited", shim.Policy{Retry: flowtest.Quick, Uses: shim.Uses(func(flowtest.StepArgs[int]) []limit.Use {
		return []limit.Use{one.Use(1)}
	})})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
		var runs []*workflow.Run[int]
		var hooks []workflow.HookInfo
		for n := range 3 { // the limit of one permit does not prevent three pending attempts
			run := flowtest.Start(w, charges, n)
			runs = append(runs, run)
			w.Eventually("the hook of the step is listed", func() bool {
				all, err := run.Hooks(w.Ctx)
				if err != nil {
					t.Fatal(err)
				}
				if len(all) == 1 {
					hooks = append(hooks, all...)
				}
				return len(all) == 1
			})
		}
		for n, run := range runs {
			if n == 1 {
				if err := charged.Fail(w.Ctx, w.Client, hooks[n].Token, step.Fatal(flowtest.ErrBusy)); err != nil {
					t.Fatal(err)
				}
				flowtest.Failure(w, run)
				continue
			}
			if err := charged.Send(w.Ctx, w.Client, hooks[n].Token, n); err != nil {
				t.Fatal(err)
			}
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
	})
}
