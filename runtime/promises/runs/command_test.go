package runs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRUN18_CommandsTakeAReasonAndAreCarriedOutOnceForAKey proves that a repeated command with the
// same idempotency key is executed once, and that the log contains its reason. An operator repeats
// a command if its answer was lost. Unlike a repeated pause, a repeated step would have another
// effect.
func TestRUN18_CommandsTakeAReasonAndAreCarriedOutOnceForAKey(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
		run := flowtest.Start(w, flowtest.Steps, 3, workflow.WithDebug())
		for range 3 {
			flowtest.Order(t, run.Step(w.Ctx, workflow.IdempotencyKey("first"), workflow.Reason("look at it")))
		}
		w.Reach(run, event.StepCompleted, 1)
		flowtest.Order(t, run.Step(w.Ctx, workflow.IdempotencyKey("second")))
		w.Reach(run, event.StepCompleted, 2)
		flowtest.Order(t, run.Resume(w.Ctx, workflow.IdempotencyKey("first"))) // keys of different commands do not collide
		flowtest.Result(w, run)
		if steps := flowtest.Filter(w.Log(run), event.RunStepped); len(steps) != 2 || steps[0].Reason != "look at it" || steps[1].Reason != "" {
			t.Errorf("the log has the commands %+v, want one for each key, the first with its reason", steps)
		}
	})
}

func TestRUN12_CommandsKeepTheirReasons(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		release := make(chan struct{})
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			select {
			case <-release:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}))
		run := flowtest.Start(w, flowtest.Steps, 1, workflow.WithHold())
		flowtest.Order(t, run.Release(w.Ctx, workflow.Reason("approved")))
		flowtest.Order(t, run.Release(w.Ctx, workflow.Reason("approved again")))
		w.Reach(run, event.StepStarted, 1)
		flowtest.Order(t, run.Pause(w.Ctx, workflow.Reason("the \"why\"\n§")))
		w.Reach(run, event.RunPaused, 1)
		flowtest.Order(t, run.Resume(w.Ctx, workflow.Reason(strings.Repeat("x", store.MaxReason))))
		w.Reach(run, event.RunResumed, 1)
		close(release)
		flowtest.Result(w, run)
		got := map[event.Type]string{}
		for _, e := range w.Log(run) {
			if e.Reason != "" {
				got[e.Type] += e.Reason
			}
		}
		want := map[event.Type]string{event.RunReleased: "approved", event.RunPaused: "the \"why\"\n§", event.RunResumed: strings.Repeat("x", store.MaxReason)}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("reasons in the log (-want +got):\n%s", d)
		}
		for _, bad := range []string{strings.Repeat("x", store.MaxReason+1), "\xff"} {
			if err := run.Pause(w.Ctx, workflow.Reason(bad)); !flowtest.IsInvalid(err, "reason") {
				t.Errorf("a reason of %d bytes: got %v", len(bad), err)
			}
		}
	})
}
