package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
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
	for route := range snap.Ready {
		if !snap.Wakes[route] {
			return true
		}
	}
	return false
}

// The worker has room for one run. It is woken for two partitions, is full after
// the first, and has room again before it waits: it must not wait for wakes while
// it has one in its hand.
func TestWake_ThatAFullWorkerHasTakenIsFollowedByAClaim(t *testing.T) {
	st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Partitions: 2})}
	w := flowtest.NewWorld(t, st.Store, workflow.ClientConfig{})
	idle, started, step := make(chan struct{}), make(chan *flowtest.Running, 1), newBarrier()
	var r *flowtest.Running
	var waits, partitions atomic.Int64
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		switch op {
		case "wait":
			if waits.Add(1) == 1 {
				close(idle)
				r = <-started
			} else if len(req.(store.Wait).Routes) > 0 && forgotten(ctx, st.Store) {
				t.Error("the worker waits for a wake, and a run is ready whose wake it has taken")
			}
		case "due":
			if partitions.Add(1) == 2 { // the second is not claimed from: no room
				step.open()
				for ctx.Err() == nil && r.Capacity() == 0 {
					runtime.Gosched()
				}
			}
		}
		return do()
	}
	working := w.WorkOn(st, worker.Config{Concurrency: 1, Runs: 1}, flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		step.pass(ctx)
		return 2 * n, nil
	}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	w.Await("the worker to be idle", idle)
	runs := []*workflow.Run[int]{startIn(w, 0, 1), startIn(w, 1, 2)}
	started <- working
	if got := flowtest.Result(w, runs[0]) + flowtest.Result(w, runs[1]); got != 6 {
		t.Errorf("results: got %d, want 6 in all", got)
	}
	if n := partitions.Load(); n < 2 {
		t.Errorf("the worker was full before %d partitions, want 2", n)
	}
}

// startIn starts a run in one of two partitions.
func startIn(w *flowtest.World, partition, n int) *workflow.Run[int] {
	w.T.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprintf("order-%d-%d", n, i)
		if int(event.SlotOf(id))%2 == partition {
			return flowtest.Start(w, flowtest.AttackOnce, n, workflow.WithID(id))
		}
	}
}

// deaf is a store whose wakes of partition 1 go to workers that die before they claim.
type deaf struct{ store.Store }

// Unwrap returns the store, for its optional abilities.
func (l deaf) Unwrap() store.Store { return l.Store }

func (l deaf) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	woken, err := l.Store.Wait(ctx, w)
	woken.Claim = slices.DeleteFunc(woken.Claim, func(partition int) bool { return partition == 1 })
	return woken, err
}

// Something else is ready all the time, so that no wait of the worker ends by its time.
func TestREC5_ABusyWorkerClaimsFromEachPartitionThoughAWakeIsLost(t *testing.T) {
	w := flowtest.NewWorld(t, deaf{memstore.NewWith(memstore.Config{Partitions: 2})}, workflow.ClientConfig{})
	flow := flowtest.Flow[int, int]("busy")
	w.Work(worker.Config{NoHandover: true}, flowtest.LookEvery(time.Second), flowtest.As(flow, func(_ workflow.Context, n int) (int, error) { return n, nil }))
	if got := flowtest.Result(w, flowtest.Start(w, flow, 1, w.In(0, "first"))); got != 1 {
		t.Fatalf("got %d, want 1: the worker has not begun", got)
	}
	lost, done := flowtest.Start(w, flow, 7, w.In(1, "lost")), make(chan int, 1)
	go func() { done <- flowtest.Result(w, lost) }()
	for n := 0; ; n++ {
		select {
		case got := <-done:
			if got != 7 {
				t.Errorf("got %d, want 7", got)
			}
			return
		default:
			flowtest.Result(w, flowtest.Start(w, flow, n, w.In(0, fmt.Sprint(n))))
		}
	}
}
