package questions_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW6_ATokenOfTheUsersOwnIsUniqueWhileItsHookIsOpen(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Hold)
		first := flowtest.Start(w, flowtest.Holds, "order-7")
		w.Opened(first)
		failed := flowtest.Failure(w, flowtest.Start(w, flowtest.Holds, "order-7"))
		var conflict *workflow.TokenConflictError
		if !errors.As(failed, &conflict) {
			t.Fatalf("the later one: got %v, want a *TokenConflictError", failed)
		}
		if diff := cmp.Diff(&workflow.TokenConflictError{Token: "order-7", Holder: first.ID()}, conflict); diff != "" {
			t.Error(diff)
		}
		other := flowtest.Start(w, flowtest.Holds, "order-8")
		w.Opened(other)
		w.Resume("order-7", 1)
		w.Resume("order-8", 2)
		if got := flowtest.Result(w, first); got != 1 {
			t.Errorf("order-7: got %d", got)
		}
		if got := flowtest.Result(w, other); got != 2 {
			t.Errorf("order-8: got %d", got)
		}
		if err := flowtest.Paid.Send(w.Ctx, w.Client, "order-7", 1); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("after the end: got %v, want ErrHookDisposed", err)
		}
		again := flowtest.Start(w, flowtest.Holds, "order-7") // the end of the first run has freed the token
		w.Opened(again)
		w.Resume("order-7", 3)
		if got := flowtest.Result(w, again); got != 3 {
			t.Errorf("the next holder: got %d", got)
		}
	})
}

func TestFLOW6_OfManyRunsThatWantATokenOneGetsIt(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Hold)
		const runs = 20
		var won atomic.Int64
		var conflicts atomic.Int64
		var all sync.WaitGroup
		first := make(chan struct{}, runs)
		for range runs {
			run := flowtest.Start(w, flowtest.Holds, "one")
			all.Go(func() {
				v, err := run.Result(w.Ctx)
				switch {
				case err == nil && v == 9:
					won.Add(1)
				case errors.As(err, new(*workflow.TokenConflictError)):
					conflicts.Add(1)
					first <- struct{}{}
				default:
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		for range runs - 1 {
			<-first // all runs except one fail with a conflict
		}
		w.Resume("one", 9)
		all.Wait()
		if won.Load() != 1 || conflicts.Load() != runs-1 {
			t.Errorf("%d won, %d lost", won.Load(), conflicts.Load())
		}
	})
}

func TestFLOW6_ARunOpensATokenAgainThatItHasClosed(t *testing.T) {
	again := flowtest.Flow[int, []int]("opens-again")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(again, func(ctx workflow.Context, n int) ([]int, error) {
			var all []int
			for i := range n {
				hook, err := flowtest.Paid.Open(ctx, workflow.Token("again"))
				if err != nil {
					return all, err
				}
				var conflict *workflow.TokenConflictError
				if _, err := flowtest.Paid.Open(ctx, workflow.Token("again")); !errors.As(err, &conflict) || conflict.Holder != workflow.Info(ctx).ID {
					t.Errorf("a second time: got %v, want a *TokenConflictError about the run itself", err)
				}
				flowtest.Level.Set(ctx, i+1)
				v, err := hook.Receive(ctx)
				if err != nil {
					return all, err
				}
				hook.Dispose(ctx)
				all = append(all, v)
			}
			return all, nil
		}))
		run := flowtest.Start(w, again, 3)
		for i := 1; i <= 3; i++ {
			for v, err := range flowtest.Level.Watch(w.Ctx, run) {
				if err != nil {
					t.Fatal(err)
				}
				if v == i {
					break
				}
			}
			w.Resume("again", i)
		}
		if diff := cmp.Diff([]int{1, 2, 3}, flowtest.Result(w, run)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFLOW6_ATokenThatCannotBeOneIsATypedError(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Hold)
	for _, own := range []string{"", "wrun_mine", string(make([]byte, 201))} {
		if err := flowtest.Failure(w, flowtest.Start(w, flowtest.Holds, own)); !errors.As(err, new(*workflow.InvalidError)) || !flowtest.ContainsAll(err.Error(), "token") || errors.As(err, new(*workflow.TokenConflictError)) {
			t.Errorf("%q: got %v, want an *InvalidError about the token", own, err)
		}
	}
}

func TestFLOW6_ACanceledRunDoesNotOpenAHook(t *testing.T) {
	late := flowtest.Flow[int, int]("late")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(late, func(ctx workflow.Context, _ int) (int, error) {
		_, err := flowtest.Numbers.Receive(ctx)
		for _, opts := range [][]workflow.HookOption{nil, {workflow.Token("late")}} {
			if _, err := flowtest.Paid.Open(ctx, opts...); !errors.Is(err, workflow.ErrCanceled) {
				t.Errorf("Open: got %v, want ErrCanceled", err)
			}
		}
		return 0, err
	}))
	run := flowtest.Start(w, late, 1)
	w.Reach(run, event.WaitCreated, 1)
	if err := run.Cancel(w.Ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	flowtest.Failure(w, run)
}

func TestFLOW6_WhatHoldsATokenIsListedIfAskedForAndDoesNotCountAsAChild(t *testing.T) {
	many := flowtest.Flow[int, int]("many-tokens")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(many, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := flowtest.Paid.Open(ctx, workflow.Token(string(rune('a'+i)))); err != nil {
				return i, err
			}
		}
		return flowtest.Numbers.Receive(ctx)
	}))
	const n = flow.DefaultChildren + 5
	run := flowtest.Start(w, many, n)
	w.Reach(run, event.ChildStarted, n)
	tree, err := ops.New(w.Client).Tree(w.Ctx, run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Children) != 0 {
		t.Errorf("the tree shows %d children that nobody has started", len(tree.Children))
	}
	if got := w.List(workflow.Filter{Root: run.ID(), Internal: true}); len(got) != n+1 {
		t.Errorf("the list with internal runs has %d, want the run and its %d tokens", len(got), n)
	}
	w.Send(run, 1)
	flowtest.Result(w, run)
	w.Eventually("the tokens are free", func() bool {
		counts, err := w.Client.Count(w.Ctx, workflow.Filter{Workflow: event.HookRun, Statuses: []workflow.Status{workflow.StatusCanceled}})
		return err == nil && counts.Total() == n
	})
}
