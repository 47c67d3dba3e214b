package worker_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	holds = flow[string, int]("holds") // opens a hook with its input as the token, takes one payload
	hold  = as(holds, func(ctx workflow.Context, own string) (int, error) {
		hook, err := paid.Open(ctx, workflow.Token(own))
		if err != nil {
			return 0, err
		}
		return hook.Receive(ctx)
	})
)

// opened waits until the run has a hook with a token of its own.
func (w *world) opened(run follows) { w.reach(run, event.ChildStarted, 1) }

func TestFLOW6_ATokenOfTheUsersOwnIsUniqueWhileItsHookIsOpen(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, hold)
		first := start(w, holds, "order-7")
		w.opened(first)
		failed := failure(w, start(w, holds, "order-7"))
		var conflict *workflow.TokenConflictError
		if !errors.As(failed, &conflict) {
			t.Fatalf("the later one: got %v, want a *TokenConflictError", failed)
		}
		if diff := cmp.Diff(&workflow.TokenConflictError{Token: "order-7", Holder: first.ID()}, conflict); diff != "" {
			t.Error(diff)
		}
		other := start(w, holds, "order-8")
		w.opened(other)
		w.resume("order-7", 1)
		w.resume("order-8", 2)
		if got := result(w, first); got != 1 {
			t.Errorf("order-7: got %d", got)
		}
		if got := result(w, other); got != 2 {
			t.Errorf("order-8: got %d", got)
		}
		if err := paid.Send(w.ctx, w.client, "order-7", 1); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("after the end: got %v, want ErrHookDisposed", err)
		}
		again := start(w, holds, "order-7") // the end has freed it
		w.opened(again)
		w.resume("order-7", 3)
		if got := result(w, again); got != 3 {
			t.Errorf("the next holder: got %d", got)
		}
	})
}

func TestFLOW6_OfManyRunsThatWantATokenOneGetsIt(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, hold)
		const runs = 20
		var won atomic.Int64
		var conflicts atomic.Int64
		var all sync.WaitGroup
		first := make(chan struct{}, runs)
		for range runs {
			run := start(w, holds, "one")
			all.Go(func() {
				v, err := run.Result(w.ctx)
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
			<-first // all but one have lost
		}
		w.resume("one", 9)
		all.Wait()
		if won.Load() != 1 || conflicts.Load() != runs-1 {
			t.Errorf("%d won, %d lost", won.Load(), conflicts.Load())
		}
	})
}

func TestFLOW6_ARunOpensATokenAgainThatItHasClosed(t *testing.T) {
	again := flow[int, []int]("opens-again")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(again, func(ctx workflow.Context, n int) ([]int, error) {
			var all []int
			for i := range n {
				hook, err := paid.Open(ctx, workflow.Token("again"))
				if err != nil {
					return all, err
				}
				var conflict *workflow.TokenConflictError
				if _, err := paid.Open(ctx, workflow.Token("again")); !errors.As(err, &conflict) || conflict.Holder != workflow.Info(ctx).ID {
					t.Errorf("a second time: got %v, want a *TokenConflictError about the run itself", err)
				}
				level.Set(ctx, i+1)
				v, err := hook.Receive(ctx)
				if err != nil {
					return all, err
				}
				hook.Dispose(ctx)
				all = append(all, v)
			}
			return all, nil
		}))
		run := start(w, again, 3)
		for i := 1; i <= 3; i++ {
			for v, err := range level.Watch(w.ctx, run) {
				if err != nil {
					t.Fatal(err)
				}
				if v == i {
					break
				}
			}
			w.resume("again", i)
		}
		if diff := cmp.Diff([]int{1, 2, 3}, result(w, run)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFLOW6_ATokenThatCannotBeOneIsATypedError(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, hold)
	for _, own := range []string{"", "wrun_mine", string(make([]byte, 201))} {
		if err := failure(w, start(w, holds, own)); !errors.As(err, new(*workflow.InvalidError)) || !containsAll(err.Error(), "token") || errors.As(err, new(*workflow.TokenConflictError)) {
			t.Errorf("%q: got %v, want an *InvalidError about the token", own, err)
		}
	}
}

func TestFLOW6_ACanceledRunDoesNotOpenAHook(t *testing.T) {
	late := flow[int, int]("late")
	w := newMemory(t)
	w.work(worker.Config{}, as(late, func(ctx workflow.Context, _ int) (int, error) {
		_, err := numbers.Receive(ctx)
		for _, opts := range [][]workflow.HookOption{nil, {workflow.Token("late")}} {
			if _, err := paid.Open(ctx, opts...); !errors.Is(err, workflow.ErrCanceled) {
				t.Errorf("Open: got %v, want ErrCanceled", err)
			}
		}
		return 0, err
	}))
	run := start(w, late, 1)
	w.reach(run, event.WaitCreated, 1)
	if err := run.Cancel(w.ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	failure(w, run)
}

func TestFLOW6_WhatHoldsATokenIsListedIfAskedForAndDoesNotCountAsAChild(t *testing.T) {
	many := flow[int, int]("many-tokens")
	w := newMemory(t)
	w.work(worker.Config{}, as(many, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := paid.Open(ctx, workflow.Token(string(rune('a'+i)))); err != nil {
				return i, err
			}
		}
		return numbers.Receive(ctx)
	}))
	const n = workflow.DefaultChildren + 5
	run := start(w, many, n)
	w.reach(run, event.ChildStarted, n)
	tree, err := w.client.Tree(w.ctx, run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Children) != 0 {
		t.Errorf("the tree shows %d children that nobody has started", len(tree.Children))
	}
	if got := w.list(workflow.Filter{Root: run.ID(), Internal: true}); len(got) != n+1 {
		t.Errorf("the list with internal runs has %d, want the run and its %d tokens", len(got), n)
	}
	w.send(run, 1)
	result(w, run)
	w.eventually("the tokens are free", func() bool {
		counts, err := w.client.Count(w.ctx, workflow.Filter{Workflow: event.HookRun, Statuses: []workflow.Status{workflow.StatusCanceled}})
		return err == nil && counts[workflow.StatusCanceled] == n
	})
}
