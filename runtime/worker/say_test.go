package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW16_ContinueAsNewAnswersFirstWhatItHasAccepted(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		leaves := flow[int, int]("leaves")
		begun, release := make(chan struct{}, 2), make(chan struct{})
		w.work(worker.Config{}, slow.as(func(_ context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-release
			return n, nil
		}), as(leaves, func(ctx workflow.Context, round int) (int, error) {
			add.Handle(ctx, nil, func(ctx workflow.Context, n int) (int, error) {
				if round > 0 {
					return 100 + n, nil
				}
				return slow.Call(ctx, n)
			})
			if _, err := numbers.Receive(ctx); err != nil {
				return 0, err
			}
			if round > 0 {
				return round, nil
			}
			return 0, leaves.ContinueAsNew(ctx, 1)
		}))
		run := start(w, leaves, 0)
		w.reach(run, event.WaitCreated, 1)
		ask := func(n int) chan int {
			answer := make(chan int, 1)
			go func() {
				v, err := add.Ask(w.ctx, run, n)
				if err != nil {
					t.Error(err)
				}
				answer <- v
			}()
			return answer
		}
		first := ask(1)
		<-begun
		w.send(run, 1) // the code returns
		w.reach(run, event.WaitCompleted, 1)
		second := ask(2)
		w.reach(run, event.AskReceived, 1) // nobody accepts it any more
		close(release)
		if got := <-first; got != 1 {
			t.Errorf("what was accepted: got %d, want 1", got)
		}
		if got := <-second; got != 102 {
			t.Errorf("what came later: got %d, want 102, from the next run", got)
		}
		w.send(run, 2)
		if got := result(w, run); got != 1 {
			t.Errorf("result: %d", got)
		}
	})
}

func TestRUN12_WhatAPausedRunIsToldAndAskedComesIntoEffectWhenItIsResumed(t *testing.T) {
	pausing := flow[int, int]("pausing")
	w := newMemory(t)
	w.work(worker.Config{Parked: 1}, as(pausing, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		sum := 0
		add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) {
			sum += n
			return sum, nil
		})
		if _, err := numbers.Receive(ctx); err != nil {
			return 0, err
		}
		hook.Dispose(ctx)
		_, err = numbers.Receive(ctx)
		return sum, err
	}))
	run := start(w, pausing, 0)
	tok := w.reach(run, event.HookCreated, 1).Token
	w.reach(run, event.WaitCreated, 1)
	order(t, run.Pause(w.ctx))
	w.reach(run, event.RunPaused, 1)
	w.send(run, 1) // lets the code close the hook
	w.resume(tok, 7)
	w.reach(run, event.HookReceived, 1)
	asked := make(chan int, 1)
	go func() {
		v, err := add.Ask(w.ctx, run, 5)
		if err != nil {
			t.Error(err)
		}
		asked <- v
	}()
	w.reach(run, event.AskAccepted, 1)
	order(t, run.Resume(w.ctx))
	if got := <-asked; got != 5 {
		t.Errorf("answer: got %d, want 5", got)
	}
	w.send(run, 2)
	if got := result(w, run); got != 5 {
		t.Errorf("result: got %d, want 5", got)
	}
	last := w.reach(run, event.RunCompleted, 1)
	if len(last.Unread) != 1 {
		t.Errorf("unread %q, want the payload that came before the hook was closed", last.Unread)
	}
}

func TestRUN11_AForkHasAHookOfItsOwnAndIsNotAskedAgain(t *testing.T) {
	forked := flow[int, int]("forked-hook")
	here := aStep[int, int]("here", shim.Policy{})
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, here.as(func(_ context.Context, n int) (int, error) { return n, nil }),
			as(forked, func(ctx workflow.Context, _ int) (int, error) {
				sum := 0
				add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) {
					sum += n
					return sum, nil
				})
				for _, opts := range [][]workflow.HookOption{nil, {workflow.Token("forked")}} {
					old, err := paid.Open(ctx, opts...)
					if err != nil {
						return 0, err
					}
					old.Dispose(ctx)
				}
				if _, err := here.CallKey(ctx, "1", 1); err != nil {
					return 0, err
				}
				hook, err := paid.Open(ctx)
				if err != nil {
					return 0, err
				}
				if _, err := here.CallKey(ctx, "2", 2); err != nil {
					return 0, err
				}
				n, err := hook.Receive(ctx)
				return 100*sum + n, err
			}))
		run := start(w, forked, 0)
		w.reach(run, event.WaitCreated, 1)
		if v, err := add.Ask(w.ctx, run, 3); v != 3 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		fork, err := run.Fork(w.ctx, "forked-hook/test.here[2]")
		if err != nil {
			t.Fatal(err)
		}
		w.reach(fork, event.WaitCreated, 1)
		oldHooks, newHooks := filter(w.log(run), event.HookCreated), filter(w.log(fork), event.HookCreated)
		old, fresh := oldHooks[len(oldHooks)-1].Token, newHooks[len(newHooks)-1].Token
		if old == fresh {
			t.Error("the fork has the token of the old run")
		}
		w.resume(old, 7)
		w.resume(fresh, 8)
		if got := result(w, run); got != 307 {
			t.Errorf("the old run: got %d, want 307", got)
		}
		if got := result(w, fork); got != 8 {
			t.Errorf("the fork: got %d, want 8: what the old run was asked is its own", got)
		}
	})
}

func TestRUN12_EachOfTheseIsOneOperationInDebugMode(t *testing.T) {
	debugged := flow[int, int]("debugged-say")
	w := newMemory(t)
	w.work(worker.Config{}, as(debugged, func(ctx workflow.Context, _ int) (int, error) {
		level.Set(ctx, 1)
		hook, err := paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) { return n, nil })
		hook.Dispose(ctx)
		workflow.CloseAsks(ctx)
		level.Set(ctx, 2)
		return 3, nil
	}))
	run := start(w, debugged, 0, workflow.WithDebug())
	types := func() (types []event.Type) {
		for _, e := range w.log(run) {
			if e.Type != event.RunStepped {
				types = append(types, e.Type)
			}
		}
		return types[2:]
	}
	want := [][]event.Type{
		{event.ValueSet}, {event.ValueSet, event.HookCreated}, {event.ValueSet, event.HookCreated},
		{event.ValueSet, event.HookCreated, event.HookDisposed}, {event.ValueSet, event.HookCreated, event.HookDisposed},
		{event.ValueSet, event.HookCreated, event.HookDisposed, event.ValueSet, event.RunCompleted},
	}
	for n := range want {
		w.status(run, workflow.StatusPaused)
		order(t, run.Step(w.ctx))
		w.reach(run, event.RunStepped, n+1)
		if n < len(want)-1 {
			w.status(run, workflow.StatusPaused)
		} else {
			result(w, run)
		}
		if diff := cmp.Diff(want[n], types()); diff != "" {
			t.Fatalf("after step %d (-want +got):\n%s", n+1, diff)
		}
	}
}

func TestVER1_ACodeThatSaysSomethingElseIsBlocked(t *testing.T) {
	changed := flow[int, int]("changed-say")
	for what, codes := range map[string][2]func(ctx workflow.Context) error{
		"another value": {
			func(ctx workflow.Context) error { level.Set(ctx, 1); return nil },
			func(ctx workflow.Context) error { level.Set(ctx, 2); return nil },
		},
		"a value of another name": {
			func(ctx workflow.Context) error { level.Set(ctx, 1); return nil },
			func(ctx workflow.Context) error { workflow.NewValue[int]("depth").Set(ctx, 1); return nil },
		},
		"a hook of another name": {
			func(ctx workflow.Context) error { _, err := paid.Open(ctx); return err },
			func(ctx workflow.Context) error { _, err := workflow.NewHook[int]("due").Open(ctx); return err },
		},
		"another token": {
			func(ctx workflow.Context) error { _, err := paid.Open(ctx, workflow.Token("a")); return err },
			func(ctx workflow.Context) error { _, err := paid.Open(ctx, workflow.Token("b")); return err },
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newMemory(t)
			code := func(f func(workflow.Context) error) binding {
				return as(changed, func(ctx workflow.Context, _ int) (int, error) {
					if err := f(ctx); err != nil {
						return 0, err
					}
					return numbers.Receive(ctx)
				})
			}
			first := w.work(worker.Config{Parked: 1}, code(codes[0]))
			run := start(w, changed, 1)
			w.reach(run, event.WaitCreated, 1)
			first.stop()
			// One more step: else both are one program to a compiler that does not inline.
			second := w.work(worker.Config{}, code(codes[1]), doWork1)
			w.send(run, 4)
			w.status(run, workflow.StatusBlocked)
			second.stop()
			w.work(worker.Config{}, code(codes[0]))
			if got := result(w, run); got != 4 {
				t.Errorf("with fitting code: got %d", got)
			}
		})
	}
}

func TestFLOW6_AStoreWithHooksAndAsksIsSound(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, bill, hold, account, slowly)
	open, own, asked := start(w, bills, 2), start(w, holds, "sound"), start(w, accounts, 0)
	w.resume(w.tokenOf(open), 1)
	w.opened(own)
	if err := failure(w, start(w, holds, "sound")); !errors.As(err, new(*workflow.TokenConflictError)) {
		t.Error(err)
	}
	for _, n := range []int{3, 200, 4} {
		if _, err := add.Ask(w.ctx, asked, n); (err != nil) != (n > 100) {
			t.Errorf("%d: %v", n, err)
		}
	}
	sound := func(when string) {
		t.Helper()
		var left []fsck.Finding
		w.eventually("nothing is under way", func() bool {
			left = w.check()
			return len(left) == 0 || w.ctx.Err() != nil
		})
		for _, f := range left {
			t.Errorf("%s: %+v", when, f)
		}
	}
	sound("while they go on")
	w.resume("sound", 1)
	w.resume(w.tokenOf(open), 2)
	w.send(asked, 1)
	result(w, open)
	result(w, own)
	result(w, asked)
	w.eventually("the token is free", func() bool {
		counts, err := w.client.Count(w.ctx, workflow.Filter{Workflow: event.HookRun, Statuses: []workflow.Status{workflow.StatusCanceled}})
		return err == nil && counts[workflow.StatusCanceled] == 1
	})
	sound("when they have ended")
}
