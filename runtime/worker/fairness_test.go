package worker_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// onPartitions runs a test on every kind of store, and where it can have several
// partitions on one with as many.
func onPartitions(t *testing.T, n int, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memstore.New() },
		fmt.Sprintf("memory in %d partitions", n): func(*testing.T) store.Store {
			return memstore.NewWith(memstore.Config{Partitions: n})
		},
		"sqlite": stores["sqlite"],
		fmt.Sprintf("redis in %d partitions", n): func(t *testing.T) store.Store {
			st, err := redisstore.Open(fmt.Sprintf("%s?partitions=%d", redistest.Start(t).URL(), n))
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, open(t), workflow.ClientConfig{})) })
	}
}

// in gives a run a workflow id in a partition.
func (w *world) in(partition int, name string) workflow.StartOption {
	for int(event.SlotOf(name))%w.store.Partitions() != partition%w.store.Partitions() {
		name += "-"
	}
	return workflow.WithID(name)
}

// A run that keeps executing in any partition would hold the only place for ever: the
// others, in whatever partition, end it, and get their turn only if it goes behind them.
func TestREC9_ARunThatGivesWayGoesBehindWhatWaitsInAllPartitions(t *testing.T) {
	const partitions = 3
	for at := range partitions {
		t.Run(fmt.Sprint("hog in partition ", at), func(t *testing.T) {
			onPartitions(t, partitions, func(t *testing.T, w *world) {
				hog, modest := flow[int, int]("hog"), flow[int, int]("modest")
				var done atomic.Int64
				begun := make(chan struct{}, 1)
				w.work(worker.Config{Runs: 1, RunBudget: 5 * time.Millisecond, NoHandover: true}, doWork1,
					as(hog, func(ctx workflow.Context, n int) (int, error) {
						for done.Load() < int64(n) {
							nudge(begun)
							if _, err := work1.Call(ctx, 1); err != nil {
								return 0, err
							}
						}
						return 0, nil
					}),
					as(modest, func(ctx workflow.Context, n int) (int, error) {
						n, err := work1.Call(ctx, n)
						done.Add(1)
						return n, err
					}))
				first := start(w, hog, partitions, w.in(at, "hog"))
				<-begun
				var others []*workflow.Run[int]
				for p := range partitions {
					others = append(others, start(w, modest, p, w.in(p, fmt.Sprint("modest ", p))))
				}
				for p, run := range others {
					if got := result(w, run); got != p {
						t.Errorf("got %d, want %d", got, p)
					}
				}
				_ = result(w, first)
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

// A full worker claims from the partitions in turn: before a run of the highest priority
// each of the other partitions fills it once at most.
func TestREC11_PriorityHoldsAcrossPartitionsWithinABound(t *testing.T) {
	const partitions, each = 4, 8
	onPartitions(t, partitions, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var order []int // priorities as the runs are executed
		gate, begun := make(chan struct{}), make(chan struct{}, 1)
		ranked := flow[int, int]("ranked")
		w.work(worker.Config{Runs: 1, NoHandover: true}, as(ranked, func(_ workflow.Context, n int) (int, error) {
			nudge(begun)
			<-gate
			mu.Lock()
			defer mu.Unlock()
			order = append(order, n)
			return n, nil
		}))
		var all []*workflow.Run[int]
		first := start(w, ranked, -1)
		<-begun // it has the only place until everything else waits
		for p := range partitions {
			for n := range each {
				all = append(all, start(w, ranked, 0, w.in(p, fmt.Sprint("low ", p, " ", n))))
			}
		}
		for p := range partitions {
			all = append(all, start(w, ranked, 9, workflow.WithPriority(9), w.in(p, fmt.Sprint("high ", p))))
		}
		close(gate)
		_ = result(w, first)
		for _, run := range all {
			_ = result(w, run)
		}
		// One of them comes first wherever the turn begins; the last one of them waits for
		// its partition's turn.
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

// Code that blocks keeps its executor. The others get new ones long before it is
// reported: that takes an hour here.
func TestREC11_BlockedCodeHoldsUpNoOtherRun(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		blocks := flow[int, int]("blocks")
		w.work(worker.Config{BlockedAfter: time.Hour}, runs, as(blocks, func(_ workflow.Context, n int) (int, error) {
			<-free
			return n, nil
		}))
		var blocked []*workflow.Run[int]
		for n := range 8 * max(runtime.GOMAXPROCS(0), 2) {
			blocked = append(blocked, start(w, blocks, n))
		}
		begun := time.Now()
		if got := result(w, start(w, echo, "x")); got != "<x>" {
			t.Errorf("got %q", got)
		}
		t.Logf("a run beside %d blocked ones took %v", len(blocked), time.Since(begun))
		if n := w.logs.count("blocks outside of the durable operations"); n > 0 {
			t.Errorf("%d executors were reported before their time", n)
		}
		close(free)
		for n, run := range blocked {
			if got := result(w, run); got != n {
				t.Errorf("after it came free: got %d, want %d", got, n)
			}
		}
	})
}
