package others_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var (
	parent = flowtest.Flow[int, string]("others.parent")
	loops  = flowtest.Flow[int, int]("others.loops")
	work   = flowtest.AStep[string, string]("others.work", shim.Policy{})
)

// outcome returns the outcome of a wait for a value as text.
func outcome(v int, err error) string {
	switch {
	case err == nil:
		return fmt.Sprint(v)
	case errors.Is(err, workflow.ErrRunTerminal):
		return "ended"
	case errors.Is(err, workflow.ErrRunNotFound):
		return "missing"
	case errors.Is(err, workflow.ErrReceiveTimeout):
		return "not in time"
	case errors.Is(err, workflow.ErrCanceled):
		return "cancelled"
	}
	return err.Error()
}

// waits binds a workflow that waits for the value level of another run.
func waits() flowtest.Binding {
	return flowtest.As(reads, func(ctx workflow.Context, id workflow.RunID) ([]string, error) {
		v, err := level.WaitFrom(ctx, workflow.Other(id))
		return []string{outcome(v, err)}, nil
	})
}

// awaiting waits until run is parked while it waits for a value of the run other, and other has
// recorded the request for a notice.
func awaiting(w *flowtest.World, run, other flowtest.Follows) {
	w.T.Helper()
	w.Eventually("the run waits and is parked", func() bool {
		return len(flowtest.Filter(w.Log(run), event.MessageSent)) > 0 && w.Parked(run)
	})
	w.Eventually("the other run was asked", func() bool {
		for _, e := range flowtest.Filter(w.Log(other), event.MessageReceived) {
			if e.Name == event.NoticeTopic {
				return true
			}
		}
		return false
	})
}

func TestRUN19_AWaitForAValueHoldsNothingAndEndsWhenItIsSet(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, waits(), flowtest.As(shows, show))
		other := flowtest.Start(w, shows, 0)
		run := flowtest.Start(w, reads, other.ID())
		awaiting(w, run, other)
		first.Stop() // the next workers have only the logs of the runs
		w.Work(worker.Config{}, waits(), flowtest.As(shows, show))
		send(t, w, other, 7)
		if got := flowtest.Result(w, run); got[0] != "7" {
			t.Errorf("got %q", got)
		}
		// If the value is set, the run finds it without a request.
		again := flowtest.Start(w, reads, other.ID())
		if got := flowtest.Result(w, again); got[0] != "7" || len(flowtest.Filter(w.Log(again), event.MessageSent)) != 0 {
			t.Errorf("got %q", got)
		}
		send(t, w, other, -1)
		flowtest.Result(w, other)
		for _, id := range w.Log(other)[len(w.Log(other))-1].Unread {
			t.Errorf("item %s counts as unread", id)
		}
		w.Healthy()
	})
}

func TestRUN19_ARunThatEndsWithoutTheValueIsATypedError(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, waits(), flowtest.As(shows, show))
		other := flowtest.Start(w, shows, 0)
		run := flowtest.Start(w, reads, other.ID())
		awaiting(w, run, other)
		send(t, w, other, -1)
		if got := flowtest.Result(w, run); got[0] != "ended" {
			t.Errorf("got %q", got)
		}
		// The wait also ends if the other run has ended before, or is canceled, with and without a
		// worker that serves it.
		if got := flowtest.Result(w, flowtest.Start(w, reads, other.ID())); got[0] != "ended" {
			t.Errorf("after the end: got %q", got)
		}
		canceled := flowtest.Start(w, shows, 0)
		run = flowtest.Start(w, reads, canceled.ID())
		awaiting(w, run, canceled)
		if err := canceled.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got[0] != "ended" {
			t.Errorf("after a cancel: got %q", got)
		}
		unserved := flowtest.Start(w, shows, 0, workflow.WithQueue("nobody"))
		run = flowtest.Start(w, reads, unserved.ID())
		w.Eventually("the run waits", func() bool { return len(flowtest.Filter(w.Log(run), event.MessageSent)) > 0 && w.Parked(run) })
		w.Eventually("the item has arrived", func() bool {
			got, err := w.Store.Load(w.Ctx, []store.Load{{Run: unserved.ID(), Inbox: true}})
			return err == nil && got[0].Err == nil && len(got[0].Inbox) == 1
		})
		if err := unserved.Cancel(w.Ctx, "nobody comes"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got[0] != "ended" {
			t.Errorf("of a run that nobody serves: got %q", got)
		}
		w.Healthy()
	})
}

func TestRUN19_AWaitForAValueEndsAfterItsTimeOrWithItsContext(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(shows, show), flowtest.As(parent, func(ctx workflow.Context, _ int) (string, error) {
			c := shows.StartChild(ctx, 0, workflow.WithParentClose(workflow.ParentCloseAbandon))
			_, late := level.WaitFrom(ctx, c, workflow.Timeout(10*time.Millisecond))
			_, never := level.WaitFrom(ctx, c)
			ctx = workflow.Detached(ctx)
			if err := turn.SendFrom(ctx, c.ID(), 3); err != nil {
				return "", err
			}
			v, err := level.WaitFrom(ctx, c)
			if err := turn.SendFrom(ctx, c.ID(), -1); err != nil {
				return "", err
			}
			return fmt.Sprintln(outcome(0, late), outcome(0, never), outcome(v, err)), nil
		}))
		run := flowtest.Start(w, parent, 0)
		w.Eventually("the second wait has begun", func() bool { return len(flowtest.Filter(w.Log(run), event.MessageSent)) == 2 })
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != "not in time cancelled 3\n" {
			t.Errorf("got %q", got)
		}
		w.Healthy()
	})
}

func TestRUN19_AChildHandleWaitsForAValueAlsoOfWhatTheChildContinuesAs(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(loops, func(ctx workflow.Context, n int) (int, error) {
			if n > 0 {
				if _, err := turn.Receive(ctx); err != nil {
					return 0, err
				}
				return 0, loops.ContinueAsNew(ctx, n-1)
			}
			level.Set(ctx, 5)
			return turn.Receive(ctx)
		}), flowtest.As(parent, func(ctx workflow.Context, n int) (string, error) {
			c := loops.StartChild(ctx, n)
			v, err := level.WaitFrom(ctx, c)
			if err != nil {
				return "", err
			}
			if err := turn.SendFrom(ctx, c.ID(), 9); err != nil {
				return "", err
			}
			end, err := c.Get(ctx)
			return fmt.Sprint(v, " ", end), err
		}))
		run := flowtest.Start(w, parent, 3)
		created := w.Reach(run, event.ChildStarted, 1)
		for n := range 3 {
			if n == 1 { // so the second run has the request, and the third run must send the notice
				w.Eventually("the parent waits", func() bool { return w.Parked(run) })
			}
			send(t, w, w.Client.Run(created.Next), n)
		}
		if got := flowtest.Result(w, run); got != "5 9" {
			t.Errorf("got %q", got)
		}
		w.Healthy()
	})
}

func TestRUN19_EachOfManyWaitersIsToldHoweverItRacesWithTheEnd(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, waits(), flowtest.As(shows, show))
		const rounds, waiters = 20, 10
		for round := range rounds {
			other := flowtest.Start(w, shows, 0)
			var runs []*workflow.Run[[]string]
			for range waiters {
				runs = append(runs, flowtest.Start(w, reads, other.ID()))
			}
			if round%2 == 0 {
				send(t, w, other, round)
			}
			send(t, w, other, -1)
			want := "ended"
			if round%2 == 0 {
				want = fmt.Sprint(round)
			}
			for _, run := range runs {
				if got := flowtest.Result(w, run); got[0] != want {
					t.Errorf("round %d: got %q, want %q", round, got, want)
				}
			}
		}
		w.Healthy()
	})
}

// family binds a parent that waits for two values of its child. The child sets the first value
// after a step.
func family(e *workflowtest.Env) {
	work.As(func(_ context.Context, s string) (string, error) { return s, nil })(e)
	shim.BindWorkflow(e, loops, func(ctx workflow.Context, n int) (int, error) {
		if _, err := work.Call(ctx, "before"); err != nil {
			return 0, err
		}
		if n > 0 {
			return 0, loops.ContinueAsNew(ctx, n-1)
		}
		level.Set(ctx, 4)
		_, err := work.Call(ctx, "after")
		return 1, err
	})
	shim.BindWorkflow(e, parent, func(ctx workflow.Context, n int) (string, error) {
		c := loops.StartChild(ctx, n)
		v, err := level.WaitFrom(ctx, c)
		if err != nil {
			return "", err
		}
		end, err := c.Get(ctx)
		if err != nil {
			return "", err
		}
		_, none := workflow.NewValue[int]("others.none").WaitFrom(ctx, c)
		return fmt.Sprintln(v, end, outcome(0, none)), nil
	})
}

func TestRUN19_AWaitForAValueSurvivesACrashAtEachPoint(t *testing.T) {
	on := func(partitions int) workflowtest.Option {
		return workflowtest.WithStore(func(testing.TB) store.Store { return memstore.NewWith(memstore.Config{Partitions: partitions}) })
	}
	t.Logf("%+v", workflowtest.CrashEverywhere(t, parent, 0, family, on(1), workflowtest.Sample(60), workflowtest.Pairs(20)))
	t.Logf("%+v", workflowtest.CrashEverywhere(t, parent, 1, family, on(3), workflowtest.Sample(60), workflowtest.Pairs(20)))
}

func TestRUN19_AWaitForAValueEndsInEachOrderOfArrivals(t *testing.T) {
	r := workflowtest.Interleave(t, parent, 1, family, 60, workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, o workflowtest.Outcome) {
		if o.Status == workflow.StatusCompleted && string(o.Result) != `"4 1 ended\n"` {
			t.Errorf("got %s", o.Result)
		}
	}))
	t.Logf("%+v", r)
}
