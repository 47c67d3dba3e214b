package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A run whose code hangs before its first commit looks like one that runs, not like one
// that waits for a worker.
func TestStatus_OfARunWhoseCodeHangsIsRunning(t *testing.T) {
	for name, handover := range map[string]bool{"claimed": false, "handed over": true} {
		t.Run(name, func(t *testing.T) {
			onEveryStore(t, func(t *testing.T, w *world) {
				gate := newBarrier()
				defer gate.open()
				w.near = handover
				hangs := flow[int, int]("begun.hangs")
				w.work(worker.Config{BlockedAfter: 20 * time.Millisecond}, attackStep.as(twice), as(hangs, func(ctx workflow.Context, n int) (int, error) {
					gate.pass(context.Background())
					return attackStep.Call(ctx, n)
				}))
				run := start(w, hangs, 4)
				w.eventually("the run is said to run", func() bool {
					info, err := run.Info(w.ctx)
					if err != nil {
						t.Fatal(err)
					}
					return info.Status == workflow.StatusRunning
				})
				if n := len(w.log(run)); n != 1 {
					t.Errorf("the log has %d events", n)
				}
				gate.open()
				if got := result(w, run); got != 8 {
					t.Errorf("got %d", got)
				}
				w.healthy()
			})
		})
	}
}
