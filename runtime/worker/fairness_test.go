package worker_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC9_ARunThatGivesWayGoesBehindWhatWaitsInAllPartitions proves that a run which yields its
// slot queues behind the waiting runs of all partitions. The first run occupies the only slot until
// another run ends it, and the other runs get the slot only if the first run yields to them.
func TestREC9_ARunThatGivesWayGoesBehindWhatWaitsInAllPartitions(t *testing.T) {
	const partitions = 3
	for at := range partitions {
		t.Run(fmt.Sprint("hog in partition ", at), func(t *testing.T) {
			flowtest.OnPartitions(t, partitions, func(t *testing.T, w *flowtest.World) {
				hog, modest := flowtest.Flow[int, int]("hog"), flowtest.Flow[int, int]("modest")
				var done atomic.Int64
				begun := make(chan struct{}, 1)
				w.Work(worker.Config{Runs: 1, RunBudget: 5 * time.Millisecond, NoLocalStart: true}, flowtest.DoWork1,
					flowtest.As(hog, func(ctx workflow.Context, n int) (int, error) {
						for done.Load() < int64(n) {
							nudge(begun)
							if _, err := flowtest.Work1.Call(ctx, 1); err != nil {
								return 0, err
							}
						}
						return 0, nil
					}),
					flowtest.As(modest, func(ctx workflow.Context, n int) (int, error) {
						n, err := flowtest.Work1.Call(ctx, n)
						done.Add(1)
						return n, err
					}))
				first := flowtest.Start(w, hog, partitions, w.In(at, "hog"))
				<-begun
				var others []*workflow.Run[int]
				for p := range partitions {
					others = append(others, flowtest.Start(w, modest, p, w.In(p, fmt.Sprint("modest ", p))))
				}
				for p, run := range others {
					if got := flowtest.Result(w, run); got != p {
						t.Errorf("got %d, want %d", got, p)
					}
				}
				_ = flowtest.Result(w, first)
			})
		})
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// TestREC11_PriorityHoldsAcrossPartitionsWithinABound proves that a full worker claims from the
// partitions in turn. Before it claims a run of the highest priority, each of the other partitions
// fills the worker at most once.
func TestREC11_PriorityHoldsAcrossPartitionsWithinABound(t *testing.T) {
	const partitions, each = 4, 8
	flowtest.OnPartitions(t, partitions, func(t *testing.T, w *flowtest.World) {
		var mu sync.Mutex
		var order []int // priorities in the order in which the runs are executed
		gate, begun := make(chan struct{}), make(chan struct{}, 1)
		ranked := flowtest.Flow[int, int]("ranked")
		w.Work(worker.Config{Runs: 1, NoLocalStart: true}, flowtest.As(ranked, func(_ workflow.Context, n int) (int, error) {
			nudge(begun)
			<-gate
			mu.Lock()
			defer mu.Unlock()
			order = append(order, n)
			return n, nil
		}))
		var all []*workflow.Run[int]
		first := flowtest.Start(w, ranked, -1)
		<-begun // this run occupies the only slot until all others wait
		for p := range partitions {
			for n := range each {
				all = append(all, flowtest.Start(w, ranked, 0, w.In(p, fmt.Sprint("low ", p, " ", n))))
			}
		}
		for p := range partitions {
			all = append(all, flowtest.Start(w, ranked, 9, workflow.WithPriority(9), w.In(p, fmt.Sprint("high ", p))))
		}
		close(gate)
		_ = flowtest.Result(w, first)
		for _, run := range all {
			_ = flowtest.Result(w, run)
		}
		// A run of priority 9 is executed first, whichever partition begins. The last run of
		// priority 9 waits for the turn of its partition.
		for n := range partitions {
			if order[1+n] != 9 {
				t.Errorf("executed by priority: %v, want those of 9 first", order)
				break
			}
		}
		if n := len(order); n != 1+partitions*(each+1) {
			t.Errorf("%d runs were executed", n)
		}
	})
}

// TestREC11_PriorityWaitsForOneTurnOfEachOtherPartitionAtMost proves that the bound is tight. There
// is one slot, and the partition with the run of the highest priority is served last. One run of a
// lower priority from each other partition is executed before it.
func TestREC11_PriorityWaitsForOneTurnOfEachOtherPartitionAtMost(t *testing.T) {
	const partitions = 4
	flowtest.OnPartitions(t, partitions, func(t *testing.T, w *flowtest.World) {
		ranked := flowtest.Flow[int, int]("ranked")
		most := 0
		for at := range w.Store.Partitions() {
			var order flowtest.Seen[int]
			gate, begun := make(chan struct{}), make(chan struct{}, 1)
			r := w.Work(worker.Config{Runs: 1, NoLocalStart: true}, flowtest.As(ranked, func(_ workflow.Context, n int) (int, error) {
				nudge(begun)
				<-gate
				order.Add(n)
				return n, nil
			}))
			first := flowtest.Start(w, ranked, -1, w.In(0, fmt.Sprint("first ", at)))
			<-begun // this run occupies the only slot until all others wait
			var all []*workflow.Run[int]
			for p := range partitions {
				for n := range 6 {
					all = append(all, flowtest.Start(w, ranked, 0, w.In(p, fmt.Sprint("low ", at, p, n))))
				}
			}
			all = append(all, flowtest.Start(w, ranked, 9, workflow.WithPriority(9), w.In(at, fmt.Sprint("high ", at))))
			close(gate)
			for _, run := range append(all, first) {
				_ = flowtest.Result(w, run)
			}
			before := slices.Index(order.Get(), 9) - 1 // not counting the first run
			if most = max(most, before); before > w.Store.Partitions()-1 {
				t.Errorf("a run of the highest priority in partition %d: %d of others came before it, want at most one of each other partition: %v", at, before, order.Get())
			}
			r.Stop()
		}
		if want := w.Store.Partitions() - 1; most != want {
			t.Errorf("at most %d runs came before that of the highest priority, the bound is %d", most, want)
		}
	})
}

// TestREC11_BlockedCodeHoldsUpNoOtherRun proves that workflow code that blocks its executor does
// not delay other runs. They get a new executor long before the worker reports the code, which
// takes an hour in this test.
func TestREC11_BlockedCodeHoldsUpNoOtherRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		free := make(chan struct{})
		blocks := flowtest.Flow[int, int]("blocks")
		w.Work(worker.Config{BlockedAfter: time.Hour}, flowtest.Runs, flowtest.As(blocks, func(_ workflow.Context, n int) (int, error) {
			<-free
			return n, nil
		}))
		var blocked []*workflow.Run[int]
		for n := range 8 * max(runtime.GOMAXPROCS(0), 2) {
			blocked = append(blocked, flowtest.Start(w, blocks, n))
		}
		begun := time.Now()
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x")); got != "<x>" {
			t.Errorf("got %q", got)
		}
		t.Logf("a run beside %d blocked ones took %v", len(blocked), time.Since(begun))
		if n := w.Logs.Count("blocks outside of the durable operations"); n > 0 {
			t.Errorf("%d executors were reported before their time", n)
		}
		close(free)
		for n, run := range blocked {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("after it came free: got %d, want %d", got, n)
			}
		}
	})
}
