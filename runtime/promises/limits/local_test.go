package limits_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var memory = limit.NewLocal("test.memory")

// usage is the amount of memory in use on a worker, and the maximum of this amount.
type usage struct{ now, most atomic.Int64 }

func (u *usage) take(n int) {
	now := u.now.Add(int64(n))
	for m := u.most.Load(); now > m && !u.most.CompareAndSwap(m, now); m = u.most.Load() {
	}
}

// TestPOOL5_AWorkerIsGivenOnlyWhatFitsItsCapacity proves that each of two workers with different
// capacities gets only runs that fit its capacity. The runs also use a limit of the fleet. All runs
// complete.
func TestPOOL5_AWorkerIsGivenOnlyWhatFitsItsCapacity(t *testing.T) {
	render := flowtest.AStep[int, int]("limits.fits", using(func(n int) []limit.Use { return []limit.Use{memory.Use(n), disk.Use(1)} }))
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		used := map[int]*usage{400: {}, 1000: {}}
		for most, u := range used {
			w.Work(worker.Config{Capacity: map[string]int{"test.memory": most}}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
				return render.Call(ctx, n)
			}), render.As(func(_ context.Context, n int) (int, error) {
				u.take(n)
				defer u.now.Add(int64(-n))
				return n, nil
			}))
		}
		var runs []*workflow.Run[int]
		for i := range 30 {
			runs = append(runs, flowtest.Start(w, renders, []int{300, 900, 200}[i%3]))
		}
		for _, run := range runs {
			flowtest.Result(w, run)
		}
		for most, u := range used {
			if got := u.most.Load(); got > int64(most) {
				t.Errorf("the worker with %d had %d in use", most, got)
			}
		}
		w.Healthy()
	})
}

// TestPOOL5_NothingOfALocalLimitIsHeldByADeadWorker proves that a dead worker holds nothing of a
// local limit. Its run moves to another worker.
func TestPOOL5_NothingOfALocalLimitIsHeldByADeadWorker(t *testing.T) {
	heavy := flowtest.LimitedFlow[int, int]("limits.heavy", func(n int) []limit.Use { return []limit.Use{memory.Use(n)} })
	topic := workflow.NewTopic[int]("go")
	hold := flowtest.AStep[int, int]("limits.holds", shim.Policy{Retry: flowtest.Quick})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var killed atomic.Bool
		cfg := worker.Config{Capacity: map[string]int{"test.memory": 500}, Heartbeat: 100 * time.Millisecond, ClaimExpiry: time.Second}
		w.Keep(1, cfg, func(die func()) []flowtest.Binding {
			return []flowtest.Binding{flowtest.As(heavy, func(ctx workflow.Context, n int) (int, error) {
				if _, err := hold.Call(ctx, n); err != nil {
					return 0, err
				}
				return topic.Receive(ctx)
			}), hold.As(func(_ context.Context, n int) (int, error) {
				if killed.CompareAndSwap(false, true) {
					die()
				}
				return n, nil
			})}
		})
		first := flowtest.Start(w, heavy, 500)
		w.ReachWaiting(first)
		second := flowtest.Start(w, heavy, 500) // the first run waits, and uses no memory while it waits
		w.ReachWaiting(second)
		for _, run := range []*workflow.Run[int]{first, second} {
			flowtest.Order(t, topic.Send(w.Ctx, run, 7))
			if got := flowtest.Result(w, run); got != 7 {
				t.Errorf("got %d", got)
			}
		}
		if !killed.Load() {
			t.Error("no worker has died: the test proves nothing")
		}
		w.Healthy()
	})
}

// TestPOOL5_AWorkerThatHasEnoughWarnsOfNothing proves that a worker logs no warning about a run
// that it cannot take now, if its capacity suffices when other runs have ended.
func TestPOOL5_AWorkerThatHasEnoughWarnsOfNothing(t *testing.T) {
	heavy := flowtest.LimitedFlow[int, int]("limits.enough", func(n int) []limit.Use { return []limit.Use{memory.Use(n)} })
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, _ *flowtest.Purges) {
		free := make(chan struct{})
		cfg := worker.Config{Capacity: map[string]int{"test.memory": 500}, Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour, BlockedAfter: 80_000 * time.Hour}
		slow := flowtest.AStep[int, int]("limits.takestime", shim.Policy{Timeout: 80_000 * time.Hour})
		w.Work(cfg, flowtest.Echoes, flowtest.As(heavy, func(ctx workflow.Context, n int) (int, error) { return slow.Call(ctx, n) }),
			slow.As(func(_ context.Context, n int) (int, error) { <-free; return n, nil }))
		first := flowtest.Start(w, heavy, 400)
		w.Reach(first, event.StepStarted, 1)
		second := flowtest.Start(w, heavy, 400)
		for range 10 {
			w.Clock.Advance(time.Minute)
			flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "time passes"))
		}
		info, err := second.Info(w.Ctx)
		if err != nil || info.Status != workflow.StatusPending || len(info.Waits) == 0 {
			t.Errorf("the second is %+v, %v: it should wait for memory, or the test proves nothing", info, err)
		}
		if lines := w.Lines("a run uses more of a local limit than this worker has"); len(lines) > 0 {
			t.Errorf("the log says:\n%s", strings.Join(lines, ""))
		}
		close(free)
		flowtest.Result(w, first)
		flowtest.Result(w, second)
	})
}

// TestPOOL5_ALocalLimitCannotBeSetForTheFleet proves that a limit per worker cannot be configured
// for the fleet. The refused calls change nothing.
func TestPOOL5_ALocalLimitCannotBeSetForTheFleet(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		l := ops.New(w.Client).Limits()
		for what, do := range map[string]func() error{
			"Set":    func() error { return l.Set(w.Ctx, memory, limit.Config{AtOnce: 1}) },
			"Reset":  func() error { return l.Reset(w.Ctx, memory) },
			"Pause":  func() error { return l.Pause(w.Ctx, memory) },
			"Resume": func() error { return l.Resume(w.Ctx, memory) },
		} {
			err := do()
			refused, ok := errors.AsType[*store.InvalidError](err)
			if !ok || refused.Value != "test.memory" || !strings.Contains(err.Error(), "worker.Config.Capacity") {
				t.Errorf("%s: got %v, want an *InvalidError that names the limit and worker.Config.Capacity", what, err)
			}
		}
		if all, err := l.List(w.Ctx); err != nil || len(all) != 0 {
			t.Errorf("limits are %+v, %v, want none", all, err)
		}
	})
}

// TestPOOL5_AtOnceBoundsTheRunsOfAQueueOnAWorker proves that a worker executes at most AtOnce runs
// of a queue concurrently, however many runs wait. Meanwhile, it executes runs of other queues.
func TestPOOL5_AtOnceBoundsTheRunsOfAQueueOnAWorker(t *testing.T) {
	slow := flowtest.AStep[int, int]("limits.slow", shim.Policy{Queue: "slow", Retry: flowtest.Quick})
	fast := flowtest.Flow[int, int]("limits.fast")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var u usage
		free := make(chan struct{})
		w.Work(worker.Config{AtOnce: map[string]int{"slow": 2}}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return slow.Call(ctx, n) }),
			flowtest.As(fast, func(_ workflow.Context, n int) (int, error) { return n, nil }),
			slow.As(func(_ context.Context, n int) (int, error) {
				u.take(1)
				defer u.now.Add(-1)
				<-free
				return n, nil
			}))
		var runs []*workflow.Run[int]
		for n := range 6 {
			runs = append(runs, flowtest.Start(w, renders, n))
		}
		for _, run := range runs {
			w.Reach(run, event.ChildCreated, 1)
		}
		w.Eventually("two of them run", func() bool { return u.now.Load() == 2 })
		if got := flowtest.Result(w, flowtest.Start(w, fast, 9)); got != 9 {
			t.Errorf("got %d", got)
		}
		close(free)
		for n, run := range runs {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("run %d: got %d", n, got)
			}
		}
		if most := u.most.Load(); most != 2 {
			t.Errorf("%d runs of the queue were under way at once, want 2", most)
		}
	})
}
