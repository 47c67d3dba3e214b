package runs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN16_ARunNamesItsWorkerAndItsLastRecovery(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Parker, "x")
		if info, err := run.Info(w.Ctx); err != nil || info.Worker != "" {
			t.Errorf("before a worker has it: got worker %q, %v, want none", info.Worker, err)
		}
		if got, err := ops.New(w.Client).LastRecovery(w.Ctx, run.ID()); err != nil || got != nil {
			t.Errorf("before a worker has it: got recovery %+v, %v, want none", got, err)
		}
		partition, session := int(run.ID().Slot())%w.Store.Partitions(), store.SessionID("host/7/"+event.NewToken().String())
		flowtest.Order(t, w.Store.OpenSession(w.Ctx, store.Session{Partition: partition, ID: session, Worker: "host/7", TTL: time.Minute}))
		if _, err := w.Store.ClaimRun(w.Ctx, partition, session, event.NewToken(), run.ID()); err != nil {
			t.Fatal(err)
		}
		if info, err := run.Info(w.Ctx); err != nil || info.Worker != "host/7" {
			t.Errorf("claimed: got worker %q, %v, want host/7", info.Worker, err)
		}
		flowtest.Order(t, w.Store.CloseSession(w.Ctx, partition, session))
		got, err := ops.New(w.Client).LastRecovery(w.Ctx, run.ID())
		if err != nil || got == nil || got.Time.IsZero() {
			t.Fatalf("after the worker has gone: got %+v, %v, want a recovery with its time", got, err)
		}
		want := ops.Recovery{Time: got.Time, Reason: string(store.ReasonSessionClosed), From: "host/7", By: got.By}
		if d := cmp.Diff(want, *got); d != "" {
			t.Errorf("the recovery (-want +got):\n%s", d)
		}
	})
}

func TestRUN16_OrdersTellThatARunWasAskedToEndAndWhy(t *testing.T) {
	cleans := flowtest.Flow[int, int]("details.cleans")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(cleans, func(ctx workflow.Context, n int) (int, error) {
			if _, err := flowtest.Wake.Receive(ctx); err == nil {
				return n, nil
			}
			_, err := flowtest.Wake.Receive(workflow.Detached(ctx)) // cleans up after the cancel
			return n, err
		}))
		run := flowtest.Start(w, cleans, 1)
		w.ReachWaiting(run)
		orders := func() ops.Orders {
			t.Helper()
			got, err := ops.New(w.Client).Orders(w.Ctx, run.ID())
			flowtest.Order(t, err)
			return got
		}
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Eventually("the pause", func() bool { return cmp.Equal(orders(), ops.Orders{Paused: true}) })
		flowtest.Order(t, run.Cancel(w.Ctx, "ordered twice"))
		w.Eventually("the cleanup", func() bool {
			return cmp.Equal(orders(), ops.Orders{Canceling: true, CancelReason: "ordered twice"})
		})
		words(t, w, run, "end")
		_ = flowtest.Result(w, run)
	})
}

func TestRUN16_AFailureNamesTheStepThatARunHasFailedWith(t *testing.T) {
	w := flowtest.NewMemory(t)
	parent := flowtest.Flow[string, string]("details.parent")
	w.Work(worker.Config{}, charge.As(func(context.Context, string) (string, error) { return "", step.Fatal(errors.New("declined")) }), flowtest.As(paid, charge.Call),
		flowtest.As(parent, func(ctx workflow.Context, in string) (string, error) { return paid.Child(ctx, in) }))
	run := flowtest.Start(w, parent, "a")
	_ = flowtest.Failure(w, run)
	log := w.Log(run)
	child := flowtest.Filter(log, event.ChildCreated)[0].Next
	key := flowtest.Filter(w.Log(paid.Get(w.Client, child)), event.StepCreated)[0].Key
	want := &workflow.FailedStep{Run: child, Step: charge.Name(), Key: key, Attempts: 1}
	if d := cmp.Diff(want, workflow.FailedStepOf(log[len(log)-1].Failure)); d != "" {
		t.Errorf("the step of the failure of a run whose child has failed (-want +got):\n%s", d)
	}
	if got := workflow.FailedStepOf(&event.Failure{Message: "by itself", Causes: []*event.Failure{{Message: "cause"}}}); got != nil {
		t.Errorf("a failure of no step: got %+v", got)
	}
}
