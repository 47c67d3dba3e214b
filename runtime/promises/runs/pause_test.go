package runs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN12_APausedRunFinishesItsStepAndRunsNoCodeUntilItIsResumed(t *testing.T) {
	twice := flowtest.Flow[int, []string]("twice")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun, release := make(chan int, 2), make(chan struct{})
		w.Work(worker.Config{}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
			begun <- n
			<-release
			return n, nil
		}), flowtest.As(twice, func(ctx workflow.Context, _ int) ([]string, error) {
			var all []string
			heard := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return flowtest.Wake.Receive(ctx) })
			for n := range 2 {
				if _, err := flowtest.Work1.Call(ctx, n); err != nil {
					return nil, err
				}
				all = append(all, "step")
			}
			word, err := heard.Get(ctx)
			return append(all, word), err
		}))
		run := flowtest.Start(w, twice, 0)
		<-begun
		flowtest.Order(t, run.Pause(w.Ctx))
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Reach(run, event.RunPaused, 1)
		close(release)
		w.Reach(run, event.StepCompleted, 1) // the result of the step is recorded during the pause
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "heard"))
		w.Reach(run, event.MessageReceived, 1)
		w.Status(run, workflow.StatusPaused)
		w.Eventually("the run is parked without a due time", func() bool {
			l := w.Record(run)
			return l.QueueState == store.StateParked && l.Due.IsZero()
		})
		log := w.Log(run)
		if n := len(flowtest.Filter(log, event.StepCreated)); n != 1 || len(flowtest.Filter(log, event.RunPaused)) != 1 {
			t.Errorf("the log of the paused run is %v", types(log))
		}
		flowtest.Order(t, run.Resume(w.Ctx))
		if err := run.Resume(w.Ctx); err != nil && !errors.Is(err, workflow.ErrRunTerminal) { // the first resume may have ended the run
			t.Errorf("resume again: %v", err)
		}
		if diff := cmp.Diff([]string{"step", "step", "heard"}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if err := run.Pause(w.Ctx); !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("pause of a finished run: %v", err)
		}
	})
}

// TestRUN12_APausedRunBeginsNoStepThatWaitsForASlot proves that a paused run does not begin a step
// that has waited for the only slot of its worker. When the slot becomes free, the step does not
// take it. The parked run uses no capacity of the worker.
func TestRUN12_APausedRunBeginsNoStepThatWaitsForASlot(t *testing.T) {
	both := flowtest.Flow[int, int]("both")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		begun, release := make(chan int, 2), make(chan struct{})
		w.Work(worker.Config{Concurrency: 1}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
			begun <- n
			<-release
			return n, nil
		}), flowtest.As(both, func(ctx workflow.Context, _ int) (int, error) {
			first := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Work1.Call(ctx, 1) })
			second, err := flowtest.Work1.Call(ctx, 2)
			if err != nil {
				return 0, err
			}
			n, err := first.Get(ctx)
			return n + second, err
		}))
		run := flowtest.Start(w, both, 0)
		<-begun
		w.Reach(run, event.StepCreated, 2)
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Reach(run, event.RunPaused, 1)
		close(release)
		w.Reach(run, event.StepCompleted, 1)
		w.Eventually("the run is parked without a due time", func() bool {
			r := w.Record(run)
			return r.QueueState == store.StateParked && r.Due.IsZero()
		})
		if n := len(flowtest.Filter(w.Log(run), event.StepStarted)); n != 1 || len(begun) != 0 {
			t.Errorf("%d steps were started while the run was paused or before, want 1", n)
		}
		flowtest.Order(t, run.Resume(w.Ctx))
		if got := flowtest.Result(w, run); got != 3 {
			t.Errorf("got %d, want 3", got)
		}
	})
}

func TestRUN12_TimersThatFellDueFireAtResumeInOrderBehindWhatCameBefore(t *testing.T) {
	timers := flowtest.Flow[int, []string]("timers")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.As(timers, func(ctx workflow.Context, _ int) ([]string, error) {
		var all []string
		nap := func(name string, d time.Duration) *workflow.Future[workflow.None] {
			return workflow.GoErr(ctx, func(ctx workflow.Context) error {
				err := workflow.Sleep(ctx, d)
				all = append(all, name)
				return err
			})
		}
		late, early := nap("late", 2*time.Hour), nap("early", time.Hour)
		word, err := flowtest.Wake.Receive(ctx, workflow.Timeout(30*time.Minute))
		if err != nil {
			word = "timed out"
		}
		all = append(all, word)
		_, err = workflow.All(ctx, late, early)
		return all, err
	}))
	run := flowtest.Start(w, timers, 0)
	w.Reach(run, event.WaitCreated, 3)
	flowtest.Order(t, run.Pause(w.Ctx))
	w.Reach(run, event.RunPaused, 1)
	w.Clock.Advance(3 * time.Hour)
	flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "message"))
	w.Reach(run, event.MessageReceived, 1)
	if n := len(flowtest.Filter(w.Log(run), event.WaitCompleted)); n != 0 {
		t.Errorf("%d timers fired while the run was paused", n)
	}
	flowtest.Order(t, run.Resume(w.Ctx))
	if diff := cmp.Diff([]string{"message", "early", "late"}, flowtest.Result(w, run)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestRUN12_ACancelEndsThePauseAndTheRunCleansUp(t *testing.T) {
	cleans := flowtest.Flow[int, int]("cleans")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var cleaned flowtest.Seen[int]
		w.Work(worker.Config{}, flowtest.Noting(&cleaned), flowtest.As(cleans, func(ctx workflow.Context, _ int) (int, error) {
			defer func() { _, _ = flowtest.Work1.Call(workflow.Detached(ctx), 7) }()
			return 0, workflow.Sleep(ctx, time.Hour)
		}))
		run := flowtest.Start(w, cleans, 0)
		w.Reach(run, event.WaitCreated, 1)
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Reach(run, event.RunPaused, 1)
		flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]int{7}, cleaned.Get()); diff != "" {
			t.Errorf("cleaned up (-want +got):\n%s", diff)
		}
	})
}

func TestRUN12_ARunThatIsPausedBeforeItBeginsStaysThere(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Parker, "")
	flowtest.Order(t, run.Pause(w.Ctx))
	w.Work(worker.Config{}, flowtest.Parks)
	w.Status(run, workflow.StatusPaused)
	flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "x"))
	w.Reach(run, event.MessageReceived, 1)
	if n := len(flowtest.Filter(w.Log(run), event.RunStarted)); n != 0 {
		t.Error("it was started")
	}
	flowtest.Order(t, run.Resume(w.Ctx))
	if got := flowtest.Result(w, run); got != "x" {
		t.Errorf("got %q", got)
	}
}

// TestRUN12_KilledAnywhereThePauseHoldsAndNothingIsLost proves that a pause and all messages
// survive a crash. It cuts the log of a paused run after each event and continues from there.
func TestRUN12_KilledAnywhereThePauseHoldsAndNothingIsLost(t *testing.T) {
	pausing := flowtest.Flow[int, []string]("pausing")
	code := flowtest.As(pausing, func(ctx workflow.Context, _ int) ([]string, error) {
		var all []string
		for range 2 {
			word, err := flowtest.Wake.Receive(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := flowtest.Work1.Call(ctx, len(all)); err != nil {
				return nil, err
			}
			all = append(all, word)
		}
		return all, nil
	})
	w := flowtest.NewMemory(t)
	var got flowtest.Seen[int]
	first := w.Work(worker.Config{}, flowtest.Noting(&got), code)
	run := flowtest.Start(w, pausing, 0)
	w.Reach(run, event.WaitCreated, 1)
	flowtest.Order(t, run.Pause(w.Ctx))
	w.Reach(run, event.RunPaused, 1)
	for _, word := range []string{"one", "two"} {
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, word))
	}
	w.Reach(run, event.MessageReceived, 2)
	flowtest.Order(t, run.Resume(w.Ctx))
	want := flowtest.Result(w, run)
	log := w.Log(run)
	first.Stop()
	for cut := 5; cut < len(log); cut++ {
		second := w.Work(worker.Config{}, flowtest.Noting(&got), code)
		again := flowtest.AfterCrash(w, pausing, log[:cut])
		words := []string{"one", "two"}
		for _, word := range words[len(flowtest.Filter(log[:cut], event.MessageReceived)):] {
			flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, word))
		}
		if len(flowtest.Filter(log[:cut], event.RunResumed)) == 0 {
			w.Reach(again, event.MessageReceived, 2)
			w.Status(again, workflow.StatusPaused)
			flowtest.Order(t, again.Resume(w.Ctx))
		}
		if diff := cmp.Diff(want, flowtest.Result(w, again)); diff != "" {
			t.Errorf("cut behind event %d: result (-want +got):\n%s", cut, diff)
		}
		second.Stop()
	}
}

// operations returns the number of operations that the code has begun.
func operations(log []event.Event) int {
	return len(flowtest.Filter(log, event.StepCreated, event.WaitCreated, event.ValueRecorded))
}

func TestRUN12_InDebugModeEachStepCommandDoesOneOperation(t *testing.T) {
	debugged := flowtest.Flow[int, []int]("debugged")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var got flowtest.Seen[int]
		w.Work(worker.Config{}, flowtest.Noting(&got), flowtest.As(debugged, func(ctx workflow.Context, _ int) ([]int, error) {
			all, err := workflow.Map(ctx, []int{0, 1, 2}, flowtest.Work1.Call)
			if err != nil {
				return nil, err
			}
			if _, err := workflow.Record(ctx, func() (int, error) { return 3, nil }); err != nil {
				return nil, err
			}
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return nil, err
			}
			for n := range 2 {
				if _, err := flowtest.Work1.Call(ctx, 10+n); err != nil {
					return nil, err
				}
			}
			return all, nil
		}))
		run := flowtest.Start(w, debugged, 0, workflow.WithDebug())
		w.Status(run, workflow.StatusPaused)
		for n := range 6 {
			w.Eventually("the run stands still", func() bool {
				return w.Record(run).QueueState == store.StateParked && operations(w.Log(run)) == n && w.Record(run).Due.IsZero()
			})
			w.Status(run, workflow.StatusPaused)
			flowtest.Order(t, run.Step(w.Ctx))
		}
		w.Eventually("the sixth operation is done", func() bool { return got.Len() == 4 })
		flowtest.Order(t, run.Resume(w.Ctx))
		if diff := cmp.Diff([]int{0, 1, 2}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 10, 11}, got.Get()); diff != "" {
			t.Errorf("executed (-want +got):\n%s", diff)
		}
	})
}

func TestRUN12_TwoStepCommandsAllowTwoOperationsAndPauseTakesThemBack(t *testing.T) {
	many := flowtest.Flow[int, int]("many")
	w := flowtest.NewMemory(t)
	var got flowtest.Seen[int]
	w.Work(worker.Config{}, flowtest.Noting(&got), flowtest.As(many, func(ctx workflow.Context, _ int) (int, error) {
		for n := range 4 {
			if n == 2 {
				if _, err := flowtest.Wake.Receive(ctx); err != nil {
					return 0, err
				}
			}
			if _, err := flowtest.Work1.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return 4, nil
	}))
	run := flowtest.Start(w, many, 0, workflow.WithDebug())
	flowtest.Order(t, run.Step(w.Ctx))
	flowtest.Order(t, run.Step(w.Ctx))
	w.Eventually("two steps were done", func() bool { return got.Len() == 2 })
	w.Status(run, workflow.StatusPaused)
	for range 3 { // one for the receive, and two that the pause discards
		flowtest.Order(t, run.Step(w.Ctx))
	}
	w.Reach(run, event.WaitCreated, 1)
	flowtest.Order(t, run.Pause(w.Ctx))
	flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "go"))
	w.Reach(run, event.MessageReceived, 1)
	flowtest.Order(t, run.Step(w.Ctx)) // ends the pause and permits one operation
	w.Eventually("the third step was done", func() bool { return got.Len() == 3 })
	w.Status(run, workflow.StatusPaused)
	if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n != 3 {
		t.Errorf("%d steps were created, want 3", n)
	}
	flowtest.Order(t, run.Resume(w.Ctx))
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("got %d", got)
	}
}

func TestRUN12_ACancelLetsADebuggedRunEnd(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Parks)
	run := flowtest.Start(w, flowtest.Parker, "", workflow.WithDebug())
	w.Status(run, workflow.StatusPaused)
	flowtest.Order(t, run.Cancel(w.Ctx, "seen enough"))
	if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
		t.Errorf("got %v", err)
	}
	if n := operations(w.Log(run)); n != 0 {
		t.Errorf("%d operations were begun", n)
	}
}

func TestRUN12_StepNeedsDebugMode(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Parks)
	run := flowtest.Start(w, flowtest.Parker, "")
	if err := run.Step(w.Ctx); !errors.Is(err, workflow.ErrNotDebug) {
		t.Errorf("got %v", err)
	}
}

func TestRUN12_ADebuggedRunThatContinuesKeepsItsMode(t *testing.T) {
	loops := flowtest.Flow[int, int]("loops")
	loopsAgain := flowtest.Flow[int, int]("loops")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(loops, func(ctx workflow.Context, n int) (int, error) {
		if _, err := flowtest.Wake.Receive(ctx); err != nil || n == 1 {
			return n, err
		}
		return 0, loopsAgain.ContinueAsNew(ctx, n+1)
	}))
	for _, free := range []bool{false, true} {
		run := flowtest.Start(w, loops, 0, workflow.WithDebug())
		if free {
			flowtest.Order(t, run.Resume(w.Ctx))
		} else {
			flowtest.Order(t, run.Step(w.Ctx))
		}
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "first"))
		next := w.Client.Run(w.Reach(run, event.RunContinued, 1).Next)
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, next, "second"))
		if !free {
			w.Reach(next, event.MessageReceived, 1)
			w.Status(next, workflow.StatusPaused)
			flowtest.Order(t, next.Step(w.Ctx))
		}
		if got := flowtest.Result(w, run); got != 1 {
			t.Errorf("got %d", got)
		}
	}
}

func TestRUN12_AnInterruptedStepBeginsAgainOnlyWhenTheRunIsResumed(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 10)
		first := w.Work(worker.Config{Grace: time.Nanosecond}, flowtest.Calls, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			return 0, ctx.Err()
		}))
		run := flowtest.Start(w, flowtest.One, 4)
		<-begun
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Reach(run, event.RunPaused, 1)
		first.Stop()
		w.Work(worker.Config{}, flowtest.Calls, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
			begun <- n
			return n, nil
		}))
		w.Eventually("the run is parked", func() bool { return w.Record(run).QueueState == store.StateParked })
		w.Status(run, workflow.StatusPaused)
		if len(begun) != 0 {
			t.Error("the step was executed while the run was paused")
		}
		flowtest.Order(t, run.Resume(w.Ctx))
		if got := flowtest.Result(w, run); got != 4 {
			t.Errorf("got %d", got)
		}
	})
}

func TestRUN12_APauseIsRefusedOnceTheRunWasAskedToEnd(t *testing.T) {
	cleans := flowtest.Flow[int, int]("cleans")
	w := flowtest.NewMemory(t)
	begun, release := make(chan int, 1), make(chan struct{})
	w.Work(worker.Config{}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
		begun <- n
		<-release
		return n, nil
	}), flowtest.As(cleans, func(ctx workflow.Context, _ int) (int, error) {
		defer func() { _, _ = flowtest.Work1.Call(workflow.Detached(ctx), 7) }()
		return 0, workflow.Sleep(ctx, time.Hour)
	}))
	run := flowtest.Start(w, cleans, 0)
	w.Reach(run, event.WaitCreated, 1)
	flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
	<-begun
	var refused *workflow.StatusError
	if err := run.Pause(w.Ctx); !errors.As(err, &refused) {
		t.Errorf("pause of a run that cleans up: got %v, want a *StatusError", err)
	}
	close(release)
	if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
		t.Errorf("got %v", err)
	}
}
