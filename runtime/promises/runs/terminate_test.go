package runs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// terminated fails the test unless the run was ended by a single event, without executing its code.
func terminated(w *flowtest.World, run *workflow.Run[int], reason string) {
	w.T.Helper()
	e := flowtest.Failure(w, run)
	if e.Status != workflow.StatusCanceled || e.Code != "terminated" || !strings.Contains(e.Reason, reason) || !errors.Is(e, workflow.ErrCanceled) {
		w.T.Errorf("got status %s, code %q, reason %q, want a run that was terminated: %s", e.Status, e.Code, e.Reason, reason)
	}
	log := w.Log(run)
	if ends := flowtest.Filter(log, event.RunCanceled); len(ends) != 1 || ends[0].By == "" || ends[0].Item == "" {
		w.T.Errorf("the log has the ends %v, want one that is signed and names what asked for it", ends)
	}
	for i := range log {
		if log[i].Type == event.CancelRequested {
			w.T.Errorf("event %d asks the code to end: it has none any more", log[i].Seq)
		}
	}
}

// childOf waits until a run has a child, and returns the child.
func childOf(w *flowtest.World, run *workflow.Run[int]) workflow.RunID {
	w.T.Helper()
	w.Reach(run, event.ChildCreated, 1)
	child := flowtest.Filter(w.Log(run), event.ChildCreated)[0].Next
	w.Eventually("the child is there", func() bool {
		_, err := w.Client.Run(child).Info(w.Ctx)
		return err == nil
	})
	return child
}

// TestRUN8_TerminateEndsABlockedRun proves that Terminate ends a blocked run. A worker serves the
// run, but cannot continue it.
func TestRUN8_TerminateEndsABlockedRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var run *workflow.Run[int]
		if err := whyBlocked(w, byWeather, byWeather); !errors.Is(err, workflow.ErrRunBlocked) {
			t.Fatal(err)
		}
		for info, err := range w.Client.List(w.Ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}}) {
			flowtest.Order(t, err)
			run = unsound.Get(w.Client, info.ID)
		}
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, run.ID(), "nobody has the old code"))
		if info, err := run.Info(w.Ctx); err != nil || info.Status != workflow.StatusCanceled {
			t.Errorf("after Terminate: %+v, %v, want a canceled run", info, err)
		}
		terminated(w, run, "nobody has the old code")
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, run.ID(), "again"))
		terminated(w, run, "nobody has the old code")
		w.Healthy()
	})
}

// TestRUN8_TerminateEndsARunThatAWorkerHas proves that Terminate ends a run that a worker has in
// memory. The code of the run neither cleans up nor compensates, and the running step is canceled.
func TestRUN8_TerminateEndsARunThatAWorkerHas(t *testing.T) {
	slow := flowtest.AStep[int, int]("terminate.slow", shim.Policy{})
	flow := flowtest.Flow[int, int]("terminate.flow")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		undone := &flowtest.Seen[int]{}
		begun, stopped := make(chan int, 1), make(chan error, 1)
		w.Work(worker.Config{}, append(flowtest.Office(undone, nil),
			flowtest.As(flow, func(ctx workflow.Context, n int) (int, error) {
				workflow.Compensate(ctx, flowtest.Undoing(n))
				_, err := slow.Call(ctx, n)
				if err != nil {
					_, _ = flowtest.Unbook.Call(workflow.Detached(ctx), 100)
				}
				return n, err
			}),
			slow.As(func(ctx context.Context, n int) (int, error) {
				begun <- n
				<-ctx.Done()
				stopped <- context.Cause(ctx)
				return 0, ctx.Err()
			}))...)
		run := flowtest.Start(w, flow, 1)
		<-begun
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, run.ID(), "too dear"))
		<-stopped
		terminated(w, run, "too dear")
		if undone.Len() > 0 {
			t.Errorf("%v was undone: the code went on", undone.Get())
		}
		if e := flowtest.Failure(w, run); len(e.Undone)+len(e.NotUndone) > 0 {
			t.Errorf("the end tells of compensations: %v, %v", e.Undone, e.NotUndone)
		}
	})
}

// TestRUN8_TerminateNeedsNoWorkerAndTellsTheFamily proves that Terminate ends a run that no worker
// serves. The children and the parent of the run are notified, as after any other end.
func TestRUN8_TerminateNeedsNoWorkerAndTellsTheFamily(t *testing.T) {
	parent, middle, leaf := flowtest.Flow[int, int]("terminate.parent"), flowtest.Flow[int, int]("terminate.middle"), flowtest.Flow[int, int]("terminate.leaf")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ofParent := flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) {
			_, err := middle.Child(ctx, n)
			var ended *workflow.RunError
			if errors.As(err, &ended) && ended.Code == "terminated" {
				return 17, nil
			}
			return 0, err
		})
		ofLeaf := flowtest.As(leaf, func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Hour) })
		first := w.Work(worker.Config{}, ofParent, ofLeaf, flowtest.As(middle, func(ctx workflow.Context, n int) (int, error) { return leaf.Child(ctx, n) }))
		run := flowtest.Start(w, parent, 1)
		of := middle.Get(w.Client, childOf(w, run))
		lost := leaf.Get(w.Client, childOf(w, of))
		w.Reach(lost, event.WaitCreated, 1)
		first.Stop()
		w.Send(of, 1)
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, of.ID(), "its code is gone"))
		terminated(w, of, "its code is gone")
		if log := w.Log(of); len(log[len(log)-1].Unread) != 1 {
			t.Errorf("the end names %v as unread, want the message that nobody has read", log[len(log)-1].Unread)
		}
		w.Work(worker.Config{}, ofParent, ofLeaf) // no worker has the code of the middle run
		if got := flowtest.Result(w, run); got != 17 {
			t.Errorf("the parent returned %d, want 17: it was told what the end of its child was", got)
		}
		if e := flowtest.Failure(w, lost); e.Status != workflow.StatusCanceled || e.Code != "cancelled" {
			t.Errorf("the child of the terminated run: %v, want that it was asked to end", e)
		}
		for session := range w.Snapshot().Leases {
			if strings.HasPrefix(string(session), "client/") {
				t.Errorf("the client has left session %s behind", session)
			}
		}
		w.Healthy()
	})
}

// TestRUN8_TerminateEndsARunWhoseLogIsDamaged proves that Terminate ends a run whose log has lost
// frames in the middle, so that no worker can read it.
func TestRUN8_TerminateEndsARunWhoseLogIsDamaged(t *testing.T) {
	parent := flowtest.Flow[int, int]("terminate.above")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		release := make(chan struct{})
		w.Work(worker.Config{Grace: time.Millisecond}, flowtest.DoSteps,
			flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
				if n == 5 {
					select {
					case <-release:
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}
				return n, nil
			}),
			flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) {
				_, err := flowtest.Steps.Child(ctx, n)
				if errors.Is(err, workflow.ErrCanceled) {
					return 0, errors.New("canceled itself")
				}
				return 0, err
			}))
		run := flowtest.Start(w, parent, 12)
		child := flowtest.Steps.Get(w.Client, childOf(w, run))
		w.Reach(child, event.StepStarted, 6)
		w.StopWorkers()
		close(release)
		client := flowtest.NewClient(&holed{Store: w.Store, from: 3, to: 4}, workflow.ClientConfig{})
		defer func() { flowtest.Order(t, client.Close()) }()
		flowtest.Order(t, ops.New(client).Terminate(w.Ctx, child.ID(), "a disk has died"))
		terminated(w, child, "a disk has died")
		w.Work(worker.Config{}, flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) { return flowtest.Steps.Child(ctx, n) }))
		if e := flowtest.Failure(w, run); !strings.Contains(e.Error(), "a disk has died") {
			t.Errorf("the parent got %v, want the end of its child", e)
		}
	})
}

// TestRUN8_ARequestToTerminateOutlivesItsClient proves that a request to terminate is executed if
// the client dies after the request is durable. The next worker or client that claims the run
// executes it.
func TestRUN8_ARequestToTerminateOutlivesItsClient(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		undone := &flowtest.Seen[int]{}
		code := append(flowtest.Office(undone, nil), flowtest.As(flowtest.Trips, flowtest.Travel))
		first := w.Work(worker.Config{}, code...)
		run := flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 2, End: "wait"})
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		body, err := event.AppendItem(nil, &event.Event{Type: event.CancelRequested, Name: event.Terminate, Reason: "died"})
		flowtest.Order(t, err)
		_, err = w.Store.Deliver(w.Ctx, store.Deliver{Run: run.ID(), Item: store.Item{ID: "terminate", Body: body}, Urgent: true})
		flowtest.Order(t, err)
		w.Send(run, 1) // arrives after the request
		w.Work(worker.Config{}, code...)
		terminated(w, run, "died")
		if undone.Len() > 0 {
			t.Errorf("%v was undone: the code went on", undone.Get())
		}
		log := w.Log(run)
		if last := log[len(log)-1]; len(last.Unread) != 1 {
			t.Errorf("the end names %v as unread, want the message that came after the request", last.Unread)
		}
	})
}

// TestRUN8_TerminateByManyAtOnceEndsTheRunOnce proves that a run ends once if several operators
// terminate it concurrently while a worker executes it.
func TestRUN8_TerminateByManyAtOnceEndsTheRunOnce(t *testing.T) {
	endless := flowtest.Flow[int, int]("terminate.endless")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.DoWork1, flowtest.As(endless, func(ctx workflow.Context, n int) (int, error) {
			for {
				if _, err := flowtest.Work1.Call(ctx, n); err != nil {
					return 0, err
				}
			}
		}))
		for range 5 {
			run := flowtest.Start(w, endless, 1)
			w.Reach(run, event.StepCompleted, 3)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := ops.New(w.Client).Terminate(w.Ctx, run.ID(), "together"); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			terminated(w, run, "together")
		}
		w.Healthy()
	})
}

func TestRUN8_TerminateReachesWhatTheRunContinuedAs(t *testing.T) {
	again := flowtest.Flow[int, int]("terminate.again")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, flowtest.As(again, func(ctx workflow.Context, n int) (int, error) {
			if n < 3 {
				return 0, again.ContinueAsNew(ctx, n+1)
			}
			return n, workflow.Sleep(ctx, time.Hour)
		}))
		run := flowtest.Start(w, again, 0)
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, run.ID(), "enough"))
		if e := flowtest.Failure(w, run); e.Code != "terminated" {
			t.Errorf("got %v, want that the chain was terminated", e)
		}
		left := flowtest.Start(w, again, 0)
		w.Eventually("the last run of the chain sleeps", func() bool {
			for info, err := range w.Client.List(w.Ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusSleeping}}) {
				return err == nil && info.ID != ""
			}
			return false
		})
		first.Stop()
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, left.ID(), "nobody is there"))
		if e := flowtest.Failure(w, left); e.Code != "terminated" {
			t.Errorf("got %v, want that the last run of the chain was terminated", e)
		}
	})
}

func TestRUN8_TerminateRefusesWhatItCannotDo(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Double)
		run := flowtest.Start(w, flowtest.Doubles, 2)
		flowtest.Result(w, run)
		if err := ops.New(w.Client).Terminate(w.Ctx, run.ID(), ""); !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("a run that has completed: got %v, want %v", err, workflow.ErrRunTerminal)
		}
		if err := ops.New(w.Client).Terminate(w.Ctx, event.NewRunID(w.Store.Clock().Now(), 0), ""); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("a run that does not exist: got %v, want %v", err, workflow.ErrRunNotFound)
		}
		if err := ops.New(w.Client).Terminate(w.Ctx, run.ID(), strings.Repeat("x", store.MaxReason+1)); !flowtest.IsInvalid(err, "reason") {
			t.Errorf("a reason that is too long: got %v", err)
		}
		first := flowtest.Start(w, flowtest.One, 1, workflow.WithQueue("nobody"), workflow.WithID("one"))
		line := flowtest.Start(w, flowtest.One, 2, workflow.WithQueue("nobody"), workflow.WithID("one"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.QueueActive}))
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, line.ID(), "in line"))
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, first.ID(), "the first"))
		terminated(w, line, "in line")
	})
}

// TestRUN8_TerminateNeedsNothingOfAWorkerThatTheCodeKeeps proves that Terminate ends a run whose
// code never returns control to its worker.
func TestRUN8_TerminateNeedsNothingOfAWorkerThatTheCodeKeeps(t *testing.T) {
	stuck := flowtest.Flow[int, int]("terminate.stuck")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun, free := make(chan int, 1), make(chan struct{})
		w.Work(worker.Config{}, flowtest.As(stuck, func(ctx workflow.Context, n int) (int, error) {
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return 0, err
			}
			begun <- n
			<-free
			_, err := flowtest.Wake.Receive(ctx)
			return n, err
		}))
		defer close(free)
		run := flowtest.Start(w, stuck, 1)
		<-begun
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, run.ID(), "it hangs"))
		terminated(w, run, "it hangs")
	})
}

// TestRUN7_CodeThatIgnoresACancelForEverFails proves that a run fails if its code ignores a cancel
// for ever. Otherwise the run would keep its worker busy while it has the status sleeping.
func TestRUN7_CodeThatIgnoresACancelForEverFails(t *testing.T) {
	heedless := flowtest.Flow[int, int]("terminate.heedless")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(heedless, func(ctx workflow.Context, _ int) (int, error) {
			for {
				_ = workflow.Sleep(ctx, time.Minute)
			}
		}))
		run := flowtest.Start(w, heedless, 1)
		w.Reach(run, event.WaitCreated, 1)
		flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
		if e := flowtest.Failure(w, run); e.Status != workflow.StatusFailed || e.Code != event.CodeEndIgnored {
			t.Errorf("got status %s, code %q, want a run that failed with code %q", e.Status, e.Code, event.CodeEndIgnored)
		}
	})
}

// TestRUN8_ARunThatIsQueuedAfterAnotherEndsAtOnce proves that canceled runs end at once if they are
// queued behind another run of their workflow ID. No worker serves the runs, and the first run has
// not ended. The other queued runs keep their order.
func TestRUN8_ARunThatIsQueuedAfterAnotherEndsAtOnce(t *testing.T) {
	line := flowtest.Flow[int, int]("terminate.line")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		start := func(n int) *workflow.Run[int] {
			return flowtest.Start(w, line, n, workflow.WithID("line"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.QueueActive}))
		}
		first, second, third, fourth := start(1), start(2), start(3), start(4)
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, second.ID(), "not needed"))
		terminated(w, second, "not needed")
		flowtest.Order(t, third.Cancel(w.Ctx, "nor this"))
		if e := flowtest.Failure(w, third); e.Status != workflow.StatusCanceled || e.Code != "cancelled" {
			t.Errorf("got %v, want a canceled run", e)
		}
		if state := w.Record(fourth).QueueState; state != store.StateQueued {
			t.Errorf("the last run is %s, want queued", state)
		}
		w.Work(worker.Config{}, flowtest.As(line, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		for n, run := range map[int]*workflow.Run[int]{1: first, 4: fourth} {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
	})
}
