package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// forgotten reports whether a run is ready and its wake is taken: nobody will be
// told of it.
func forgotten(ctx context.Context, st store.Store) bool {
	inspector, _ := store.As[store.Inspector](st)
	snap, err := inspector.Inspect(ctx)
	if err != nil {
		return false
	}
	for class := range snap.Ready {
		if !snap.Wakes[class] {
			return true
		}
	}
	return false
}

// The worker has room for one run. It is woken for two partitions, is full after
// the first, and has room again before it waits: it must not wait for wakes while
// it has one in its hand.
func TestWake_ThatAFullWorkerHasTakenIsFollowedByAClaim(t *testing.T) {
	st := &between{Store: memstore.NewWith(memstore.Config{Partitions: 2})}
	w := newWorld(t, st.Store, workflow.ClientConfig{})
	idle, started, step := make(chan struct{}), make(chan *running, 1), newBarrier()
	var r *running
	var waits, partitions atomic.Int64
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		switch op {
		case "wait":
			if waits.Add(1) == 1 {
				close(idle)
				r = <-started
			} else if len(req.(store.Wait).Classes) > 0 && forgotten(ctx, st.Store) {
				t.Error("the worker waits for a wake, and a run is ready whose wake it has taken")
			}
		case "due":
			if partitions.Add(1) == 2 { // the second is not claimed from: no room
				step.open()
				for ctx.Err() == nil && r.Room() == 0 {
					runtime.Gosched()
				}
			}
		}
		return do()
	}
	working := w.workOn(st, worker.Config{Concurrency: 1, Runs: 1}, attackStep.as(func(ctx context.Context, n int) (int, error) {
		step.pass(ctx)
		return 2 * n, nil
	}), as(attackOnce, attackStep.Call))
	w.await("the worker to be idle", idle)
	runs := []*workflow.Run[int]{startIn(w, 0, 1), startIn(w, 1, 2)}
	started <- working
	if got := result(w, runs[0]) + result(w, runs[1]); got != 6 {
		t.Errorf("results: got %d, want 6 in all", got)
	}
	if n := partitions.Load(); n < 2 {
		t.Errorf("the worker was full before %d partitions, want 2", n)
	}
}

// startIn starts a run in one of two partitions.
func startIn(w *world, partition, n int) *workflow.Run[int] {
	w.t.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprintf("order-%d-%d", n, i)
		if int(event.SlotOf(id))%2 == partition {
			return start(w, attackOnce, n, workflow.WithID(id))
		}
	}
}
