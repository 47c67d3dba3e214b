package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Each worker lives for less than the expiry, so that none of them sees a whole one.
func TestREC2_WorkersThatLiveForLessThanTheExpiryTakeOverADeadOnesRuns(t *testing.T) {
	const expiry = time.Second
	onEveryStore(t, func(t *testing.T, w *world) {
		run := start(w, attackSleep, 7)
		partition := int(run.ID().Slot()) % w.store.Partitions()
		dead := store.Session{ID: "dead", Partition: partition, TTL: expiry}
		if err := w.store.OpenSession(w.ctx, dead); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.ClaimRun(w.ctx, partition, dead.ID, event.NewToken(), run.ID()); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			short := w.work(worker.Config{Heartbeat: expiry / 10, ClaimExpiry: expiry}, as(attackSleep, func(_ workflow.Context, n int) (int, error) { return n, nil }))
			ctx, cancel := context.WithTimeout(w.ctx, expiry/3)
			_, err := run.Result(ctx)
			ended = err == nil
			cancel()
			short.stop()
			if w.ctx.Err() != nil {
				t.Fatal("nobody took over the run of a dead worker")
			}
		}
		w.healthy()
	})
}
