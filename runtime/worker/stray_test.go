package worker_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// interrupting is a clock that calls a function when it is read for the n-th time.
type interrupting struct {
	store.Clock
	mu sync.Mutex
	n  int
	f  func()
}

func (c *interrupting) at(n int, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.f = n, f
}

func (c *interrupting) Now() time.Time {
	c.mu.Lock()
	var f func()
	if c.n--; c.n == 0 {
		f = c.f
	}
	c.mu.Unlock()
	if f != nil {
		f()
	}
	return c.Clock.Now()
}

// TestFLOW1_ADurableCallOnAGoroutineWhileStepsBeginBlocksTheRun proves that a run is blocked and
// keeps no slots if its code calls a durable operation on another goroutine at any moment while the
// worker begins steps of the run. If the worker has given the run back by then, the run is blocked
// when it is claimed again.
func TestFLOW1_ADurableCallOnAGoroutineWhileStepsBeginBlocksTheRun(t *testing.T) {
	clock := &interrupting{Clock: store.SystemClock}
	w := flowtest.NewWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{})
	strays := flowtest.Flow[int, int]("strays")
	w.Work(worker.Config{Heartbeat: time.Minute, ClaimExpiry: time.Hour}, flowtest.AttackStep.As(twice),
		flowtest.As(strays, func(ctx workflow.Context, n int) (int, error) {
			clock.at(n, func() {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = workflow.Sleep(ctx, time.Hour)
				}()
				<-ended
			})
			all, err := workflow.Map(ctx, make([]int, 4), flowtest.AttackStep.Call)
			if err != nil {
				return 0, err
			}
			return len(all), workflow.Sleep(ctx, time.Hour) // the goroutine may call it this late
		}))
	for n := range 20 {
		run := flowtest.Start(w, strays, n+1)
		w.Eventually(fmt.Sprintf("the run is blocked by a call at reading %d of the clock", n+1), func() bool {
			info, err := run.Info(w.Ctx)
			switch {
			case err != nil:
			case info.Status == workflow.StatusSleeping: // the run was given back before that reading: it is blocked when it is claimed again
				err = run.Pause(w.Ctx)
			case info.Status == workflow.StatusPaused:
				err = run.Resume(w.Ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			return info.Status == workflow.StatusBlocked
		})
	}
	w.StopWorkers()
}
