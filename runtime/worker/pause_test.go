package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// order is a command for a run.
func order(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRUN12_APausedRunFinishesItsStepAndRunsNoCodeUntilItIsResumed(t *testing.T) {
	twice := flow[int, []string]("twice")
	onEveryStore(t, func(t *testing.T, w *world) {
		begun, release := make(chan int, 2), make(chan struct{})
		w.work(worker.Config{}, work1.as(func(_ context.Context, n int) (int, error) {
			begun <- n
			<-release
			return n, nil
		}), as(twice, func(ctx workflow.Context, _ int) ([]string, error) {
			var all []string
			heard := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return wake.Receive(ctx) })
			for n := range 2 {
				if _, err := work1.Call(ctx, n); err != nil {
					return nil, err
				}
				all = append(all, "step")
			}
			word, err := heard.Get(ctx)
			return append(all, word), err
		}))
		run := start(w, twice, 0)
		<-begun
		order(t, run.Pause(w.ctx))
		order(t, run.Pause(w.ctx))
		w.reach(run, event.RunPaused, 1)
		close(release)
		w.reach(run, event.StepCompleted, 1) // its result is kept
		order(t, wake.Send(w.ctx, run, "heard"))
		w.reach(run, event.MessageReceived, 1)
		w.status(run, workflow.StatusPaused)
		w.eventually("the run is parked without a due time", func() bool {
			l := w.record(run)
			return l.Place == store.PlaceParked && l.Due.IsZero()
		})
		log := w.log(run)
		if n := len(filter(log, event.StepCreated)); n != 1 || len(filter(log, event.RunPaused)) != 1 {
			t.Errorf("the log of the paused run is %v", types(log))
		}
		order(t, run.Resume(w.ctx))
		if err := run.Resume(w.ctx); err != nil && !errors.Is(err, workflow.ErrRunTerminal) { // the run may have gone on to its end
			t.Errorf("resume again: %v", err)
		}
		if diff := cmp.Diff([]string{"step", "step", "heard"}, result(w, run)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if err := run.Pause(w.ctx); !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("pause of a finished run: %v", err)
		}
	})
}

func TestRUN12_TimersThatFellDueFireAtResumeInOrderBehindWhatCameBefore(t *testing.T) {
	timers := flow[int, []string]("timers")
	w := newVirtual(t)
	w.work(worker.Config{}, as(timers, func(ctx workflow.Context, _ int) ([]string, error) {
		var all []string
		nap := func(name string, d time.Duration) *workflow.Future[workflow.None] {
			return workflow.GoErr(ctx, func(ctx workflow.Context) error {
				err := workflow.Sleep(ctx, d)
				all = append(all, name)
				return err
			})
		}
		late, early := nap("late", 2*time.Hour), nap("early", time.Hour)
		word, err := wake.Receive(ctx, workflow.Timeout(30*time.Minute))
		if err != nil {
			word = "timed out"
		}
		all = append(all, word)
		_, err = workflow.All(ctx, late, early)
		return all, err
	}))
	run := start(w, timers, 0)
	w.reach(run, event.WaitCreated, 3)
	order(t, run.Pause(w.ctx))
	w.reach(run, event.RunPaused, 1)
	w.clock.Advance(3 * time.Hour)
	order(t, wake.Send(w.ctx, run, "message"))
	w.reach(run, event.MessageReceived, 1)
	if n := len(filter(w.log(run), event.WaitCompleted)); n != 0 {
		t.Errorf("%d timers fired while the run was paused", n)
	}
	order(t, run.Resume(w.ctx))
	if diff := cmp.Diff([]string{"message", "early", "late"}, result(w, run)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestRUN12_ACancelEndsThePauseAndTheRunCleansUp(t *testing.T) {
	cleans := flow[int, int]("cleans")
	onEachStore(t, func(t *testing.T, w *world) {
		var cleaned seen[int]
		w.work(worker.Config{}, noting(&cleaned), as(cleans, func(ctx workflow.Context, _ int) (int, error) {
			defer func() { _, _ = work1.Call(workflow.Detached(ctx), 7) }()
			return 0, workflow.Sleep(ctx, time.Hour)
		}))
		run := start(w, cleans, 0)
		w.reach(run, event.WaitCreated, 1)
		order(t, run.Pause(w.ctx))
		w.reach(run, event.RunPaused, 1)
		order(t, run.Cancel(w.ctx, "enough"))
		if err := failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]int{7}, cleaned.get()); diff != "" {
			t.Errorf("cleaned up (-want +got):\n%s", diff)
		}
	})
}

func TestRUN12_ARunThatIsPausedBeforeItBeginsStaysThere(t *testing.T) {
	w := newMemory(t)
	run := start(w, parker, "")
	order(t, run.Pause(w.ctx))
	w.work(worker.Config{}, parks)
	w.status(run, workflow.StatusPaused)
	order(t, wake.Send(w.ctx, run, "x"))
	w.reach(run, event.MessageReceived, 1)
	if n := len(filter(w.log(run), event.RunStarted)); n != 0 {
		t.Error("it was started")
	}
	order(t, run.Resume(w.ctx))
	if got := result(w, run); got != "x" {
		t.Errorf("got %q", got)
	}
}

// The pause outlives the workers: the log of a paused run is cut behind each event.
func TestRUN12_KilledAnywhereThePauseHoldsAndNothingIsLost(t *testing.T) {
	pausing := flow[int, []string]("pausing")
	code := as(pausing, func(ctx workflow.Context, _ int) ([]string, error) {
		var all []string
		for range 2 {
			word, err := wake.Receive(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := work1.Call(ctx, len(all)); err != nil {
				return nil, err
			}
			all = append(all, word)
		}
		return all, nil
	})
	w := newMemory(t)
	var got seen[int]
	first := w.work(worker.Config{}, noting(&got), code)
	run := start(w, pausing, 0)
	w.reach(run, event.WaitCreated, 1)
	order(t, run.Pause(w.ctx))
	w.reach(run, event.RunPaused, 1)
	for _, word := range []string{"one", "two"} {
		order(t, wake.Send(w.ctx, run, word))
	}
	w.reach(run, event.MessageReceived, 2)
	order(t, run.Resume(w.ctx))
	want := result(w, run)
	log := w.log(run)
	first.stop()
	for cut := 5; cut < len(log); cut++ {
		second := w.work(worker.Config{}, noting(&got), code)
		again := afterCrash(w, pausing, log[:cut])
		words := []string{"one", "two"}
		for _, word := range words[len(filter(log[:cut], event.MessageReceived)):] {
			order(t, wake.Send(w.ctx, again, word))
		}
		if len(filter(log[:cut], event.RunResumed)) == 0 {
			w.reach(again, event.MessageReceived, 2)
			w.status(again, workflow.StatusPaused)
			order(t, again.Resume(w.ctx))
		}
		if diff := cmp.Diff(want, result(w, again)); diff != "" {
			t.Errorf("cut behind event %d: result (-want +got):\n%s", cut, diff)
		}
		second.stop()
	}
}

// operations counts what the code has asked for.
func operations(log []event.Event) int {
	return len(filter(log, event.StepCreated, event.WaitCreated, event.ValueRecorded))
}

func TestRUN12_InDebugModeEachStepCommandDoesOneOperation(t *testing.T) {
	debugged := flow[int, []int]("debugged")
	onEveryStore(t, func(t *testing.T, w *world) {
		var got seen[int]
		w.work(worker.Config{}, noting(&got), as(debugged, func(ctx workflow.Context, _ int) ([]int, error) {
			all, err := workflow.Map(ctx, []int{0, 1, 2}, work1.Call)
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
				if _, err := work1.Call(ctx, 10+n); err != nil {
					return nil, err
				}
			}
			return all, nil
		}))
		run := start(w, debugged, 0, workflow.WithDebug())
		w.status(run, workflow.StatusPaused)
		for n := range 6 {
			w.eventually("the run stands still", func() bool {
				return w.record(run).Place == store.PlaceParked && operations(w.log(run)) == n && w.record(run).Due.IsZero()
			})
			w.status(run, workflow.StatusPaused)
			order(t, run.Step(w.ctx))
		}
		w.eventually("the sixth operation is done", func() bool { return got.len() == 4 })
		order(t, run.Resume(w.ctx))
		if diff := cmp.Diff([]int{0, 1, 2}, result(w, run)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 10, 11}, got.get()); diff != "" {
			t.Errorf("executed (-want +got):\n%s", diff)
		}
	})
}

func TestRUN12_TwoStepCommandsAllowTwoOperationsAndPauseTakesThemBack(t *testing.T) {
	many := flow[int, int]("many")
	w := newMemory(t)
	var got seen[int]
	w.work(worker.Config{}, noting(&got), as(many, func(ctx workflow.Context, _ int) (int, error) {
		for n := range 4 {
			if n == 2 {
				if _, err := wake.Receive(ctx); err != nil {
					return 0, err
				}
			}
			if _, err := work1.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return 4, nil
	}))
	run := start(w, many, 0, workflow.WithDebug())
	order(t, run.Step(w.ctx))
	order(t, run.Step(w.ctx))
	w.eventually("two steps were done", func() bool { return got.len() == 2 })
	w.status(run, workflow.StatusPaused)
	for range 3 { // the receive, and two that are not used before the pause
		order(t, run.Step(w.ctx))
	}
	w.reach(run, event.WaitCreated, 1)
	order(t, run.Pause(w.ctx))
	order(t, wake.Send(w.ctx, run, "go"))
	w.reach(run, event.MessageReceived, 1)
	order(t, run.Step(w.ctx)) // ends the pause, and allows one
	w.eventually("the third step was done", func() bool { return got.len() == 3 })
	w.status(run, workflow.StatusPaused)
	if n := len(filter(w.log(run), event.StepCreated)); n != 3 {
		t.Errorf("%d steps were created, want 3", n)
	}
	order(t, run.Resume(w.ctx))
	if got := result(w, run); got != 4 {
		t.Errorf("got %d", got)
	}
}

func TestRUN12_ACancelLetsADebuggedRunEnd(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, parks)
	run := start(w, parker, "", workflow.WithDebug())
	w.status(run, workflow.StatusPaused)
	order(t, run.Cancel(w.ctx, "seen enough"))
	if err := failure(w, run); err.Status != workflow.StatusCanceled {
		t.Errorf("got %v", err)
	}
	if n := operations(w.log(run)); n != 0 {
		t.Errorf("%d operations were begun", n)
	}
}

func TestRUN12_StepNeedsDebugMode(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, parks)
	run := start(w, parker, "")
	if err := run.Step(w.ctx); !errors.Is(err, workflow.ErrNotDebug) {
		t.Errorf("got %v", err)
	}
}

func TestRUN12_ADebuggedRunThatContinuesKeepsItsMode(t *testing.T) {
	loops := flow[int, int]("loops")
	loopsAgain := flow[int, int]("loops")
	w := newMemory(t)
	w.work(worker.Config{}, as(loops, func(ctx workflow.Context, n int) (int, error) {
		if _, err := wake.Receive(ctx); err != nil || n == 1 {
			return n, err
		}
		return 0, loopsAgain.ContinueAsNew(ctx, n+1)
	}))
	for _, free := range []bool{false, true} {
		run := start(w, loops, 0, workflow.WithDebug())
		if free {
			order(t, run.Resume(w.ctx))
		} else {
			order(t, run.Step(w.ctx))
		}
		order(t, wake.Send(w.ctx, run, "first"))
		next := w.client.Run(w.reach(run, event.RunContinued, 1).Next)
		order(t, wake.Send(w.ctx, next, "second"))
		if !free {
			w.reach(next, event.MessageReceived, 1)
			w.status(next, workflow.StatusPaused)
			order(t, next.Step(w.ctx))
		}
		if got := result(w, run); got != 1 {
			t.Errorf("got %d", got)
		}
	}
}

func TestRUN12_AnInterruptedStepBeginsAgainOnlyWhenTheRunIsResumed(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		begun := make(chan int, 10)
		first := w.work(worker.Config{Grace: time.Nanosecond}, calls, work1.as(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			return 0, ctx.Err()
		}))
		run := start(w, one, 4)
		<-begun
		order(t, run.Pause(w.ctx))
		w.reach(run, event.RunPaused, 1)
		first.stop()
		w.work(worker.Config{}, calls, work1.as(func(_ context.Context, n int) (int, error) {
			begun <- n
			return n, nil
		}))
		w.eventually("the run is parked", func() bool { return w.record(run).Place == store.PlaceParked })
		w.status(run, workflow.StatusPaused)
		if len(begun) != 0 {
			t.Error("the step was executed while the run was paused")
		}
		order(t, run.Resume(w.ctx))
		if got := result(w, run); got != 4 {
			t.Errorf("got %d", got)
		}
	})
}
