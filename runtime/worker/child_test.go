package worker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// doubled is a child that doubles its input, and fails on negative ones.
var (
	doubles = flow[int, int]("doubles")
	double  = as(doubles, func(_ workflow.Context, n int) (int, error) {
		if n < 0 {
			return 0, &negativeError{N: n}
		}
		return 2 * n, nil
	})
)

// broad declares a workflow that may have many children at once.
func broad[In, Out any](name string) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{Children: 1 << 20})
}

type negativeError struct{ N int }

func (e *negativeError) Error() string { return fmt.Sprintf("%d is negative", e.N) }

func TestFLOW9_AChildReturnsItsTypedResult(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		parents := flow[int, int]("parents")
		w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, n int) (int, error) {
			first, err := doubles.Child(ctx, n)
			if err != nil {
				return 0, err
			}
			return doubles.Child(ctx, first)
		}))
		run := start(w, parents, 3)
		if got := result(w, run); got != 12 {
			t.Errorf("got %d, want 12", got)
		}
		for _, e := range filter(w.log(run), event.ChildCreated) {
			info, err := w.client.Run(e.Next).Info(w.ctx)
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
	onEveryStore(t, func(t *testing.T, w *world) {
		parents := flow[[]int, []string]("settles")
		w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, in []int) ([]string, error) {
			var all []string
			for _, o := range workflow.MapSettled(ctx, in, doubles.Child) {
				var negative *negativeError
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
		if diff := cmp.Diff(want, result(w, start(w, parents, []int{1, -2, 3}))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFLOW9_AChildWhoseWorkflowIDIsActiveFailsThatCallOnly(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		parents := flow[string, string]("claims")
		w.work(worker.Config{}, collect, double, as(parents, func(ctx workflow.Context, id string) (string, error) {
			child := collects.StartChild(ctx, 1, workflow.WithID(id))
			if err := child.Started(ctx); err == nil {
				return "", errors.New("it was started")
			}
			_, err := child.Get(ctx)
			var active *workflow.ActiveRunError
			if !errors.As(err, &active) {
				return "", fmt.Errorf("got %w, want *ActiveRunError", err)
			}
			n, err := doubles.Child(ctx, 4)
			return fmt.Sprint(active.Run, " ", n), err
		}))
		first := start(w, collects, 1, workflow.WithID("taken"))
		got := result(w, start(w, parents, "taken"))
		if want := fmt.Sprint(first.ID(), " ", 8); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestFLOW9_CancelPropagatesToChildrenUnlessTheyAreAbandoned(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		parents := flow[string, []string]("waits")
		w.work(worker.Config{}, collect, as(parents, func(ctx workflow.Context, _ string) ([]string, error) {
			canceled := collects.StartChild(ctx, 1)
			abandoned := collects.StartChild(ctx, 1, workflow.WithParentClose(workflow.ParentCloseAbandon))
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
		run := start(w, parents, "")
		w.reach(run, event.ChildStarted, 2)
		if err := run.Cancel(w.ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		ids := result(w, run)
		if e := failure(w, collects.Get(w.client, workflow.RunID(ids[0]))); e.Status != workflow.StatusCanceled {
			t.Errorf("the child is %s, want cancelled", e.Status)
		}
		left := collects.Get(w.client, workflow.RunID(ids[1]))
		if err := numbers.Send(w.ctx, left, 5); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{5}, result(w, left)); diff != "" {
			t.Errorf("the abandoned child (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW9_TheParentsEndClosesChildrenByPolicy(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		parents := flow[string, []workflow.RunID]("ends")
		w.work(worker.Config{}, collect, as(parents, func(ctx workflow.Context, _ string) ([]workflow.RunID, error) {
			return []workflow.RunID{
				collects.StartChild(ctx, 1).ID(),
				collects.StartChild(ctx, 1, workflow.WithParentClose(workflow.ParentCloseWait)).ID(),
			}, nil
		}))
		run := start(w, parents, "")
		waited := w.reach(run, event.ChildCreated, 2).Next
		w.reach(run, event.ChildStarted, 2)
		if info, err := run.Info(w.ctx); err != nil || info.Status.Terminal() {
			t.Fatalf("the parent is %s, %v: want it to wait", info.Status, err)
		}
		if err := numbers.Send(w.ctx, w.client.Run(waited), 1); err != nil {
			t.Fatal(err)
		}
		ids := result(w, run)
		if e := failure(w, collects.Get(w.client, ids[0])); e.Status != workflow.StatusCanceled {
			t.Errorf("the child that is to be canceled is %s", e.Status)
		}
		result(w, collects.Get(w.client, ids[1]))
	})
}

func TestFLOW9_TheLimitsGiveATypedErrorAndLoseNothing(t *testing.T) {
	w := newMemory(t)
	parents, deep := flow[int, int]("greedy"), flow[int, int]("deep")
	w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		for _, o := range workflow.MapSettled(ctx, make([]int, n), func(ctx workflow.Context, _ int) (int, error) { return doubles.Child(ctx, 1) }) {
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
	}), as(deep, func(ctx workflow.Context, n int) (int, error) {
		v, err := flow[int, int]("deep").Child(ctx, n+1)
		var limit *workflow.LimitError
		if errors.As(err, &limit) && workflow.Info(ctx).Depth == workflow.MaxDepth {
			return n, nil
		}
		return v, err
	}))
	if got, want := result(w, start(w, parents, 12)), 2*10+2*10_000; got != want {
		t.Errorf("12 children: got %d, want %d: 10 results and 2 errors", got, want)
	}
	if got := result(w, start(w, deep, 0)); got != workflow.MaxDepth {
		t.Errorf("a run that starts itself ended at depth %d, want %d", got, workflow.MaxDepth)
	}
}

func TestFLOW9_TheLimitInAllIsThatOfEachParentAndNotOfTheRoot(t *testing.T) {
	w := newMemory(t)
	const most, few = workflow.DefaultChildrenInAll, 5
	greedy, tops := flow[int, int]("in-all"), flow[int, int]("two-of-them")
	w.work(worker.Config{}, double, as(greedy, func(ctx workflow.Context, n int) (int, error) {
		started := 0
		child := func(ctx workflow.Context, _ int) (int, error) { return doubles.Child(ctx, 1) }
		for _, o := range workflow.MapSettled(ctx, make([]int, n), child, workflow.Limit(workflow.DefaultChildren)) {
			var limit *workflow.LimitError
			switch {
			case o.Err == nil:
				started++
			case !errors.As(o.Err, &limit) || limit.Limit != most:
				return 0, o.Err
			}
		}
		return started, nil
	}), as(tops, func(ctx workflow.Context, _ int) (int, error) {
		first, err := greedy.Child(ctx, most+2)
		if err != nil {
			return 0, err
		}
		second, err := greedy.Child(ctx, few)
		return first + second, err
	}))
	if got, want := result(w, start(w, tops, 0)), most+few; got != want {
		t.Errorf("%d runs were started below the children of a root, want %d: the limit of the one, and all of the other", got, want)
	}
}

func TestFLOW9_AParentWaitsForThousandsOfChildren(t *testing.T) {
	const n = 3000
	w := newMemory(t)
	parents := broad[int, int]("crowd")
	w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, n int) (int, error) {
		futures := make([]*workflow.Future[int], n)
		for i := range futures {
			futures[i] = doubles.StartChild(ctx, i).Future
		}
		all, err := workflow.All(ctx, futures...)
		sum := 0
		for _, v := range all {
			sum += v
		}
		return sum, err
	}))
	if got, want := result(w, start(w, parents, n)), n*(n-1); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestFLOW9_AChildRunsOnAnotherQueue(t *testing.T) {
	w := newMemory(t)
	parents := flow[int, int]("routes")
	w.work(worker.Config{Queues: []string{"default"}}, as(parents, func(ctx workflow.Context, n int) (int, error) {
		return doubles.StartChild(ctx, n, workflow.WithQueue("far")).Get(ctx)
	}))
	w.work(worker.Config{Queues: []string{"far"}}, double)
	if got := result(w, start(w, parents, 21)); got != 42 {
		t.Errorf("got %d, want 42", got)
	}
}

func TestFLOW9_AChildStartsLater(t *testing.T) {
	w := newVirtual(t)
	parents := flow[int, int]("delays")
	w.work(worker.Config{}, double, as(parents, func(ctx workflow.Context, n int) (int, error) {
		return doubles.StartChild(ctx, n, workflow.WithDelay(time.Hour)).Get(ctx)
	}))
	began := w.clock.Now()
	run := start(w, parents, 21)
	child := w.reach(run, event.ChildStarted, 1).Next
	w.clock.Advance(time.Hour)
	result(w, run)
	info, err := w.client.Run(child).Info(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := info.EndedAt.Sub(began); !exactly(d, time.Hour) {
		t.Errorf("it ended after %v, want an hour", d)
	}
}

func TestFLOW5_ARunSendsToAnotherOneAndIsToldWhatBecameOfIt(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		senders := flow[workflow.RunID, string]("sends")
		w.work(worker.Config{}, collect, as(senders, func(ctx workflow.Context, to workflow.RunID) (string, error) {
			for n := range 3 {
				if err := numbers.SendFrom(ctx, to, n); err != nil {
					return "", err
				}
			}
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return "", err
			}
			err := numbers.SendFrom(ctx, to, 3)
			for err == nil { // it may not have ended yet
				err = numbers.SendFrom(ctx, to, 3)
			}
			if !errors.Is(err, workflow.ErrRunTerminal) {
				return "", fmt.Errorf("got %w, want ErrRunTerminal", err)
			}
			nobody := event.NewRunID(time.Now(), 7)
			if err = numbers.SendFrom(ctx, nobody, 1); !errors.Is(err, workflow.ErrRunNotFound) {
				return "", fmt.Errorf("got %w, want ErrRunNotFound", err)
			}
			return "told", nil
		}))
		to := start(w, collects, 3)
		run := start(w, senders, to.ID())
		if diff := cmp.Diff([]int{0, 1, 2}, result(w, to)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := result(w, run); got != "told" {
			t.Errorf("got %q", got)
		}
	})
}

func TestFLOW9_WhatADeadWorkerLeftInItsOutboxIsCarriedOverByAnother(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(t), workflow.ClientConfig{})
			deaf := &outboxless{Store: w.store}
			client := workflow.NewClient(deaf, workflow.ClientConfig{})
			parents := flow[int, int]("orphans")
			parent := as(parents, func(ctx workflow.Context, n int) (int, error) { return doubles.Child(ctx, n) })
			first := &world{t: t, ctx: w.ctx, store: deaf, client: client, logs: w.logs}
			run := start(first, parents, 4)
			dying := first.work(worker.Config{}, parent)
			w.reach(run, event.ChildCreated, 1)
			dying.stop()
			w.work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}, double, parent)
			if got := result(w, run); got != 8 {
				t.Errorf("got %d, want 8", got)
			}
		})
	}
}
