package flows_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// broad declares a workflow with a very high limit of open children.
func broad[In, Out any](name string) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{Children: 1 << 20})
}

func TestFLOW9_AChildReturnsItsTypedResult(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		parents := flowtest.Flow[int, int]("parents")
		w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
			first, err := flowtest.Doubles.Child(ctx, n)
			if err != nil {
				return 0, err
			}
			return flowtest.Doubles.Child(ctx, first)
		}))
		run := flowtest.Start(w, parents, 3)
		if got := flowtest.Result(w, run); got != 12 {
			t.Errorf("got %d, want 12", got)
		}
		for _, e := range flowtest.Filter(w.Log(run), event.ChildCreated) {
			info, err := w.Client.Run(e.Next).Info(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			if info.Parent != run.ID() || info.Root != run.ID() || info.Depth != 1 {
				t.Errorf("child %s: parent %s, root %s, depth %d", e.Next, info.Parent, info.Root, info.Depth)
			}
		}
	})
}

func TestFLOW9_OneFailingChildOfManyFailsTheCallOnly(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		parents := flowtest.Flow[[]int, []string]("settles")
		w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, in []int) ([]string, error) {
			var all []string
			for _, o := range workflow.MapSettled(ctx, in, flowtest.Doubles.Child) {
				var negative *flowtest.NegativeError
				var failed *workflow.RunError
				switch {
				case errors.As(o.Err, &negative) && errors.As(o.Err, &failed):
					all = append(all, fmt.Sprintf("%s: %d", failed.Status, negative.N))
				case o.Err != nil:
					return nil, o.Err
				default:
					all = append(all, fmt.Sprint(o.Value))
				}
			}
			return all, nil
		}))
		want := []string{"2", "failed: -2", "6"}
		if diff := cmp.Diff(want, flowtest.Result(w, flowtest.Start(w, parents, []int{1, -2, 3}))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFLOW9_AChildWhoseWorkflowIDIsActiveFailsThatCallOnly(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		parents := flowtest.Flow[string, string]("claims")
		w.Work(worker.Config{}, flowtest.Collect, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, id string) (string, error) {
			child := flowtest.Collects.StartChild(ctx, 1, workflow.WithID(id))
			if err := child.Started(ctx); err == nil {
				return "", errors.New("it was started")
			}
			_, err := child.Get(ctx)
			var active *workflow.ActiveRunError
			if !errors.As(err, &active) {
				return "", fmt.Errorf("got %w, want *ActiveRunError", err)
			}
			n, err := flowtest.Doubles.Child(ctx, 4)
			return fmt.Sprint(active.Run, " ", n), err
		}))
		first := flowtest.Start(w, flowtest.Collects, 1, workflow.WithID("taken"))
		got := flowtest.Result(w, flowtest.Start(w, parents, "taken"))
		if want := fmt.Sprint(first.ID(), " ", 8); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestFLOW9_CancelPropagatesToChildrenUnlessTheyAreAbandoned(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		parents := flowtest.Flow[string, []string]("waits")
		w.Work(worker.Config{}, flowtest.Collect, flowtest.As(parents, func(ctx workflow.Context, _ string) ([]string, error) {
			canceled := flowtest.Collects.StartChild(ctx, 1)
			abandoned := flowtest.Collects.StartChild(ctx, 1, workflow.WithParentClose(workflow.ParentCloseAbandon))
			for _, c := range []*workflow.Child[[]int]{canceled, abandoned} {
				if err := c.Started(ctx); err != nil {
					return nil, err
				}
			}
			ids := []string{string(canceled.ID()), string(abandoned.ID())}
			_, err := canceled.Get(ctx)
			if !errors.Is(err, workflow.ErrCanceled) || !errors.Is(ctx.Err(), workflow.ErrCanceled) {
				return nil, fmt.Errorf("got %w", err)
			}
			return ids, nil
		}))
		run := flowtest.Start(w, parents, "")
		w.Reach(run, event.ChildStarted, 2)
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		ids := flowtest.Result(w, run)
		if e := flowtest.Failure(w, flowtest.Collects.Get(w.Client, workflow.RunID(ids[0]))); e.Status != workflow.StatusCanceled {
			t.Errorf("the child is %s, want cancelled", e.Status)
		}
		left := flowtest.Collects.Get(w.Client, workflow.RunID(ids[1]))
		if err := flowtest.Numbers.Send(w.Ctx, left, 5); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{5}, flowtest.Result(w, left)); diff != "" {
			t.Errorf("the abandoned child (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW9_TheParentsEndClosesChildrenByPolicy(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		parents := flowtest.Flow[string, []workflow.RunID]("ends")
		w.Work(worker.Config{}, flowtest.Collect, flowtest.As(parents, func(ctx workflow.Context, _ string) ([]workflow.RunID, error) {
			return []workflow.RunID{
				flowtest.Collects.StartChild(ctx, 1).ID(),
				flowtest.Collects.StartChild(ctx, 1, workflow.WithParentClose(workflow.ParentCloseWait)).ID(),
			}, nil
		}))
		run := flowtest.Start(w, parents, "")
		waited := w.Reach(run, event.ChildCreated, 2).Next
		w.Reach(run, event.ChildStarted, 2)
		if info, err := run.Info(w.Ctx); err != nil || info.Status.Terminal() {
			t.Fatalf("the parent is %s, %v: want it to wait", info.Status, err)
		}
		if err := flowtest.Numbers.Send(w.Ctx, w.Client.Run(waited), 1); err != nil {
			t.Fatal(err)
		}
		ids := flowtest.Result(w, run)
		if e := flowtest.Failure(w, flowtest.Collects.Get(w.Client, ids[0])); e.Status != workflow.StatusCanceled {
			t.Errorf("the child that is to be canceled is %s", e.Status)
		}
		flowtest.Result(w, flowtest.Collects.Get(w.Client, ids[1]))
	})
}

func TestFLOW9_TheLimitsGiveATypedErrorAndLoseNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	parents, deep := flowtest.Flow[int, int]("greedy"), flowtest.Flow[int, int]("deep")
	w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		for _, o := range workflow.MapSettled(ctx, make([]int, n), func(ctx workflow.Context, _ int) (int, error) { return flowtest.Doubles.Child(ctx, 1) }) {
			var limit *workflow.LimitError
			switch {
			case errors.As(o.Err, &limit):
				sum += 1000 * limit.Limit
			case o.Err != nil:
				return 0, o.Err
			default:
				sum += o.Value
			}
		}
		return sum, nil
	}), flowtest.As(deep, func(ctx workflow.Context, n int) (int, error) {
		v, err := flowtest.Flow[int, int]("deep").Child(ctx, n+1)
		var limit *workflow.LimitError
		if errors.As(err, &limit) && workflow.Info(ctx).Depth == flow.MaxDepth {
			return n, nil
		}
		return v, err
	}))
	if got, want := flowtest.Result(w, flowtest.Start(w, parents, 12)), 2*10+2*10_000; got != want {
		t.Errorf("12 children: got %d, want %d: 10 results and 2 errors", got, want)
	}
	if got := flowtest.Result(w, flowtest.Start(w, deep, 0)); got != flow.MaxDepth {
		t.Errorf("a run that starts itself ended at depth %d, want %d", got, flow.MaxDepth)
	}
}

func TestFLOW9_TheLimitInAllIsThatOfEachParentAndNotOfTheRoot(t *testing.T) {
	w := flowtest.NewMemory(t)
	const most, few = flow.DefaultChildrenInAll, 5
	greedy, tops := flowtest.Flow[int, int]("in-all"), flowtest.Flow[int, int]("two-of-them")
	w.Work(worker.Config{}, flowtest.Double, flowtest.As(greedy, func(ctx workflow.Context, n int) (int, error) {
		started := 0
		child := func(ctx workflow.Context, _ int) (int, error) { return flowtest.Doubles.Child(ctx, 1) }
		for _, o := range workflow.MapSettled(ctx, make([]int, n), child, workflow.Limit(flow.DefaultChildren)) {
			var limit *workflow.LimitError
			switch {
			case o.Err == nil:
				started++
			case !errors.As(o.Err, &limit) || limit.Limit != most:
				return 0, o.Err
			}
		}
		return started, nil
	}), flowtest.As(tops, func(ctx workflow.Context, _ int) (int, error) {
		first, err := greedy.Child(ctx, most+2)
		if err != nil {
			return 0, err
		}
		second, err := greedy.Child(ctx, few)
		return first + second, err
	}))
	if got, want := flowtest.Result(w, flowtest.Start(w, tops, 0)), most+few; got != want {
		t.Errorf("%d runs were started below the children of a root, want %d: the limit of the one, and all of the other", got, want)
	}
}

func TestFLOW9_AParentWaitsForThousandsOfChildren(t *testing.T) {
	const n = 3000
	w := flowtest.NewMemory(t)
	parents := broad[int, int]("crowd")
	w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
		futures := make([]*workflow.Future[int], n)
		for i := range futures {
			futures[i] = flowtest.Doubles.StartChild(ctx, i).Future
		}
		all, err := workflow.All(ctx, futures...)
		sum := 0
		for _, v := range all {
			sum += v
		}
		return sum, err
	}))
	if got, want := flowtest.Result(w, flowtest.Start(w, parents, n)), n*(n-1); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestFLOW9_AChildRunsOnAnotherQueue(t *testing.T) {
	w := flowtest.NewMemory(t)
	parents := flowtest.Flow[int, int]("routes")
	w.Work(worker.Config{Queues: []string{"default"}}, flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
		return flowtest.Doubles.StartChild(ctx, n, workflow.WithQueue("far")).Get(ctx)
	}))
	w.Work(worker.Config{Queues: []string{"far"}}, flowtest.Double)
	if got := flowtest.Result(w, flowtest.Start(w, parents, 21)); got != 42 {
		t.Errorf("got %d, want 42", got)
	}
}

func TestFLOW9_AChildStartsLater(t *testing.T) {
	w := flowtest.NewVirtual(t)
	parents := flowtest.Flow[int, int]("delays")
	w.Work(worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
		return flowtest.Doubles.StartChild(ctx, n, workflow.WithDelay(time.Hour)).Get(ctx)
	}))
	began := w.Clock.Now()
	run := flowtest.Start(w, parents, 21)
	child := w.Reach(run, event.ChildStarted, 1).Next
	w.Clock.Advance(time.Hour)
	flowtest.Result(w, run)
	info, err := w.Client.Run(child).Info(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := info.EndedAt.Sub(began); !flowtest.Exactly(d, time.Hour) {
		t.Errorf("it ended after %v, want an hour", d)
	}
}

func TestFLOW5_ARunSendsToAnotherOneAndIsToldWhatBecameOfIt(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		senders := flowtest.Flow[workflow.RunID, string]("sends")
		w.Work(worker.Config{}, flowtest.Collect, flowtest.As(senders, func(ctx workflow.Context, to workflow.RunID) (string, error) {
			for n := range 3 {
				if err := flowtest.Numbers.SendFrom(ctx, to, n); err != nil {
					return "", err
				}
			}
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return "", err
			}
			err := flowtest.Numbers.SendFrom(ctx, to, 3)
			for err == nil { // the receiver may not have ended yet
				err = flowtest.Numbers.SendFrom(ctx, to, 3)
			}
			if !errors.Is(err, workflow.ErrRunTerminal) {
				return "", fmt.Errorf("got %w, want ErrRunTerminal", err)
			}
			nobody := event.NewRunID(time.Now(), 7)
			if err = flowtest.Numbers.SendFrom(ctx, nobody, 1); !errors.Is(err, workflow.ErrRunNotFound) {
				return "", fmt.Errorf("got %w, want ErrRunNotFound", err)
			}
			return "told", nil
		}))
		to := flowtest.Start(w, flowtest.Collects, 3)
		run := flowtest.Start(w, senders, to.ID())
		if diff := cmp.Diff([]int{0, 1, 2}, flowtest.Result(w, to)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := flowtest.Result(w, run); got != "told" {
			t.Errorf("got %q", got)
		}
	})
}

func TestFLOW9_WhatADeadWorkerLeftInItsOutboxIsCarriedOverByAnother(t *testing.T) {
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
			deaf := &outboxless{Store: w.Store}
			client := flowtest.NewClient(deaf, workflow.ClientConfig{})
			parents := flowtest.Flow[int, int]("orphans")
			parent := flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) { return flowtest.Doubles.Child(ctx, n) })
			first := &flowtest.World{T: t, Ctx: w.Ctx, Store: deaf, Client: client, Logs: w.Logs}
			run := flowtest.Start(first, parents, 4)
			dying := first.Work(worker.Config{}, parent)
			w.Reach(run, event.ChildCreated, 1)
			dying.Stop()
			w.Work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}, flowtest.Double, parent)
			if got := flowtest.Result(w, run); got != 8 {
				t.Errorf("got %d, want 8", got)
			}
		})
	}
}

// outboxless is a store whose outbox appears to be empty, so that its worker delivers no records.
type outboxless struct{ store.Store }

// Unwrap returns the wrapped store.
func (s *outboxless) Unwrap() store.Store { return s.Store }

// Outbox returns no records.
func (s *outboxless) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, nil
}
