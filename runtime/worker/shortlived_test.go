package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC2_WorkersThatLiveForLessThanTheExpiryTakeOverADeadOnesRuns proves that the runs of a dead
// worker are recovered even if no later worker runs for a whole expiry.
func TestREC2_WorkersThatLiveForLessThanTheExpiryTakeOverADeadOnesRuns(t *testing.T) {
	const expiry = time.Second
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.AttackSleep, 7)
		partition := int(run.ID().Slot()) % w.Store.Partitions()
		dead := store.Session{ID: "dead", Partition: partition, TTL: expiry}
		if err := w.Store.OpenSession(w.Ctx, dead); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store.ClaimRun(w.Ctx, partition, dead.ID, event.NewToken(), run.ID()); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			short := w.Work(worker.Config{Heartbeat: expiry / 10, ClaimExpiry: expiry}, flowtest.As(flowtest.AttackSleep, func(_ workflow.Context, n int) (int, error) { return n, nil }))
			ctx, cancel := context.WithTimeout(w.Ctx, expiry/3)
			_, err := run.Result(ctx)
			ended = err == nil
			cancel()
			short.Stop()
			if w.Ctx.Err() != nil {
				t.Fatal("nobody took over the run of a dead worker")
			}
		}
		w.Healthy()
	})
}
