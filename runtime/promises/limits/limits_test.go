package limits_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	gpu      = limit.New("test.gpu", limit.Config{AtOnce: 2})
	disk     = limit.New("test.disk", limit.Config{AtOnce: 3})
	crm      = limit.New("test.crm", limit.Config{Rate: 50, Burst: 1})
	customer = limit.NewKeyed[string]("test.customer", limit.Config{AtOnce: 1})
	tenant   = limit.NewKeyed[string]("test.tenant", limit.Config{AtOnce: 1, Spread: true})
)

func using(f func(n int) []limit.Use) shim.Policy {
	return shim.Policy{Retry: flowtest.Quick, Uses: shim.Uses(func(a flowtest.StepArgs[int]) []limit.Use { return f(a.In) })}
}

// gauge counts concurrent executions: the present number and the maximum.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() func() {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	return func() { g.now.Add(-1) }
}

var renders = flowtest.Flow[int, int]("limits.renders")

func TestPOOL2_AttemptsOfAllWorkersStayBelowTheLimit(t *testing.T) {
	render := flowtest.AStep[int, int]("limits.render", using(func(int) []limit.Use { return []limit.Use{gpu.Use(1)} }))
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var under gauge
		all := make(chan struct{}) // closed when each attempt runs or waits for a permit
		for range 3 {
			w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
				return render.Call(ctx, n)
			}), render.As(func(ctx context.Context, n int) (int, error) {
				defer under.enter()()
				select {
				case <-all:
				case <-ctx.Done():
				}
				return n, ctx.Err()
			}))
		}
		const many = 40
		var runs []*workflow.Run[int]
		for n := range many {
			runs = append(runs, flowtest.Start(w, renders, n))
		}
		w.Eventually("each attempt is under way or waits", func() bool {
			limits, err := ops.New(w.Client).Limits().List(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			waits := 0
			for _, l := range limits {
				waits += l.Waits
			}
			now := int(under.now.Load())
			return now >= 2 && now+waits == many
		})
		close(all)
		for n, run := range runs {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("run %d: got %d", n, got)
			}
		}
		if most := under.most.Load(); most != 2 {
			t.Errorf("%d attempts were under way at once, the limit is 2", most)
		}
	})
}

func TestPOOL3_ClaimsOfSeveralLimitsInAnyOrderDoNotDeadlock(t *testing.T) {
	step := func(name string, uses ...limit.Use) flowtest.StepOf[int, int] {
		return flowtest.AStep[int, int](name, using(func(int) []limit.Use { return uses }))
	}
	both, other := step("limits.both", gpu.Use(1), disk.Use(2)), step("limits.other", disk.Use(1), gpu.Use(2), gpu.Use(1))
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var g, d atomic.Int64
		busy := func(gpus, disks int64) func(context.Context, int) (int, error) {
			return func(_ context.Context, n int) (int, error) {
				if g.Add(gpus) > 2 || d.Add(disks) > 3 {
					t.Error("a limit was exceeded")
				}
				runtime.Gosched() // gives other steps the opportunity to run
				g.Add(-gpus)
				d.Add(-disks)
				return n, nil
			}
		}
		for range 2 {
			w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
				if n%2 == 0 {
					return both.Call(ctx, n)
				}
				return other.Call(ctx, n)
			}), both.As(busy(1, 2)), other.As(busy(2, 1)))
		}
		var runs []*workflow.Run[int]
		for n := range 30 {
			runs = append(runs, flowtest.Start(w, renders, n))
		}
		for _, run := range runs {
			flowtest.Result(w, run)
		}
		all, err := ops.New(w.Client).Limits().List(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			if l.Held != 0 || l.Waits != 0 {
				t.Errorf("limit %s after all runs: %d held, %d waited for", l.Name, l.Held, l.Waits)
			}
		}
	})
}

func TestPOOL2_APermitOfADeadWorkerComesBackWithItsRun(t *testing.T) {
	render := flowtest.AStep[int, int]("limits.dies", using(func(int) []limit.Use { return []limit.Use{gpu.Use(2)} }))
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan struct{}, 10)
		bind := func(f func(context.Context, int) (int, error)) []flowtest.Binding {
			return []flowtest.Binding{flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return render.Call(ctx, n) }), render.As(f)}
		}
		dead := w.Work(worker.Config{Grace: time.Millisecond}, bind(func(ctx context.Context, _ int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})...)
		run := flowtest.Start(w, renders, 7)
		<-begun
		dead.Stop()
		w.Work(worker.Config{}, bind(func(_ context.Context, n int) (int, error) { return n, nil })...)
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
	})
}

func TestPOOL2_OneRunOfACustomerAtATimeFromItsStartToItsEnd(t *testing.T) {
	for name, keyed := range map[string]limit.Keyed[string]{"in one home": customer, "spread": tenant} {
		orders := flowtest.LimitedFlow[int, int]("limits.orders."+name, func(n int) []limit.Use {
			return []limit.Use{keyed.For(fmt.Sprint("customer ", n%3)).Use(1)}
		})
		t.Run(name, func(t *testing.T) {
			flowtest.OnPartitions(t, 4, func(t *testing.T, w *flowtest.World) {
				var under [3]gauge
				nap := flowtest.AStep[int, int]("limits.nap."+name, shim.Policy{})
				for range 2 {
					w.Work(worker.Config{}, flowtest.As(orders, func(ctx workflow.Context, n int) (int, error) {
						if _, err := nap.Call(ctx, n); err != nil {
							return 0, err
						}
						if err := workflow.Sleep(ctx, time.Millisecond); err != nil { // the run keeps its permits while it sleeps
							return 0, err
						}
						return nap.Call(ctx, n)
					}), nap.As(func(_ context.Context, n int) (int, error) {
						defer under[n%3].enter()()
						return n, nil
					}))
				}
				var runs []*workflow.Run[int]
				for n := range 12 {
					runs = append(runs, flowtest.Start(w, orders, n))
				}
				for _, run := range runs {
					flowtest.Result(w, run)
				}
				for i := range under {
					if most := under[i].most.Load(); most != 1 {
						t.Errorf("customer %d: %d at once, want 1", i, most)
					}
				}
			})
		})
	}
}

func TestPOOL3_AWeightAboveTheCapacityIsAnErrorAtOnce(t *testing.T) {
	heavy := flowtest.LimitedFlow[int, int]("limits.heavy", func(n int) []limit.Use { return []limit.Use{gpu.Use(n)} })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(heavy, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		flowtest.Result(w, flowtest.Start(w, heavy, 2)) // after this run, the worker has configured the limit
		_, err := heavy.Start(w.Ctx, w.Client, 3)
		var limited *limit.LimitError
		if !errors.As(err, &limited) || limited.Weight != 3 || limited.AtOnce != 2 {
			t.Errorf("a run that is too heavy: got %v, want a *LimitError of 3 and 2", err)
		}
	})
}

func TestPOOL3_ACanceledWaiterLeavesTheLine(t *testing.T) {
	held := flowtest.LimitedFlow[int, int]("limits.held", func(int) []limit.Use { return []limit.Use{gpu.Use(2)} })
	topic := workflow.NewTopic[int]("go")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(held, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }))
		first := flowtest.Start(w, held, 1)
		w.Eventually("the first has its permit", func() bool {
			info, err := first.Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusWaiting
		})
		second, third := flowtest.Start(w, held, 2), flowtest.Start(w, held, 3)
		info, err := second.Info(w.Ctx)
		if err != nil || len(info.Waits) != 1 || info.Waits[0] != "test.gpu" {
			t.Errorf("the second waits for %q, %v, want test.gpu", info.Waits, err)
		}
		if err := second.Cancel(w.Ctx, "not wanted"); err != nil {
			t.Fatal(err)
		}
		if e := flowtest.Failure(w, second); !errors.Is(e, workflow.ErrCanceled) {
			t.Errorf("the canceled one ended with %v", e)
		}
		for _, run := range []*workflow.Run[int]{first, third} {
			if err := topic.Send(w.Ctx, run, 9); err != nil {
				t.Fatal(err)
			}
			if got := flowtest.Result(w, run); got != 9 {
				t.Errorf("got %d", got)
			}
		}
	})
}

// TestPOOL3_ACanceledStepThatIsRetriedNeedsNoPermits proves that a step that waits for its next
// attempt can be canceled at once. Such a step has no permits. The cancel needs none, although
// another run may hold all permits for a long time.
func TestPOOL3_ACanceledStepThatIsRetriedNeedsNoPermits(t *testing.T) {
	held := flowtest.LimitedFlow[int, int]("limits.holds", func(int) []limit.Use { return []limit.Use{gpu.Use(2)} })
	policy := using(func(int) []limit.Use { return []limit.Use{gpu.Use(2)} })
	policy.Retry = workflow.RetryPolicy{Attempts: 3, Initial: time.Hour}
	fails := flowtest.AStep[int, int]("limits.fails", policy)
	calls := flowtest.Flow[int, int]("limits.callsfailing")
	topic := workflow.NewTopic[int]("go on")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{},
			flowtest.As(held, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }),
			flowtest.As(calls, func(ctx workflow.Context, n int) (int, error) { return fails.Call(ctx, n) }),
			fails.As(func(context.Context, int) (int, error) { return 0, errors.New("not now") }))
		open := func() (runs []workflow.RunInfo) {
			for info, err := range w.Client.List(w.Ctx, workflow.Filter{Internal: true}) {
				flowtest.Order(t, err)
				if info.EndedAt.IsZero() {
					runs = append(runs, info)
				}
			}
			return runs
		}
		run := flowtest.Start(w, calls, 1)
		w.Eventually("the step waits for its next attempt", func() bool {
			for _, info := range open() {
				if info.ID != run.ID() && info.Status == workflow.StatusSleeping {
					return true
				}
			}
			return false
		})
		holder := flowtest.Start(w, held, 1)
		w.Eventually("another run has the permits", func() bool {
			info, err := holder.Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusWaiting
		})
		flowtest.Order(t, run.Cancel(w.Ctx, "not wanted"))
		if e := flowtest.Failure(w, run); !errors.Is(e, workflow.ErrCanceled) {
			t.Errorf("the canceled run ended with %v", e)
		}
		w.Eventually("only the run with the permits has not ended", func() bool {
			left := open()
			return len(left) == 1 && left[0].ID == holder.ID()
		})
		flowtest.Order(t, topic.Send(w.Ctx, holder, 9))
		flowtest.Result(w, holder)
	})
}

func TestPOOL2_ARateHoldsOverAllWorkers(t *testing.T) {
	call := flowtest.AStep[int, time.Time]("limits.call", using(func(int) []limit.Use { return []limit.Use{crm.Use(1)} }))
	calls := flowtest.Flow[int, []time.Time]("limits.calls")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		for range 2 {
			w.Work(worker.Config{}, flowtest.As(calls, func(ctx workflow.Context, n int) ([]time.Time, error) {
				return workflow.Map(ctx, make([]int, n), func(ctx workflow.Context, i int) (time.Time, error) { return call.Call(ctx, i) })
			}), call.As(func(context.Context, int) (time.Time, error) { return time.Now(), nil }))
		}
		begun := time.Now()
		flowtest.Result(w, flowtest.Start(w, calls, 20))
		if took := time.Since(begun); took < 19*20*time.Millisecond {
			t.Errorf("20 calls at 50 per second took %v", took)
		}
	})
}

func TestPOOL2_ALimitThatIsSetAtRunTimeHoldsAtOnceForAllWorkers(t *testing.T) {
	free := limit.New("test.free", limit.Config{})
	step := flowtest.AStep[int, int]("limits.free", using(func(int) []limit.Use { return []limit.Use{free.Use(1)} }))
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		if err := ops.New(w.Client).Limits().Set(w.Ctx, free, limit.Config{AtOnce: 5}); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return step.Call(ctx, n) }),
			step.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		flowtest.Result(w, flowtest.Start(w, renders, 1))
		if err := ops.New(w.Client).Limits().Pause(w.Ctx, free); err != nil {
			t.Fatal(err)
		}
		run := flowtest.Start(w, renders, 2)
		w.Eventually("the step waits", func() bool {
			all, err := ops.New(w.Client).Limits().List(w.Ctx)
			for _, l := range all {
				if l.Name == "test.free" && l.Waits == 1 && l.Paused {
					return err == nil
				}
			}
			return false
		})
		if err := ops.New(w.Client).Limits().Resume(w.Ctx, free); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != 2 {
			t.Errorf("got %d", got)
		}
		if err := ops.New(w.Client).Limits().Reset(w.Ctx, free); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPOOL2_AKeyThatWasPausedAndResumedIsAsAllAre(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		l := ops.New(w.Client).Limits()
		call := func(f func(context.Context, limit.Limit) error, which limit.Limit) {
			t.Helper()
			if err := f(w.Ctx, which); err != nil {
				t.Fatal(err)
			}
		}
		set := func(which limit.Limit, n int) {
			call(func(ctx context.Context, which limit.Limit) error { return l.Set(ctx, which, limit.Config{AtOnce: n}) }, which)
		}
		set(customer.All(), 4)
		set(customer.For("own"), 2)
		for _, key := range []string{"plain", "own"} {
			call(l.Pause, customer.For(key))
			call(l.Resume, customer.For(key))
		}
		set(customer.All(), 9)
		call(l.Pause, customer.All())
		call(l.Resume, customer.For("free")) // the key remains paused, because all keys are paused
		all, err := l.List(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, info := range all {
			got[info.Key] = fmt.Sprintf("%d paused=%t", info.Config.AtOnce, info.Paused)
		}
		if diff := cmp.Diff(map[string]string{"": "9 paused=true", "own": "2 paused=true"}, got); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	})
}

func TestPOOL2_WhoeverRaisesARateDoesNotWaitByTheOldOne(t *testing.T) {
	hourly := limit.New("test.hourly", limit.Config{Rate: 1, Per: time.Hour})
	flow := flowtest.LimitedFlow[int, int]("limits.hourly", func(int) []limit.Use { return []limit.Use{hourly.Use(1)} })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flow, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		flowtest.Result(w, flowtest.Start(w, flow, 1))
		rest := []*workflow.Run[int]{flowtest.Start(w, flow, 2), flowtest.Start(w, flow, 3)}
		w.Eventually("the next one waits for the rate", func() bool {
			info, err := rest[0].Info(w.Ctx)
			return err == nil && len(info.Waits) > 0
		})
		if err := ops.New(w.Client).Limits().Set(w.Ctx, hourly, limit.Config{Rate: 1000}); err != nil {
			t.Fatal(err)
		}
		for i, run := range rest {
			if got := flowtest.Result(w, run); got != i+2 {
				t.Errorf("run %d: got %d", i, got)
			}
		}
	})
}

func TestPOOL2_ALimitThatIsPausedBeforeAnyWorkerIsThereKeepsWhatIsDeclared(t *testing.T) {
	flow := flowtest.LimitedFlow[int, int]("limits.declares", func(int) []limit.Use { return []limit.Use{gpu.Use(1)} })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		l := ops.New(w.Client).Limits()
		if err := l.Pause(w.Ctx, gpu); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, flowtest.As(flow, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		stands := func(paused, set bool) func() bool {
			return func() bool {
				all, err := l.List(w.Ctx)
				i := slices.IndexFunc(all, func(l ops.LimitInfo) bool { return l.Name == gpu.Name() })
				return err == nil && i >= 0 && all[i].Config.AtOnce == 2 && all[i].Paused == paused && all[i].Set == set
			}
		}
		w.Eventually("the paused limit has what a worker declares", stands(true, true))
		if err := l.Resume(w.Ctx, gpu); err != nil {
			t.Fatal(err)
		}
		w.Eventually("nothing is set after the resume", stands(false, false))
	})
}

// TestPOOL2_ALimitThatIsPausedWhileOnlyRunsWaitForItKeepsWhatIsDeclared proves that a pause of a
// limit does not replace the values that workers declare later. At the time of the pause, no worker
// has declared the limit, and only runs that wait for it have made it known. Two limits are paused
// by their variables and one by its name.
func TestPOOL2_ALimitThatIsPausedWhileOnlyRunsWaitForItKeepsWhatIsDeclared(t *testing.T) {
	one := customer.For("a")
	flow := flowtest.LimitedFlow[int, int]("limits.early", func(int) []limit.Use { return []limit.Use{gpu.Use(1), one.Use(1), disk.Use(1)} })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		l := ops.New(w.Client).Limits()
		run := flowtest.Start(w, flow, 1)
		for _, which := range []limit.Limit{gpu, one} {
			if err := l.Pause(w.Ctx, which); err != nil {
				t.Fatal(err)
			}
		}
		limiter, _ := store.As[store.Limiter](w.Store)
		byName := []store.SetLimit{{LimitID: store.LimitID{Name: disk.Name()}, Config: store.LimitConfig{Paused: true}, PauseOnly: true}} // this pause names the limit without its declaration
		if err := limiter.SetLimits(w.Ctx, int(disk.Use(1).Slot)%w.Store.Partitions(), byName); err != nil {
			t.Fatal(err)
		}
		for _, which := range []limit.Limit{gpu, one, disk} {
			if err := l.Resume(w.Ctx, which); err != nil {
				t.Fatal(err)
			}
		}
		w.Work(worker.Config{}, flowtest.As(flow, func(workflow.Context, int) (int, error) { return 1, nil }))
		flowtest.Result(w, run)
		all, err := l.List(w.Ctx)
		got := map[string]int{}
		for _, info := range all {
			if got[info.Name+"/"+info.Key] = info.Config.AtOnce; info.Paused {
				t.Errorf("%+v is paused", info)
			}
		}
		for name, want := range map[string]int{"test.gpu/": 2, "test.customer/": 1, "test.disk/": 3} {
			if err != nil || got[name] != want {
				t.Errorf("%s: got %d at once, %v, want %d", name, got[name], err, want)
			}
		}
	})
}

// TestPOOL2_WhoIsCanceledInLineForTheNextAttemptBeginsNone proves that a canceled step does not
// begin another attempt while it waits for permits. After its first attempt has failed, another run
// has got the permits.
func TestPOOL2_WhoIsCanceledInLineForTheNextAttemptBeginsNone(t *testing.T) {
	held := flowtest.LimitedFlow[int, int]("limits.meanwhile", func(int) []limit.Use { return []limit.Use{gpu.Use(2)} })
	policy := using(func(int) []limit.Use { return []limit.Use{gpu.Use(2)} })
	policy.Retry = workflow.RetryPolicy{Attempts: 1_000, Initial: time.Millisecond}
	fails := flowtest.AStep[int, int]("limits.failsonce", policy)
	calls := flowtest.Flow[int, int]("limits.canceledinline")
	topic := workflow.NewTopic[int]("give it back")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun, fail := make(chan int, 100), make(chan struct{})
		w.Work(worker.Config{},
			flowtest.As(held, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }),
			flowtest.As(calls, func(ctx workflow.Context, n int) (int, error) { return fails.Call(ctx, n) }),
			fails.As(func(ctx context.Context, n int) (int, error) {
				begun <- n
				select {
				case <-fail:
				case <-ctx.Done():
				}
				return 0, errors.New("not yet")
			}))
		waiting := func(what string, weight int) {
			w.Eventually(what, func() bool {
				all, err := ops.New(w.Client).Limits().List(w.Ctx)
				flowtest.Order(t, err)
				return slices.ContainsFunc(all, func(l ops.LimitInfo) bool { return l.Name == gpu.Name() && l.Held == 2 && l.Waits == weight })
			})
		}
		for n := range 10 {
			victim := flowtest.Start(w, calls, n)
			<-begun
			holder := flowtest.Start(w, held, n)
			waiting("the holder waits for the attempt", 2)
			fail <- struct{}{}
			w.Eventually("the holder begins", func() bool {
				select {
				case <-begun: // the next attempt was due before the holder was claimed, so it came first in the queue
					fail <- struct{}{}
				default:
				}
				info, err := holder.Info(w.Ctx)
				return err == nil && info.Status == workflow.StatusWaiting && len(info.Waits) == 0
			})
			waiting("the next attempt waits for the holder", 2)
			if err := victim.Cancel(w.Ctx, "not wanted"); err != nil {
				t.Fatal(err)
			}
			if e := flowtest.Failure(w, victim); !errors.Is(e, workflow.ErrCanceled) {
				t.Errorf("the canceled one ended with %v", e)
			}
			waiting("nobody waits for the holder", 0)
			if len(begun) > 0 {
				t.Fatalf("round %d: an attempt has begun without a permit", n)
			}
			if err := topic.Send(w.Ctx, holder, 9); err != nil {
				t.Fatal(err)
			}
			flowtest.Result(w, holder)
		}
	})
}

func TestPOOL3_AChainOfRunsNeverWaitsForItself(t *testing.T) {
	use := func(int) []limit.Use { return []limit.Use{gpu.Use(2)} }
	outer, inner := flowtest.LimitedFlow[int, int]("limits.outer", use), flowtest.LimitedFlow[int, int]("limits.inner", use)
	render := flowtest.AStep[int, int]("limits.within", using(use))
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{},
			flowtest.As(outer, func(ctx workflow.Context, n int) (int, error) { return inner.Child(ctx, n) }),
			flowtest.As(inner, func(ctx workflow.Context, n int) (int, error) { return render.Call(ctx, n) }),
			render.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		if got := flowtest.Result(w, flowtest.Start(w, outer, 5)); got != 5 {
			t.Errorf("got %d", got)
		}
	})
}

// TestPOOL3_AStepOfARunThatHoldsPermitsPassesWhoWaitsForThem proves that the step of a run that
// holds permits passes steps that wait for the same run. The run holds all of one limit until its
// end, and waits for a step that uses another limit. In the queue of the other limit, steps that
// use both limits come first, but cannot begin before the run ends.
func TestPOOL3_AStepOfARunThatHoldsPermitsPassesWhoWaitsForThem(t *testing.T) {
	holder := flowtest.LimitedFlow[int, int]("limits.holder", func(int) []limit.Use { return []limit.Use{disk.Use(3)} })
	inside := flowtest.AStep[int, int]("limits.inside", using(func(int) []limit.Use { return []limit.Use{gpu.Use(2)} }))
	both := flowtest.AStep[int, int]("limits.both", using(func(int) []limit.Use { return []limit.Use{gpu.Use(1), disk.Use(1)} }))
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		waiting := make(chan struct{})
		echo := func(_ context.Context, n int) (int, error) { return n, nil }
		ready := flowtest.AStep[int, int]("limits.ready", shim.Policy{})
		w.Work(worker.Config{}, flowtest.As(holder, func(ctx workflow.Context, n int) (int, error) {
			if _, err := ready.Call(ctx, n); err != nil {
				return 0, err
			}
			return inside.Call(ctx, n)
		}), ready.As(func(_ context.Context, n int) (int, error) {
			<-waiting
			return n, nil
		}), inside.As(echo), both.As(echo), flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return both.Call(ctx, n) }))
		stands := func() (held, waits int) {
			all, err := ops.New(w.Client).Limits().List(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range all {
				if l.Name == disk.Name() {
					held, waits = l.Held, l.Waits
				}
			}
			return held, waits
		}
		first := flowtest.Start(w, holder, 7)
		w.Eventually("the first holds the disks", func() bool { held, _ := stands(); return held == 3 })
		others := []*workflow.Run[int]{flowtest.Start(w, renders, 1), flowtest.Start(w, renders, 2)}
		w.Eventually("the others wait for it", func() bool { _, waits := stands(); return waits == 2 })
		close(waiting)
		for i, run := range append(others, first) {
			if got := flowtest.Result(w, run); got != []int{1, 2, 7}[i] {
				t.Errorf("run %d: got %d", i, got)
			}
		}
	})
}
