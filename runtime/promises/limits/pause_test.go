package limits_test

import (
	"context"
	"errors"
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

var (
	lathe  = limit.New("test.lathe", limit.Config{AtOnce: 1})
	hourly = limit.New("test.hourly.pause", limit.Config{AtOnce: 1, Rate: 1, Burst: 1, Per: time.Hour})
)

// permitsHeld returns the held weight of a limit.
func permitsHeld(w *flowtest.World, name string) int {
	w.T.Helper()
	all, err := ops.New(w.Client).Limits().List(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, l := range all {
		if l.Name == name {
			return l.Held
		}
	}
	return 0
}

// stepRunOf waits until the run that executes the only step of a run exists, and returns it.
func stepRunOf(w *flowtest.World, run flowtest.Follows) *workflow.Handle {
	w.T.Helper()
	step := w.Client.Run(w.Reach(run, event.ChildCreated, 1).Next)
	w.Eventually("the run of the step is there", func() bool {
		_, err := step.Info(w.Ctx)
		return err == nil
	})
	return step
}

// TestRUN12_APausedRunBeginsNoAttemptOfAStepThatARunOfItsOwnExecutes proves that no attempt begins
// after the run that executes a step has recorded the pause of its caller, even if a backoff ends.
// Before the pause, the step is retried again and again. After the resume, it continues.
func TestRUN12_APausedRunBeginsNoAttemptOfAStepThatARunOfItsOwnExecutes(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy shim.Policy
	}{
		{"uses", shim.Policy{Uses: shim.Uses(func(flowtest.StepArgs[int]) []limit.Use { return []limit.Use{gpu.Use(1)} })}},
		{"queue", shim.Policy{Queue: "elsewhere"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policy.Retry = workflow.RetryPolicy{Attempts: 1000, Initial: time.Millisecond, Max: time.Millisecond}
			tries := flowtest.AStep[int, int]("limits.tries."+c.name, c.policy)
			flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
				var good atomic.Bool
				w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
					return tries.Call(ctx, n)
				}), tries.As(func(_ context.Context, n int) (int, error) {
					if good.Load() {
						return n, nil
					}
					return 0, errors.New("not yet")
				}))
				run := flowtest.Start(w, renders, 7)
				step := stepRunOf(w, run)
				w.Reach(step, event.StepRetrying, 2)
				flowtest.Order(t, run.Pause(w.Ctx))
				w.Reach(step, event.RunPaused, 1)
				good.Store(true)
				w.Eventually("the run of the step is parked", func() bool {
					r := w.Record(step)
					return r.QueueState == store.StateParked && r.Due.IsZero() && !r.Permits
				})
				log := w.Log(step)
				for i := range log {
					if log[i].Type == event.RunPaused && len(flowtest.Filter(log[i:], event.StepStarted)) > 0 {
						t.Errorf("an attempt began after event %d, run_paused", log[i].Seq)
					}
				}
				flowtest.Order(t, run.Resume(w.Ctx))
				if got := flowtest.Result(w, run); got != 7 {
					t.Errorf("got %d, want 7", got)
				}
			})
		})
	}
}

// TestRUN12_TheStepOfAPausedRunLetsOthersPassAndKeepsItsPlace proves that a paused step run records
// the pause without a permit. The step waits for a limit behind another step when its run is
// paused. Steps behind it pass it. After the resume, the step has its earlier position.
func TestRUN12_TheStepOfAPausedRunLetsOthersPassAndKeepsItsPlace(t *testing.T) {
	turn := flowtest.AStep[int, int]("limits.turn", using(func(int) []limit.Use { return []limit.Use{lathe.Use(1)} }))
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 10)
		gates := map[int]chan struct{}{1: make(chan struct{}), 3: make(chan struct{})}
		w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
			return turn.Call(ctx, n)
		}), turn.As(func(_ context.Context, n int) (int, error) {
			begun <- n
			if gate := gates[n]; gate != nil {
				<-gate
			}
			return n, nil
		}))
		waiting := func(n int) (*workflow.Run[int], *workflow.Handle) {
			run := flowtest.Start(w, renders, n)
			return run, stepRunOf(w, run)
		}
		first, _ := waiting(1)
		if n := <-begun; n != 1 {
			t.Fatalf("step %d began, want 1", n)
		}
		second, step := waiting(2)
		third, _ := waiting(3)
		flowtest.Order(t, second.Pause(w.Ctx))
		w.Reach(step, event.RunPaused, 1)
		w.Status(step, workflow.StatusPaused)
		close(gates[1])
		if n := <-begun; n != 3 {
			t.Fatalf("step %d began, want 3: the run of step 2 is paused", n)
		}
		flowtest.Result(w, first)
		fourth, _ := waiting(4)
		flowtest.Order(t, second.Resume(w.Ctx))
		w.Eventually("the second step is in line again", func() bool { r := w.Record(step); return r.Waits() })
		close(gates[3])
		for _, want := range []int{2, 4} {
			if n := <-begun; n != want {
				t.Errorf("step %d began, want %d", n, want)
			}
		}
		for n, run := range map[int]*workflow.Run[int]{2: second, 3: third, 4: fourth} {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("run %d: got %d", n, got)
			}
		}
		if n := permitsHeld(w, "test.lathe"); n != 0 {
			t.Errorf("%d permits are held at the end, want none", n)
		}
	})
}

var turns = flowtest.LimitedFlow[int, int]("limits.turns", func(int) []limit.Use { return []limit.Use{lathe.Use(1)} })

// TestRUN12_ARunThatIsPausedInLineHoldsNoPermit proves that a run which is paused while it waits
// for permits holds none. The permits are of a limit that the run would hold until its end.
func TestRUN12_ARunThatIsPausedInLineHoldsNoPermit(t *testing.T) {
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		code := flowtest.As(turns, func(ctx workflow.Context, n int) (int, error) { _, err := flowtest.Wake.Receive(ctx); return n, err })
		w.Work(worker.Config{}, code)
		first := flowtest.Start(w, turns, 1)
		w.Reach(first, event.WaitCreated, 1)
		second, third := flowtest.Start(w, turns, 2), flowtest.Start(w, turns, 3)
		flowtest.Order(t, second.Pause(w.Ctx))
		w.Reach(second, event.RunPaused, 1)
		w.Status(second, workflow.StatusPaused)
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, first, "end"))
		w.Reach(third, event.WaitCreated, 1)
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, second, "early")) // a worker records this message during the pause
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, third, "end"))
		w.Reach(second, event.MessageReceived, 1)
		w.Eventually("no permit is held", func() bool { return permitsHeld(w, "test.lathe") == 0 })
		if n := len(flowtest.Filter(w.Log(second), event.RunStarted)); n != 0 {
			t.Error("the paused run was started")
		}
		fourth := flowtest.Start(w, turns, 4)
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, fourth, "end"))
		flowtest.Order(t, second.Resume(w.Ctx))
		for n, run := range map[int]*workflow.Run[int]{1: first, 2: second, 3: third, 4: fourth} {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("run %d: got %d", n, got)
			}
		}
	})
}

// TestRUN12_ARunThatIsTooHeavyIsPausedUnlessAWorkerHasClaimedItToEndIt proves that a run which uses
// more of its limit than the limit allows can be paused while it waits, and begins once it is
// resumed under a larger limit. A worker that claims such a run does so only to end it. If the
// worker dies, the pause does not keep the next worker from ending the run.
func TestRUN12_ARunThatIsTooHeavyIsPausedUnlessAWorkerHasClaimedItToEndIt(t *testing.T) {
	bulky := limit.New("test.bulky", limit.Config{AtOnce: 2})
	loads := flowtest.LimitedFlow[int, int]("limits.loads", func(int) []limit.Use { return []limit.Use{bulky.Use(2)} })
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		limits := ops.New(w.Client).Limits()
		flowtest.Order(t, limits.Set(w.Ctx, bulky, limit.Config{AtOnce: 2}))
		waits, lost := flowtest.Start(w, loads, 1), flowtest.Start(w, loads, 2)
		flowtest.Order(t, limits.Set(w.Ctx, bulky, limit.Config{AtOnce: 1}))
		flowtest.Order(t, waits.Pause(w.Ctx))
		w.Status(waits, workflow.StatusPaused)
		dead := store.Session{Partition: int(bulky.Use(2).Slot) % w.Store.Partitions(), ID: "dead", Worker: "dead", TTL: time.Minute}
		flowtest.Order(t, w.Store.OpenSession(w.Ctx, dead))
		got, err := w.Store.ClaimRun(w.Ctx, dead.Partition, dead.ID, event.NewToken(), lost.ID())
		if err != nil || !got.LeftQueue {
			t.Fatalf("the claim of the second run: %+v, %v", got, err)
		}
		flowtest.Order(t, w.Store.CloseSession(w.Ctx, dead.Partition, dead.ID))
		flowtest.Order(t, lost.Pause(w.Ctx))
		w.Work(worker.Config{}, flowtest.As(loads, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		if e := flowtest.Failure(w, lost); e.Code != event.CodeOverLimit || len(flowtest.Filter(w.Log(lost), event.RunStarted)) != 0 {
			t.Errorf("the second run ended with %v", e)
		}
		w.Status(waits, workflow.StatusPaused)
		flowtest.Order(t, limits.Set(w.Ctx, bulky, limit.Config{AtOnce: 2}))
		flowtest.Order(t, waits.Resume(w.Ctx))
		if n := flowtest.Result(w, waits); n != 1 {
			t.Errorf("got %d, want 1", n)
		}
		if n := permitsHeld(w, "test.bulky"); n != 0 {
			t.Errorf("%d permits are held at the end, want none", n)
		}
	})
}

// TestPOOL2_ARunThatIsWokenBeforeItBeginsTakesNoPermitAndNoRate proves that a message can wake a
// run whose code may not begin yet, and that the run then uses neither permits nor the rate.
func TestPOOL2_ARunThatIsWokenBeforeItBeginsTakesNoPermitAndNoRate(t *testing.T) {
	paced := flowtest.LimitedFlow[int, int]("limits.paced", func(int) []limit.Use { return []limit.Use{hourly.Use(1)} })
	for name, later := range map[string]workflow.StartOption{"delayed": workflow.WithDelay(time.Hour), "held": workflow.WithHold()} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
				w.Work(worker.Config{}, flowtest.As(paced, func(_ workflow.Context, n int) (int, error) { return n, nil }))
				run := flowtest.Start(w, paced, 1, later)
				flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "early"))
				w.Reach(run, event.MessageReceived, 1)
				w.Eventually("it is parked without a permit", func() bool {
					r := w.Record(run)
					return r.QueueState == store.StateParked && !r.Permits && permitsHeld(w, "test.hourly.pause") == 0
				})
				if got := flowtest.Result(w, flowtest.Start(w, paced, 2)); got != 2 {
					t.Errorf("got %d, want 2", got)
				}
			})
		})
	}
}
