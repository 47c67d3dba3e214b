package runs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// made is the result of the workflow of these tests. It contains the values that the workflow has
// received and produced.
type made struct {
	Steps []int    `json:"steps"`
	Words []string `json:"words"`
	IDs   []string `json:"ids"`
}

var makes = flowtest.Flow[int, made]("makes")

// making is a workflow with three steps. Between the steps it draws random numbers and receives
// messages. Then it records a value and sleeps.
func making(ctx workflow.Context, _ int) (made, error) {
	var m made
	for n := range 3 {
		m.IDs = append(m.IDs, workflow.UUID(ctx))
		got, err := flowtest.Work1.Call(ctx, n)
		if err != nil {
			return m, fmt.Errorf("step %d: %w", n, err)
		}
		m.Steps = append(m.Steps, got)
		word, err := flowtest.Wake.Receive(ctx)
		if err != nil {
			return m, err
		}
		m.Words = append(m.Words, word)
	}
	id, err := workflow.Record(ctx, func() (string, error) { return "recorded", nil })
	m.IDs = append(m.IDs, id)
	return m, errors.Join(err, workflow.Sleep(ctx, time.Millisecond))
}

func words(t *testing.T, w *flowtest.World, to workflow.Target, all ...string) {
	t.Helper()
	for _, word := range all {
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, to, word))
	}
}

func resumedFrom(w *flowtest.World, run flowtest.Follows) workflow.RunID {
	return w.Log(run)[0].Spec.RerunOf
}

func TestRUN10_AResumedRunCarriesOverWhatACancelledOneHadDone(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[int]
		first := w.Work(worker.Config{}, flowtest.Noting(&executed), flowtest.As(makes, making))
		run := flowtest.Start(w, makes, 0, workflow.WithID("made"), workflow.WithTags(map[string]string{"k": "v"}))
		words(t, w, run, "a")
		w.Reach(run, event.StepCompleted, 2)
		w.Reach(run, event.WaitCreated, 1)
		if _, err := run.RetryCanceled(w.Ctx); !isStatusError(err) {
			t.Errorf("resume of a live run: %v", err)
		}
		flowtest.Order(t, run.Cancel(w.Ctx, "by mistake"))
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Fatalf("got %v", err)
		}
		if _, err := run.Retry(w.Ctx); !isStatusError(err) {
			t.Errorf("retry of a cancelled run: %v", err)
		}
		again, err := run.RetryCanceled(w.Ctx)
		flowtest.Order(t, err)
		twice, err := run.RetryCanceled(w.Ctx)
		flowtest.Order(t, err)
		if again.ID() == run.ID() || twice.ID() != again.ID() || resumedFrom(w, again) != run.ID() {
			t.Errorf("new runs %s and %s of %s, resumed from %s", again.ID(), twice.ID(), run.ID(), resumedFrom(w, again))
		}
		words(t, w, workflow.Target(makes.GetByID(w.Client, "made")), "b") // the new run is the active run of this workflow ID
		first.Stop()
		w.Work(worker.Config{}, flowtest.Noting(&executed), flowtest.As(makes, making))
		words(t, w, again, "c")
		got := flowtest.Result(w, again)
		if diff := cmp.Diff([]string{"a", "b", "c"}, got.Words); diff != "" {
			t.Errorf("words (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2}, executed.Get()); diff != "" {
			t.Errorf("executed steps, of both runs (-want +got):\n%s", diff)
		}
		if info, err := run.Info(w.Ctx); err != nil || info.Status != workflow.StatusCanceled {
			t.Errorf("the old run is %s, %v", info.Status, err)
		}
		if info, err := again.Info(w.Ctx); err != nil || info.Tags["k"] != "v" || info.WorkflowID != "made" {
			t.Errorf("the new run is %+v, %v", info, err)
		}
	})
}

func isStatusError(err error) bool {
	_, ok := errors.AsType[*workflow.StatusError](err)
	return ok
}

// TestRUN10_WhatWasCompletedAfterTheCancelIsCarriedOverToo proves that a retry of a canceled run
// takes over results that were completed after the cancel. One step succeeds although it is
// canceled, and messages arrive at the same time. The step of another branch ends with the cancel.
func TestRUN10_WhatWasCompletedAfterTheCancelIsCarriedOverToo(t *testing.T) {
	both := flowtest.Flow[int, []string]("both")
	code := func(step func(context.Context, int) (int, error)) []flowtest.Binding {
		return []flowtest.Binding{flowtest.Work1.As(step), flowtest.As(both, func(ctx workflow.Context, _ int) ([]string, error) {
			one := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Work1.Call(ctx, 1) })
			two := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Work1.Call(ctx, 2) })
			for _, o := range workflow.Settled(ctx, one, two) {
				if o.Err != nil {
					return nil, o.Err
				}
			}
			word, err := flowtest.Wake.Receive(ctx)
			return []string{word}, err
		})}
	}
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 2)
		first := w.Work(worker.Config{}, code(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			if n == 2 {
				return 0, ctx.Err()
			}
			return n, nil
		})...)
		run := flowtest.Start(w, both, 0)
		<-begun
		<-begun
		flowtest.Order(t, run.Cancel(w.Ctx, "by mistake"))
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Fatalf("got %v", err)
		}
		if n := len(flowtest.Filter(w.Log(run), event.StepCompleted)); n != 1 {
			t.Fatalf("%d steps completed, want the one that ignored the cancel", n)
		}
		first.Stop()
		var executed flowtest.Seen[int]
		w.Work(worker.Config{}, code(func(_ context.Context, n int) (int, error) { executed.Add(n); return n, nil })...)
		again, err := run.RetryCanceled(w.Ctx)
		flowtest.Order(t, err)
		words(t, w, again, "on")
		if diff := cmp.Diff([]string{"on"}, flowtest.Result(w, again)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2}, executed.Get()); diff != "" {
			t.Errorf("executed again (-want +got):\n%s", diff)
		}
		for _, e := range flowtest.Filter(w.Log(again), event.StepStarted)[1:] {
			if e.Attempt != 1 {
				t.Errorf("the step begins with attempt %d", e.Attempt)
			}
		}
	})
}

func TestRUN10_AFailedRunIsRetriedFromWhereItFailedWithAllItsAttempts(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[int]
		broken := true
		first := w.Work(worker.Config{}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
			executed.Add(n)
			if n == 1 && broken {
				return 0, flowtest.ErrBusy
			}
			return n, nil
		}), flowtest.As(makes, making))
		run := flowtest.Start(w, makes, 0)
		words(t, w, run, "a", "b", "c")
		_ = flowtest.Failure(w, run)
		first.Stop()
		broken = false
		w.Work(worker.Config{}, flowtest.Noting(&executed), flowtest.As(makes, making))
		again, err := run.Retry(w.Ctx)
		flowtest.Order(t, err)
		got := flowtest.Result(w, again)
		if diff := cmp.Diff(made{Steps: []int{0, 1, 2}, Words: []string{"a", "b", "c"}, IDs: got.IDs}, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 1, 1, 1, 1, 2}, executed.Get()); diff != "" {
			t.Errorf("executed steps, of both runs (-want +got):\n%s", diff)
		}
		if twice, err := run.Retry(w.Ctx); err != nil || twice.ID() != again.ID() {
			t.Errorf("a second retry gives %v, %v", twice, err)
		}
	})
}

func TestRUN10_AFailedChildIsStartedAgain(t *testing.T) {
	parents, kids := flowtest.Flow[int, int]("parents"), flowtest.Flow[int, int]("kids")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		code := func(fails bool) []flowtest.Binding {
			return []flowtest.Binding{flowtest.As(kids, func(_ workflow.Context, n int) (int, error) {
				if fails && n == 2 {
					return 0, flowtest.ErrBusy
				}
				return 10 * n, nil
			}), flowtest.As(parents, func(ctx workflow.Context, _ int) (int, error) {
				sum := 0
				for n := range 4 {
					got, err := kids.Child(ctx, n)
					if err != nil {
						return 0, err
					}
					sum += got
				}
				return sum, nil
			})}
		}
		first := w.Work(worker.Config{}, code(true)...)
		run := flowtest.Start(w, parents, 0)
		_ = flowtest.Failure(w, run)
		first.Stop()
		w.Work(worker.Config{}, code(false)...)
		again, err := run.Retry(w.Ctx)
		flowtest.Order(t, err)
		if got := flowtest.Result(w, again); got != 60 {
			t.Errorf("got %d", got)
		}
		before, after := flowtest.Filter(w.Log(run), event.ChildCreated), flowtest.Filter(w.Log(again), event.ChildCreated)
		for n, e := range after {
			if kept := n < 2; kept != (n < len(before) && e.Next == before[n].Next) {
				t.Errorf("child %d of the new run is %s", n, e.Next)
			}
		}
	})
}

func TestRUN10_ARunThatHasUndoneItsWorkIsNotContinued(t *testing.T) {
	w := flowtest.NewMemory(t)
	var undone flowtest.Seen[int]
	w.Work(worker.Config{}, append(flowtest.Office(&undone, nil), flowtest.As(flowtest.Trips, flowtest.Travel))...)
	run := flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 2, End: "badly"})
	_ = flowtest.Failure(w, run)
	var refused *workflow.StatusError
	if _, err := run.Retry(w.Ctx); !errors.As(err, &refused) || len(refused.Undone) != 2 {
		t.Errorf("got %v", err)
	}
}

func TestRUN10_ATimeLimitBeginsAnew(t *testing.T) {
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.Parks)
	run := flowtest.Start(w, flowtest.Parker, "", workflow.WithRunTimeout(time.Hour))
	w.Reach(run, event.WaitCreated, 2)
	w.Clock.Advance(time.Hour)
	if err := flowtest.Failure(w, run); err.Code != event.CodeTimeout {
		t.Fatalf("got %v", err)
	}
	w.Clock.Advance(24 * time.Hour)
	again, err := run.Retry(w.Ctx)
	flowtest.Order(t, err)
	w.Eventually("the new run waits", func() bool { return w.Record(again).QueueState == store.StateParked })
	w.Clock.Advance(59 * time.Minute)
	words(t, w, again, "in time")
	if got := flowtest.Result(w, again); got != "in time" {
		t.Errorf("got %q", got)
	}
}

func TestRUN11_AForkKeepsEverythingInFrontOfTheStep(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[int]
		first := w.Work(worker.Config{}, flowtest.Noting(&executed), flowtest.As(makes, making))
		run := flowtest.Start(w, makes, 0, workflow.WithID("original"))
		words(t, w, run, "a")
		w.Reach(run, event.StepCompleted, 2)
		words(t, w, run, "b")
		w.Reach(run, event.StepCompleted, 3)
		w.Reach(run, event.WaitCreated, 1)
		steps := flowtest.Filter(w.Log(run), event.StepCreated)
		live, err := run.Fork(w.Ctx, steps[1].Correlation(run.ID()))
		flowtest.Order(t, err)
		words(t, w, run, "c")
		original := flowtest.Result(w, run)
		ended, err := run.Fork(w.Ctx, steps[2].Key)
		flowtest.Order(t, err)
		first.Stop() // so that the next worker has only the logs
		w.Work(worker.Config{}, flowtest.Noting(&executed), flowtest.As(makes, making))
		words(t, w, live, "x", "y")
		words(t, w, ended, "z")
		for _, tt := range []struct {
			run   *workflow.Run[made]
			words []string
			ids   int // number of IDs equal to those of the original
			wid   string
		}{{live, []string{"a", "x", "y"}, 2, ""}, {ended, []string{"a", "b", "z"}, 3, "original"}} {
			got := flowtest.Result(w, tt.run)
			if diff := cmp.Diff(tt.words, got.Words); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
			for n := range 3 {
				if same := got.IDs[n] == original.IDs[n]; same != (n < tt.ids) {
					t.Errorf("random id %d: the same as that of the original: %t", n, same)
				}
			}
			if info, err := tt.run.Info(w.Ctx); err != nil || info.WorkflowID != tt.wid || resumedFrom(w, tt.run) != run.ID() {
				t.Errorf("the fork is %+v, %v", info, err)
			}
		}
		counts := map[int]int{}
		for _, n := range executed.Get() {
			counts[n]++
		}
		if diff := cmp.Diff(map[int]int{0: 1, 1: 2, 2: 3}, counts); diff != "" {
			t.Errorf("executed steps, of all three runs (-want +got):\n%s", diff)
		}
		if _, err := run.Fork(w.Ctx, "no such step"); !errors.Is(err, workflow.ErrStepNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// TestRUN11_AForkOfAForkInTheMiddleOfAReaction proves that a fork can be forked at a step that the
// code began together with others, without waiting between them.
func TestRUN11_AForkOfAForkInTheMiddleOfAReaction(t *testing.T) {
	bursts := flowtest.Flow[int, []string]("bursts")
	w := flowtest.NewMemory(t)
	var executed flowtest.Seen[int]
	code := flowtest.As(bursts, func(ctx workflow.Context, _ int) ([]string, error) {
		var all []string
		for n := range 3 {
			id, err := workflow.Record(ctx, func() (string, error) { return fmt.Sprint(n, time.Now().UnixNano()), nil })
			if err != nil {
				return nil, err
			}
			all = append(all, id, workflow.UUID(ctx))
			if _, err := workflow.Map(ctx, []int{10 * n, 10*n + 1}, flowtest.Work1.Call); err != nil {
				return nil, err
			}
		}
		return all, workflow.Sleep(ctx, time.Nanosecond)
	})
	worker1 := w.Work(worker.Config{}, flowtest.Noting(&executed), code)
	run := flowtest.Start(w, bursts, 0)
	original := flowtest.Result(w, run)
	one, err := run.Fork(w.Ctx, flowtest.Filter(w.Log(run), event.StepCreated)[2].Key)
	flowtest.Order(t, err)
	first := flowtest.Result(w, one)
	two, err := one.Fork(w.Ctx, flowtest.Filter(w.Log(one), event.StepCreated)[4].Key)
	flowtest.Order(t, err)
	second := flowtest.Result(w, two)
	if diff := cmp.Diff(original[:4], first[:4]); diff != "" || cmp.Equal(original[4:], first[4:]) {
		t.Errorf("the fork (-original +fork):\n%s", cmp.Diff(original, first))
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the fork of the fork, behind everything random (-fork +its fork):\n%s", diff)
	}
	worker1.Stop()
	w.Work(worker.Config{}, flowtest.Noting(&executed), code)
	for _, r := range []*workflow.Run[[]string]{one, two} { // a replay of each fork must give the same result
		log := w.Log(r)
		if diff := cmp.Diff(flowtest.Result(w, r), flowtest.Result(w, flowtest.AfterCrash(w, bursts, log[:len(log)-1]))); diff != "" {
			t.Errorf("replayed (-want +got):\n%s", diff)
		}
	}
}

func TestRUN11_RestartBeginsAgainWithTheSameInput(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Runs, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Echo, "in", workflow.WithID("e"))
		_ = flowtest.Result(w, run)
		again, err := run.Restart(w.Ctx)
		flowtest.Order(t, err)
		if got := flowtest.Result(w, again); got != "<in>" || again.ID() == run.ID() || resumedFrom(w, again) != run.ID() {
			t.Errorf("got %q of run %s", got, again.ID())
		}
		live := flowtest.Start(w, flowtest.Parker, "", workflow.WithID("p"))
		second, err := live.Restart(w.Ctx)
		flowtest.Order(t, err)
		words(t, w, second, "second")
		if got := flowtest.Result(w, second); got != "second" {
			t.Errorf("got %q", got)
		}
		if info, err := second.Info(w.Ctx); err != nil || info.WorkflowID != "" {
			t.Errorf("the restart of a live run: %+v, %v", info, err)
		}
	})
}

func TestRUN11_AWorkflowIDThatIsInUseByNowIsATypedError(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Parks)
	run := flowtest.Start(w, flowtest.Parker, "", workflow.WithID("p"))
	words(t, w, run, "first")
	_ = flowtest.Result(w, run)
	active := flowtest.Start(w, flowtest.Parker, "", workflow.WithID("p"))
	var taken *workflow.ActiveRunError
	if _, err := run.Restart(w.Ctx); !errors.As(err, &taken) || taken.Run != active.ID() {
		t.Errorf("got %v", err)
	}
}
