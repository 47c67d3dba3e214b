package worker_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW13_WaitingRunsHoldNoGoroutineAndAllWake(t *testing.T) {
	const waiting = 200
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Parked: 1}, flowtest.Parks)
		w.Work(worker.Config{Parked: 1}, flowtest.Parks)
		started, err := flowtest.Parker.StartMany(w.Ctx, w.Client, make([]workflow.StartRequest[string], waiting))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range started {
			w.Reach(s.Run, event.WaitCreated, 1)
		}
		before := 0
		w.Eventually("the parked runs have left the memory", func() bool {
			before = runtime.NumGoroutine()
			return before < waiting/2
		})
		w.Eventually("all runs are parked", func() bool { // the last ones may be in memory, where they count as running
			n, err := w.Client.Count(w.Ctx, workflow.Filter{})
			flowtest.Order(t, err)
			return n.ByStatus()[workflow.StatusWaiting] == waiting
		})
		for i, s := range started {
			if err := flowtest.Wake.Send(w.Ctx, s.Run, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range started {
			if got := flowtest.Result(w, s.Run); got != fmt.Sprint(i) {
				t.Errorf("run %d got %q", i, got)
			}
		}
	})
}

func blockOnChannel(c chan struct{}) { <-c }

func blockOnMutex(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

func spin(stop *atomic.Bool) {
	for !stop.Load() {
		_ = stop
	}
}

// TestFLOW14_BlockedCodeIsReportedAndDoesNotStallOtherRuns proves that code which blocks is
// reported by the name of the user's function while other runs continue. When the code returns, its
// own run continues.
func TestFLOW14_BlockedCodeIsReportedAndDoesNotStallOtherRuns(t *testing.T) {
	for name, block := range map[string]func() (wait, free func()){
		"blockOnChannel": func() (wait, free func()) {
			c := make(chan struct{})
			return func() { blockOnChannel(c) }, func() { close(c) }
		},
		"blockOnMutex": func() (wait, free func()) {
			mu := &sync.Mutex{}
			mu.Lock()
			return func() { blockOnMutex(mu) }, mu.Unlock
		},
		"spin": func() (wait, free func()) {
			stop := &atomic.Bool{}
			return func() { spin(stop) }, func() { stop.Store(true) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			wait, free := block()
			blocks := flowtest.Flow[string, string]("blocks")
			w.Work(worker.Config{BlockedAfter: 80 * time.Millisecond}, flowtest.Runs, flowtest.As(blocks, func(ctx workflow.Context, in string) (string, error) {
				if in == "main" {
					wait()
				}
				f := workflow.Go(ctx, func(workflow.Context) (string, error) { wait(); return in, nil })
				return f.Get(ctx)
			}))
			blocked := []*workflow.Run[string]{flowtest.Start(w, blocks, "main"), flowtest.Start(w, blocks, "branch"), flowtest.Start(w, blocks, "branch")}
			for range 20 {
				_ = flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x"))
			}
			w.Eventually("all of them are reported", func() bool { return w.Logs.Count("blocks outside of the durable operations") >= 3 })
			logs := w.Logs.String()
			for _, run := range blocked {
				if !flowtest.ContainsAll(logs, "run="+string(run.ID())) {
					t.Errorf("run %s is not named", run.ID())
				}
			}
			if n := strings.Count(logs, "worker_test."+name); n == 0 || !flowtest.ContainsAll(logs, "workflow=test.blocks", "parked_test.go") {
				t.Errorf("the report does not name %s:\n%s", name, logs)
			}
			free()
			for i, want := range []string{"main", "branch", "branch"} {
				if got := flowtest.Result(w, blocked[i]); got != want {
					t.Errorf("after it came free: got %q, want %q", got, want)
				}
			}
		})
	}
}
