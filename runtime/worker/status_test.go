package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestStatus_OfARunWhoseCodeHangsIsRunning proves that a run whose code hangs before its first
// commit has the status running and not pending.
func TestStatus_OfARunWhoseCodeHangsIsRunning(t *testing.T) {
	for name, localstart := range map[string]bool{"claimed": false, "handed over": true} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				gate := newBarrier()
				defer gate.open()
				w.Near = localstart
				hangs := flowtest.Flow[int, int]("begun.hangs")
				w.Work(worker.Config{BlockedAfter: 20 * time.Millisecond}, flowtest.AttackStep.As(twice), flowtest.As(hangs, func(ctx workflow.Context, n int) (int, error) {
					gate.pass(context.Background())
					return flowtest.AttackStep.Call(ctx, n)
				}))
				run := flowtest.Start(w, hangs, 4)
				w.Eventually("the run is said to run", func() bool {
					info, err := run.Info(w.Ctx)
					if err != nil {
						t.Fatal(err)
					}
					return info.Status == workflow.StatusRunning
				})
				if n := len(w.Log(run)); n != 1 {
					t.Errorf("the log has %d events", n)
				}
				gate.open()
				if got := flowtest.Result(w, run); got != 8 {
					t.Errorf("got %d", got)
				}
				w.Healthy()
			})
		})
	}
}
