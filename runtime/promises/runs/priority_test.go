package runs_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ranked is a workflow whose priority is its input.
var ranked = shim.NewWorkflow[int, int]("test.ranked", "in", shim.WorkflowPolicy{Priority: shim.Priority(func(n int) int { return n })})

func TestRUN3_TheInputDecidesAboutThePriorityUnlessTheStartDoes(t *testing.T) {
	flowtest.OnPartitions(t, 1, func(t *testing.T, w *flowtest.World) {
		var order flowtest.Seen[int]
		var started []*workflow.Run[int]
		for _, n := range []int{1, 4, -2} {
			started = append(started, flowtest.Start(w, ranked, n))
		}
		started = append(started, flowtest.Start(w, ranked, 9, workflow.WithPriority(0)), flowtest.Start(w, ranked, -9, workflow.WithPriority(3)))
		w.Work(worker.Config{Runs: 1}, flowtest.As(ranked, func(_ workflow.Context, n int) (int, error) {
			order.Add(n)
			return n, nil
		}))
		for _, run := range started {
			_ = flowtest.Result(w, run)
		}
		if diff := cmp.Diff([]int{4, -9, 1, 9, -2}, order.Get()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRUN3_AChildHasThePriorityOfItsParentUnlessItHasItsOwn(t *testing.T) {
	parent := flowtest.Flow[int, []workflow.RunID]("ranked.parent")
	plain := flowtest.Flow[int, int]("ranked.plain")
	remote := flowtest.AStep[int, int]("ranked.remote", shim.Policy{Queue: "other"})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		same := func(_ workflow.Context, n int) (int, error) { return n, nil }
		w.Work(worker.Config{Queues: []string{workflow.DefaultQueue, "other"}}, flowtest.As(ranked, same), flowtest.As(plain, same),
			remote.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(parent, func(ctx workflow.Context, n int) ([]workflow.RunID, error) {
				var ids []workflow.RunID
				for _, child := range []*workflow.Child[int]{
					plain.StartChild(ctx, n), plain.StartChild(ctx, n, workflow.WithPriority(0)), ranked.StartChild(ctx, n), ranked.StartChild(ctx, n, workflow.WithPriority(2)),
				} {
					if _, err := child.Get(ctx); err != nil {
						return nil, err
					}
					ids = append(ids, child.ID())
				}
				_, err := remote.Call(ctx, n)
				return ids, err
			}))
		run := flowtest.Start(w, parent, -3, workflow.WithPriority(7))
		ids := flowtest.Result(w, run)
		var got []int
		for _, id := range ids {
			got = append(got, w.Record(w.Client.Run(id)).Priority)
		}
		if diff := cmp.Diff([]int{7, 0, -3, 2}, got); diff != "" {
			t.Errorf("priorities of its parent, of an option, of a directive, of an option again (-want +got):\n%s", diff)
		}
		steps := flowtest.Filter(w.Log(run), event.ChildCreated)
		if step := steps[len(steps)-1]; step.Spec.Priority != 7 {
			t.Errorf("the run of a step has priority %d, want 7", step.Spec.Priority)
		}
	})
}

// late waits until the time by which a run must begin has passed.
func late(w *flowtest.World, run workflow.RunID) {
	w.T.Helper()
	info, err := w.Client.Run(run).Info(w.Ctx)
	if err != nil || info.StartBy.IsZero() {
		w.T.Fatalf("it must begin by %v, %v", info.StartBy, err)
	}
	w.Eventually("the run is too late", func() bool { return !w.Store.Clock().Now().Before(info.StartBy) })
}

func TestRUN3_ARunThatNoWorkerHasBegunInTimeFailsWithoutItsCode(t *testing.T) {
	timed := shim.NewWorkflow[int, int]("test.timed", "in", shim.WorkflowPolicy{StartWithin: time.Millisecond})
	parent := flowtest.Flow[int, int]("timed.parent")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		tooLate := []*workflow.Run[int]{
			flowtest.Start(w, timed, 1), flowtest.Start(w, timed, 2, workflow.WithID("timed")), flowtest.Start(w, parent, 3, workflow.WithStartBy(time.Millisecond)),
		}
		good := flowtest.Start(w, timed, 4, workflow.WithStartBy(time.Hour))
		for _, run := range tooLate {
			late(w, run.ID())
		}
		ran := func(_ workflow.Context, n int) (int, error) {
			if n < 4 {
				t.Errorf("the code of run %d was executed", n)
			}
			return n, nil
		}
		w.Work(worker.Config{}, flowtest.As(timed, ran), flowtest.As(parent, ran))
		for _, run := range tooLate {
			if e := flowtest.Failure(w, run); e.Code != event.CodeNotStarted || e.Status != workflow.StatusFailed || !flowtest.ContainsAll(e.Reason, "1ms") {
				t.Errorf("got %v", e)
			}
			if n := len(flowtest.Filter(w.Log(run), event.RunStarted)); n != 0 {
				t.Error("it was begun")
			}
			if info, err := run.Info(w.Ctx); err != nil || !info.StartBy.IsZero() {
				t.Errorf("at the end it must begin by %v, %v", info.StartBy, err)
			}
		}
		if got := flowtest.Result(w, good); got != 4 {
			t.Errorf("got %d", got)
		}
		again := flowtest.Start(w, timed, 5, workflow.WithID("timed"), workflow.WithStartBy(time.Hour)) // the failed run has freed the workflow ID
		if got := flowtest.Result(w, again); got != 5 || !again.Created() {
			t.Errorf("got %d, created %v", got, again.Created())
		}
	})
}

// TestRUN3_ARunThatNobodyServesAndIsTooLateIsEndedByAnyWorker proves that a worker ends a run whose
// time to begin has passed, even if no worker serves the workflow of the run.
func TestRUN3_ARunThatNobodyServesAndIsTooLateIsEndedByAnyWorker(t *testing.T) {
	nobodys := flowtest.Flow[int, int]("timed.nobodys")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, nobodys, 1, workflow.WithStartBy(time.Millisecond))
		late(w, run.ID())
		w.Work(worker.Config{Heartbeat: 100 * time.Millisecond, ClaimExpiry: 2 * time.Second}, flowtest.Runs)
		if e := flowtest.Failure(w, run); e.Code != event.CodeNotStarted {
			t.Errorf("got %v", e)
		}
	})
}

func TestRUN3_TheTimeToBeginCountsFromWhenTheRunMay(t *testing.T) {
	w := flowtest.NewVirtual(t)
	begun := w.Clock.Now()
	within := workflow.WithStartBy(time.Minute)
	by := func(run *workflow.Run[string]) time.Duration {
		info, err := run.Info(w.Ctx)
		flowtest.Order(t, err)
		if info.StartBy.IsZero() {
			return 0
		}
		return info.StartBy.Sub(begun)
	}
	plain, delayed := flowtest.Start(w, flowtest.Echo, "plain", within), flowtest.Start(w, flowtest.Echo, "delayed", within, workflow.WithDelay(time.Hour))
	held, free := flowtest.Start(w, flowtest.Echo, "held", within, workflow.WithHoldFor(24*time.Hour)), flowtest.Start(w, flowtest.Echo, "free")
	paused := flowtest.Start(w, flowtest.Echo, "paused", within, workflow.WithDelay(2*time.Hour))
	flowtest.Order(t, paused.Pause(w.Ctx))
	if got := []time.Duration{by(plain), by(delayed), by(held), by(free)}; !cmp.Equal(got, []time.Duration{time.Minute, time.Hour + time.Minute, 0, 0}) {
		t.Errorf("plain, delayed, held and unbounded must begin after %v", got)
	}
	w.Clock.Advance(time.Minute - time.Millisecond)
	w.Work(worker.Config{}, flowtest.Runs)
	for _, run := range []*workflow.Run[string]{plain, free} {
		_ = flowtest.Result(w, run) // these runs begin a millisecond before the limit
	}
	w.Clock.Advance(time.Hour)
	_ = flowtest.Result(w, delayed)
	w.Clock.Advance(time.Hour)
	flowtest.Order(t, held.Release(w.Ctx))
	_ = flowtest.Result(w, held)
	w.Clock.Advance(time.Hour)
	if e := flowtest.Failure(w, paused); e.Code != event.CodeNotStarted {
		t.Errorf("paused before it could begin: got %v", e)
	}
}

func TestRUN3_WhatARunThatMustBeginInTimeContinuesAsHasBegun(t *testing.T) {
	loop := flowtest.Flow[int, int]("timed.loop")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.As(loop, func(ctx workflow.Context, n int) (int, error) {
		if n == 0 {
			return 0, nil
		}
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return 0, loop.ContinueAsNew(ctx, n-1)
	}))
	run := flowtest.Start(w, loop, 2, workflow.WithStartBy(time.Minute))
	for id := run.ID(); ; {
		w.FastForward(w.Client.Run(id))
		log := w.Log(w.Client.Run(id))
		if log[0].Spec.ContinuedOf != "" && log[0].Spec.StartWithin != 0 {
			t.Errorf("run %s must begin within %v", id, log[0].Spec.StartWithin)
		}
		last := log[len(log)-1]
		if last.Type != event.RunContinued {
			break
		}
		id = last.Next
	}
	if got := flowtest.Result(w, run); got != 0 {
		t.Errorf("got %d", got)
	}
}
