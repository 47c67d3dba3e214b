package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// made is what the workflow of these tests returns: what it saw and made.
type made struct {
	Steps []int    `json:"steps"`
	Words []string `json:"words"`
	IDs   []string `json:"ids"`
}

var makes = flow[int, made]("makes")

// making is a workflow that does three steps, with a message, a random number and
// a recorded value in between, and waits in the end.
func making(ctx workflow.Context, _ int) (made, error) {
	var m made
	for n := range 3 {
		m.IDs = append(m.IDs, workflow.UUID(ctx))
		got, err := work1.Call(ctx, n)
		if err != nil {
			return m, fmt.Errorf("step %d: %w", n, err)
		}
		m.Steps = append(m.Steps, got)
		word, err := wake.Receive(ctx)
		if err != nil {
			return m, err
		}
		m.Words = append(m.Words, word)
	}
	id, err := workflow.Record(ctx, func() (string, error) { return "recorded", nil })
	m.IDs = append(m.IDs, id)
	return m, errors.Join(err, workflow.Sleep(ctx, time.Millisecond))
}

func words(t *testing.T, w *world, to workflow.Target, all ...string) {
	t.Helper()
	for _, word := range all {
		order(t, wake.Send(w.ctx, to, word))
	}
}

func resumedFrom(w *world, run follows) workflow.RunID { return w.log(run)[0].Spec.RerunOf }

func TestRUN10_AResumedRunCarriesOverWhatACancelledOneHadDone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		var executed seen[int]
		first := w.work(worker.Config{}, noting(&executed), as(makes, making))
		run := start(w, makes, 0, workflow.WithID("made"), workflow.WithTags(map[string]string{"k": "v"}))
		words(t, w, run, "a")
		w.reach(run, event.StepCompleted, 2)
		w.reach(run, event.WaitCreated, 1)
		if _, err := run.RetryCanceled(w.ctx); !isStatusError(err) {
			t.Errorf("resume of a live run: %v", err)
		}
		order(t, run.Cancel(w.ctx, "by mistake"))
		if err := failure(w, run); err.Status != workflow.StatusCanceled {
			t.Fatalf("got %v", err)
		}
		if _, err := run.Retry(w.ctx); !isStatusError(err) {
			t.Errorf("retry of a cancelled run: %v", err)
		}
		again, err := run.RetryCanceled(w.ctx)
		order(t, err)
		twice, err := run.RetryCanceled(w.ctx)
		order(t, err)
		if again.ID() == run.ID() || twice.ID() != again.ID() || resumedFrom(w, again) != run.ID() {
			t.Errorf("new runs %s and %s of %s, resumed from %s", again.ID(), twice.ID(), run.ID(), resumedFrom(w, again))
		}
		words(t, w, workflow.Target(makes.GetByID(w.client, "made")), "b") // it has the workflow id
		first.stop()
		w.work(worker.Config{}, noting(&executed), as(makes, making))
		words(t, w, again, "c")
		got := result(w, again)
		if diff := cmp.Diff([]string{"a", "b", "c"}, got.Words); diff != "" {
			t.Errorf("words (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2}, executed.get()); diff != "" {
			t.Errorf("executed steps, of both runs (-want +got):\n%s", diff)
		}
		if info, err := run.Info(w.ctx); err != nil || info.Status != workflow.StatusCanceled {
			t.Errorf("the old run is %s, %v", info.Status, err)
		}
		if info, err := again.Info(w.ctx); err != nil || info.Tags["k"] != "v" || info.WorkflowID != "made" {
			t.Errorf("the new run is %+v, %v", info, err)
		}
	})
}

func isStatusError(err error) bool {
	_, ok := errors.AsType[*workflow.StatusError](err)
	return ok
}

// A step that is under way is asked to stop, and succeeds all the same, while
// messages come in; another one in another branch does stop.
func TestRUN10_WhatWasCompletedAfterTheCancelIsCarriedOverToo(t *testing.T) {
	both := flow[int, []string]("both")
	code := func(step func(context.Context, int) (int, error)) []binding {
		return []binding{work1.as(step), as(both, func(ctx workflow.Context, _ int) ([]string, error) {
			one := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return work1.Call(ctx, 1) })
			two := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return work1.Call(ctx, 2) })
			for _, o := range workflow.Settled(ctx, one, two) {
				if o.Err != nil {
					return nil, o.Err
				}
			}
			word, err := wake.Receive(ctx)
			return []string{word}, err
		})}
	}
	onEachStore(t, func(t *testing.T, w *world) {
		begun := make(chan int, 2)
		first := w.work(worker.Config{}, code(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			if n == 2 {
				return 0, ctx.Err()
			}
			return n, nil
		})...)
		run := start(w, both, 0)
		<-begun
		<-begun
		order(t, run.Cancel(w.ctx, "by mistake"))
		if err := failure(w, run); err.Status != workflow.StatusCanceled {
			t.Fatalf("got %v", err)
		}
		if n := len(filter(w.log(run), event.StepCompleted)); n != 1 {
			t.Fatalf("%d steps completed, want the one that ignored the cancel", n)
		}
		first.stop()
		var executed seen[int]
		w.work(worker.Config{}, code(func(_ context.Context, n int) (int, error) { executed.add(n); return n, nil })...)
		again, err := run.RetryCanceled(w.ctx)
		order(t, err)
		words(t, w, again, "on")
		if diff := cmp.Diff([]string{"on"}, result(w, again)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2}, executed.get()); diff != "" {
			t.Errorf("executed again (-want +got):\n%s", diff)
		}
		for _, e := range filter(w.log(again), event.StepStarted)[1:] {
			if e.Attempt != 1 {
				t.Errorf("the step begins with attempt %d", e.Attempt)
			}
		}
	})
}

func TestRUN10_AFailedRunIsRetriedFromWhereItFailedWithAllItsAttempts(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var executed seen[int]
		broken := true
		first := w.work(worker.Config{}, work1.as(func(_ context.Context, n int) (int, error) {
			executed.add(n)
			if n == 1 && broken {
				return 0, errBusy
			}
			return n, nil
		}), as(makes, making))
		run := start(w, makes, 0)
		words(t, w, run, "a", "b", "c")
		_ = failure(w, run)
		first.stop()
		broken = false
		w.work(worker.Config{}, noting(&executed), as(makes, making))
		again, err := run.Retry(w.ctx)
		order(t, err)
		got := result(w, again)
		if diff := cmp.Diff(made{Steps: []int{0, 1, 2}, Words: []string{"a", "b", "c"}, IDs: got.IDs}, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 1, 1, 1, 1, 2}, executed.get()); diff != "" {
			t.Errorf("executed steps, of both runs (-want +got):\n%s", diff)
		}
		if twice, err := run.Retry(w.ctx); err != nil || twice.ID() != again.ID() {
			t.Errorf("a second retry gives %v, %v", twice, err)
		}
	})
}

func TestRUN10_AFailedChildIsStartedAgain(t *testing.T) {
	parents, kids := flow[int, int]("parents"), flow[int, int]("kids")
	onEveryStore(t, func(t *testing.T, w *world) {
		code := func(fails bool) []binding {
			return []binding{as(kids, func(_ workflow.Context, n int) (int, error) {
				if fails && n == 2 {
					return 0, errBusy
				}
				return 10 * n, nil
			}), as(parents, func(ctx workflow.Context, _ int) (int, error) {
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
		first := w.work(worker.Config{}, code(true)...)
		run := start(w, parents, 0)
		_ = failure(w, run)
		first.stop()
		w.work(worker.Config{}, code(false)...)
		again, err := run.Retry(w.ctx)
		order(t, err)
		if got := result(w, again); got != 60 {
			t.Errorf("got %d", got)
		}
		before, after := filter(w.log(run), event.ChildCreated), filter(w.log(again), event.ChildCreated)
		for n, e := range after {
			if kept := n < 2; kept != (n < len(before) && e.Next == before[n].Next) {
				t.Errorf("child %d of the new run is %s", n, e.Next)
			}
		}
	})
}

func TestRUN10_ARunThatHasUndoneItsWorkIsNotContinued(t *testing.T) {
	w := newMemory(t)
	var undone seen[int]
	w.work(worker.Config{}, append(office(&undone, nil), as(trips, travel))...)
	run := start(w, trips, trip{2, "badly"})
	_ = failure(w, run)
	var refused *workflow.StatusError
	if _, err := run.Retry(w.ctx); !errors.As(err, &refused) || len(refused.Undone) != 2 {
		t.Errorf("got %v", err)
	}
}

func TestRUN10_ATimeLimitBeginsAnew(t *testing.T) {
	w := newVirtual(t)
	w.work(worker.Config{}, parks)
	run := start(w, parker, "", workflow.WithRunTimeout(time.Hour))
	w.reach(run, event.WaitCreated, 2)
	w.clock.Advance(time.Hour)
	if err := failure(w, run); err.Code != event.CodeTimeout {
		t.Fatalf("got %v", err)
	}
	w.clock.Advance(24 * time.Hour)
	again, err := run.Retry(w.ctx)
	order(t, err)
	w.eventually("the new run waits", func() bool { return w.record(again).Place == store.PlaceParked })
	w.clock.Advance(59 * time.Minute)
	words(t, w, again, "in time")
	if got := result(w, again); got != "in time" {
		t.Errorf("got %q", got)
	}
}

func TestRUN11_AForkKeepsEverythingInFrontOfTheStep(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		var executed seen[int]
		first := w.work(worker.Config{}, noting(&executed), as(makes, making))
		run := start(w, makes, 0, workflow.WithID("original"))
		words(t, w, run, "a")
		w.reach(run, event.StepCompleted, 2)
		words(t, w, run, "b")
		w.reach(run, event.StepCompleted, 3)
		w.reach(run, event.WaitCreated, 1)
		steps := filter(w.log(run), event.StepCreated)
		live, err := run.Fork(w.ctx, steps[1].Correlation(run.ID()))
		order(t, err)
		words(t, w, run, "c")
		original := result(w, run)
		ended, err := run.Fork(w.ctx, steps[2].Key)
		order(t, err)
		first.stop() // nothing is left in memory
		w.work(worker.Config{}, noting(&executed), as(makes, making))
		words(t, w, live, "x", "y")
		words(t, w, ended, "z")
		for _, tt := range []struct {
			run   *workflow.Run[made]
			words []string
			ids   int // that are those of the original
			wid   string
		}{{live, []string{"a", "x", "y"}, 2, ""}, {ended, []string{"a", "b", "z"}, 3, "original"}} {
			got := result(w, tt.run)
			if diff := cmp.Diff(tt.words, got.Words); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
			for n := range 3 {
				if same := got.IDs[n] == original.IDs[n]; same != (n < tt.ids) {
					t.Errorf("random id %d: the same as that of the original: %t", n, same)
				}
			}
			if info, err := tt.run.Info(w.ctx); err != nil || info.WorkflowID != tt.wid || resumedFrom(w, tt.run) != run.ID() {
				t.Errorf("the fork is %+v, %v", info, err)
			}
		}
		counts := map[int]int{}
		for _, n := range executed.get() {
			counts[n]++
		}
		if diff := cmp.Diff(map[int]int{0: 1, 1: 2, 2: 3}, counts); diff != "" {
			t.Errorf("executed steps, of all three runs (-want +got):\n%s", diff)
		}
		if _, err := run.Fork(w.ctx, "no such step"); !errors.Is(err, workflow.ErrStepNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// The fork of a fork, in the middle of what the code did in one go.
func TestRUN11_AForkOfAForkInTheMiddleOfAReaction(t *testing.T) {
	bursts := flow[int, []string]("bursts")
	w := newMemory(t)
	var executed seen[int]
	code := as(bursts, func(ctx workflow.Context, _ int) ([]string, error) {
		var all []string
		for n := range 3 {
			id, err := workflow.Record(ctx, func() (string, error) { return fmt.Sprint(n, time.Now().UnixNano()), nil })
			if err != nil {
				return nil, err
			}
			all = append(all, id, workflow.UUID(ctx))
			if _, err := workflow.Map(ctx, []int{10 * n, 10*n + 1}, work1.Call); err != nil {
				return nil, err
			}
		}
		return all, workflow.Sleep(ctx, time.Nanosecond)
	})
	worker1 := w.work(worker.Config{}, noting(&executed), code)
	run := start(w, bursts, 0)
	original := result(w, run)
	one, err := run.Fork(w.ctx, filter(w.log(run), event.StepCreated)[2].Key)
	order(t, err)
	first := result(w, one)
	two, err := one.Fork(w.ctx, filter(w.log(one), event.StepCreated)[4].Key)
	order(t, err)
	second := result(w, two)
	if diff := cmp.Diff(original[:4], first[:4]); diff != "" || cmp.Equal(original[4:], first[4:]) {
		t.Errorf("the fork (-original +fork):\n%s", cmp.Diff(original, first))
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the fork of the fork, behind everything random (-fork +its fork):\n%s", diff)
	}
	worker1.stop()
	w.work(worker.Config{}, noting(&executed), code)
	for _, r := range []*workflow.Run[[]string]{one, two} { // each log is one that the code writes
		log := w.log(r)
		if diff := cmp.Diff(result(w, r), result(w, afterCrash(w, bursts, log[:len(log)-1]))); diff != "" {
			t.Errorf("replayed (-want +got):\n%s", diff)
		}
	}
}

func TestRUN11_RestartBeginsAgainWithTheSameInput(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, runs, parks)
		run := start(w, echo, "in", workflow.WithID("e"))
		_ = result(w, run)
		again, err := run.Restart(w.ctx)
		order(t, err)
		if got := result(w, again); got != "<in>" || again.ID() == run.ID() || resumedFrom(w, again) != run.ID() {
			t.Errorf("got %q of run %s", got, again.ID())
		}
		live := start(w, parker, "", workflow.WithID("p"))
		second, err := live.Restart(w.ctx)
		order(t, err)
		words(t, w, second, "second")
		if got := result(w, second); got != "second" {
			t.Errorf("got %q", got)
		}
		if info, err := second.Info(w.ctx); err != nil || info.WorkflowID != "" {
			t.Errorf("the restart of a live run: %+v, %v", info, err)
		}
	})
}

func TestRUN11_AWorkflowIDThatIsInUseByNowIsATypedError(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, parks)
	run := start(w, parker, "", workflow.WithID("p"))
	words(t, w, run, "first")
	_ = result(w, run)
	active := start(w, parker, "", workflow.WithID("p"))
	var taken *workflow.ActiveRunError
	if _, err := run.Restart(w.ctx); !errors.As(err, &taken) || taken.Run != active.ID() {
		t.Errorf("got %v", err)
	}
}
