package runs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// charge is a step that these tests must not execute twice for the same input.
var charge = flowtest.AStep[string, string]("charge", shim.Policy{Retry: flowtest.Quick})

// charging binds charge. It records the inputs of all executions, and fails for inputs for which
// fails returns true. The result contains the idempotency key.
func charging(executed *flowtest.Seen[string], fails func(string) bool) flowtest.Binding {
	return charge.As(func(ctx context.Context, what string) (string, error) {
		executed.Add(what)
		if fails(what) {
			return "", step.Fatal(errors.New("declined"))
		}
		return what + " by " + step.IdempotencyKey(ctx), nil
	})
}

// count returns the number of executions for each input.
func count(executed *flowtest.Seen[string]) map[string]int {
	times := map[string]int{}
	for _, what := range executed.Get() {
		times[what]++
	}
	return times
}

// TestRUN10_WhatAnotherBranchDidAfterTheFailureIsNotDoneAgain proves that a retry does not repeat
// steps of another branch that began and completed after the failure. The inputs of these steps
// come from all sources that a branch has: random numbers, the time and recorded values.
func TestRUN10_WhatAnotherBranchDidAfterTheFailureIsNotDoneAgain(t *testing.T) {
	splits := flowtest.Flow[int, []string]("splits")
	kids := flowtest.Flow[string, string]("splits.kid")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[string]
		broken := true
		code := func() []flowtest.Binding {
			return []flowtest.Binding{
				charging(&executed, func(what string) bool { return what == "bad" && broken }),
				flowtest.As(kids, func(ctx workflow.Context, in string) (string, error) { return charge.Call(ctx, "kid "+in) }),
				flowtest.As(splits, func(ctx workflow.Context, _ int) ([]string, error) {
					bad := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return charge.Call(ctx, "bad") })
					good := workflow.Go(ctx, func(ctx workflow.Context) ([]string, error) {
						first, err := workflow.Record(ctx, func() (string, error) { return fmt.Sprint("recorded first ", time.Now().UnixNano()), nil })
						if err != nil {
							return nil, err
						}
						if _, err := flowtest.Wake.Receive(ctx); err != nil {
							return nil, err
						}
						value, err := workflow.Record(ctx, func() (string, error) { return fmt.Sprint("recorded ", time.Now().UnixNano()), nil })
						if err != nil {
							return nil, err
						}
						done := []string{}
						for _, what := range []string{first, value, "id " + workflow.UUID(ctx), fmt.Sprint("chance ", workflow.Rand(ctx).Int64()), "at " + workflow.Now(ctx).String()} {
							got, err := charge.Call(ctx, what)
							if err != nil {
								return nil, err
							}
							done = append(done, got)
						}
						got, err := kids.Child(ctx, "k")
						return append(done, got), err
					})
					all, err := good.Get(ctx)
					if err != nil {
						return nil, err
					}
					got, err := bad.Get(ctx)
					return append(all, got), err
				}),
			}
		}
		first := w.Work(worker.Config{}, code()...)
		run := flowtest.Start(w, splits, 0)
		w.Reach(run, event.StepFailed, 1)
		words(t, w, run, "on")
		_ = flowtest.Failure(w, run)
		first.Stop()
		broken = false
		w.Work(worker.Config{}, code()...)
		again, err := run.Retry(w.Ctx)
		flowtest.Order(t, err)
		got := flowtest.Result(w, again)
		times := count(&executed)
		if times["bad"] != 2 || len(times) != 7 {
			t.Errorf("executed: got %v, want 7 steps", times)
		}
		for what, n := range times {
			if what != "bad" && n != 1 {
				t.Errorf("step %q was executed %d times, want once", what, n)
			}
		}
		keys := map[string]bool{}
		for _, what := range got {
			keys[what] = true
		}
		if len(keys) != 7 {
			t.Errorf("results: got %q, want 7 different ones", got)
		}
		log := w.Log(again) // a worker that replays the log must get the same results
		if diff := cmp.Diff(got, flowtest.Result(w, flowtest.AfterCrash(w, splits, log[:len(log)-1]))); diff != "" {
			t.Errorf("replayed (-want +got):\n%s", diff)
		}
	})
}

// TestRUN10_ARetryOfARetryKeepsWhatBothRunsDid proves that a second retry takes over the completed
// steps of both earlier runs.
func TestRUN10_ARetryOfARetryKeepsWhatBothRunsDid(t *testing.T) {
	pairs := flowtest.Flow[int, int]("pairs")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[string]
		declined := 2
		w.Work(worker.Config{}, charge.As(func(_ context.Context, what string) (string, error) {
			executed.Add(what)
			if what == "bad" && declined > 0 {
				declined--
				return "", step.Fatal(errors.New("declined"))
			}
			return what, nil
		}), flowtest.As(pairs, func(ctx workflow.Context, _ int) (int, error) {
			bad := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return charge.Call(ctx, "bad") })
			for n := range 2 {
				if _, err := flowtest.Wake.Receive(ctx); err != nil {
					return 0, err
				}
				if _, err := charge.Call(ctx, fmt.Sprint("good ", n)); err != nil {
					return 0, err
				}
				if _, err := charge.Call(ctx, fmt.Sprint("better ", n)); err != nil {
					return 0, err
				}
			}
			_, err := bad.Get(ctx)
			return 1, err
		}))
		run := flowtest.Start(w, pairs, 0)
		w.Reach(run, event.StepFailed, 1)
		words(t, w, run, "on", "on")
		for range 3 {
			_ = flowtest.Failure(w, run)
			again, err := run.Retry(w.Ctx)
			flowtest.Order(t, err)
			if run = again; declined == 0 {
				break
			}
		}
		_ = flowtest.Result(w, run)
		want := map[string]int{"bad": 3, "good 0": 1, "better 0": 1, "good 1": 1, "better 1": 1}
		if diff := cmp.Diff(want, count(&executed)); diff != "" {
			t.Errorf("executed, of all runs (-want +got):\n%s", diff)
		}
	})
}

// TestRUN10_WhatWasDoneBehindAnOpenHookIsNotDoneAgain proves that a retry does not repeat a step
// that was completed after a hook was opened. The hook has no payload, and it belongs to the old
// run.
func TestRUN10_WhatWasDoneBehindAnOpenHookIsNotDoneAgain(t *testing.T) {
	flows := flowtest.Flow[int, int]("behindhook")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[string]
		broken := true
		w.Work(worker.Config{}, charging(&executed, func(what string) bool { return what == "bad" && broken }), flowtest.As(flows, func(ctx workflow.Context, _ int) (int, error) {
			if _, err := workflow.NewHook[string]("open").Open(ctx); err != nil {
				return 0, err
			}
			if _, err := charge.Call(ctx, "good"); err != nil {
				return 0, err
			}
			_, err := charge.Call(ctx, "bad")
			return 1, err
		}))
		run := flowtest.Start(w, flows, 0)
		_ = flowtest.Failure(w, run)
		broken = false
		again, err := run.Retry(w.Ctx)
		flowtest.Order(t, err)
		_ = flowtest.Result(w, again)
		if diff := cmp.Diff(map[string]int{"good": 1, "bad": 2}, count(&executed)); diff != "" {
			t.Errorf("executed, of both runs (-want +got):\n%s", diff)
		}
	})
}

// TestRUN10_AStepWithAnotherInputIsExecutedInTheNewRun proves that a call with the same key as a
// completed step, but with another input, is executed in the new run.
func TestRUN10_AStepWithAnotherInputIsExecutedInTheNewRun(t *testing.T) {
	notes := flowtest.Flow[int, string]("notes")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[string]
		broken := true
		w.Work(worker.Config{}, charging(&executed, func(what string) bool { return what == "bad" && broken }), flowtest.As(notes, func(ctx workflow.Context, _ int) (string, error) {
			_, err := charge.Call(ctx, "bad")
			told := "ok"
			if err != nil {
				told = "failed"
			}
			_, wrong := charge.Call(ctx, "note "+told)
			return told, errors.Join(err, wrong)
		}))
		run := flowtest.Start(w, notes, 0)
		_ = flowtest.Failure(w, run)
		broken = false
		again, err := run.Retry(w.Ctx)
		flowtest.Order(t, err)
		if got := flowtest.Result(w, again); got != "ok" {
			t.Errorf("got %q", got)
		}
		if diff := cmp.Diff(map[string]int{"bad": 2, "note failed": 1, "note ok": 1}, count(&executed)); diff != "" {
			t.Errorf("executed, of both runs (-want +got):\n%s", diff)
		}
	})
}
