package questions_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW16_ContinueAsNewAnswersFirstWhatItHasAccepted(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		leaves := flowtest.Flow[int, int]("leaves")
		begun, release := make(chan struct{}, 2), make(chan struct{})
		w.Work(worker.Config{}, flowtest.Slow.As(func(_ context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-release
			return n, nil
		}), flowtest.As(leaves, func(ctx workflow.Context, round int) (int, error) {
			flowtest.Add.Handle(ctx, nil, func(ctx workflow.Context, n int) (int, error) {
				if round > 0 {
					return 100 + n, nil
				}
				return flowtest.Slow.Call(ctx, n)
			})
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
			if round > 0 {
				return round, nil
			}
			return 0, leaves.ContinueAsNew(ctx, 1)
		}))
		run := flowtest.Start(w, leaves, 0)
		w.Reach(run, event.WaitCreated, 1)
		ask := func(n int) chan int {
			answer := make(chan int, 1)
			go func() {
				v, err := flowtest.Add.Ask(w.Ctx, run, n)
				if err != nil {
					t.Error(err)
				}
				answer <- v
			}()
			return answer
		}
		first := ask(1)
		<-begun
		w.Send(run, 1) // the code of the run returns
		w.Reach(run, event.WaitCompleted, 1)
		second := ask(2)
		w.Reach(run, event.AskReceived, 1) // the ended code cannot answer this question
		close(release)
		if got := <-first; got != 1 {
			t.Errorf("what was accepted: got %d, want 1", got)
		}
		if got := <-second; got != 102 {
			t.Errorf("what came later: got %d, want 102, from the next run", got)
		}
		w.Send(run, 2)
		if got := flowtest.Result(w, run); got != 1 {
			t.Errorf("result: %d", got)
		}
	})
}

func TestRUN12_WhatAPausedRunIsToldAndAskedComesIntoEffectWhenItIsResumed(t *testing.T) {
	pausing := flowtest.Flow[int, int]("pausing")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Parked: 1}, flowtest.As(pausing, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		sum := 0
		flowtest.Add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) {
			sum += n
			return sum, nil
		})
		if _, err := flowtest.Numbers.Receive(ctx); err != nil {
			return 0, err
		}
		hook.Dispose(ctx)
		_, err = flowtest.Numbers.Receive(ctx)
		return sum, err
	}))
	run := flowtest.Start(w, pausing, 0)
	tok := w.Reach(run, event.HookCreated, 1).Token
	w.Reach(run, event.WaitCreated, 1)
	flowtest.Order(t, run.Pause(w.Ctx))
	w.Reach(run, event.RunPaused, 1)
	w.Send(run, 1) // the code then closes the hook
	w.Resume(tok, 7)
	w.Reach(run, event.HookReceived, 1)
	asked := make(chan int, 1)
	go func() {
		v, err := flowtest.Add.Ask(w.Ctx, run, 5)
		if err != nil {
			t.Error(err)
		}
		asked <- v
	}()
	w.Reach(run, event.AskAccepted, 1)
	flowtest.Order(t, run.Resume(w.Ctx))
	if got := <-asked; got != 5 {
		t.Errorf("answer: got %d, want 5", got)
	}
	w.Send(run, 2)
	if got := flowtest.Result(w, run); got != 5 {
		t.Errorf("result: got %d, want 5", got)
	}
	last := w.Reach(run, event.RunCompleted, 1)
	if len(last.Unread) != 1 {
		t.Errorf("unread %q, want the payload that came before the hook was closed", last.Unread)
	}
}

func TestRUN11_AForkHasAHookOfItsOwnAndIsNotAskedAgain(t *testing.T) {
	forked := flowtest.Flow[int, int]("forked-hook")
	here := flowtest.AStep[int, int]("here", shim.Policy{})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, here.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(forked, func(ctx workflow.Context, _ int) (int, error) {
				sum := 0
				flowtest.Add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) {
					sum += n
					return sum, nil
				})
				for _, opts := range [][]workflow.HookOption{nil, {workflow.Token("forked")}} {
					old, err := flowtest.Paid.Open(ctx, opts...)
					if err != nil {
						return 0, err
					}
					old.Dispose(ctx)
				}
				if _, err := here.CallKey(ctx, "1", 1); err != nil {
					return 0, err
				}
				hook, err := flowtest.Paid.Open(ctx)
				if err != nil {
					return 0, err
				}
				if _, err := here.CallKey(ctx, "2", 2); err != nil {
					return 0, err
				}
				n, err := hook.Receive(ctx)
				return 100*sum + n, err
			}))
		run := flowtest.Start(w, forked, 0)
		w.Reach(run, event.WaitCreated, 1)
		if v, err := flowtest.Add.Ask(w.Ctx, run, 3); v != 3 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		fork, err := run.Fork(w.Ctx, "forked-hook/test.here[2]")
		if err != nil {
			t.Fatal(err)
		}
		w.Reach(fork, event.WaitCreated, 1)
		oldHooks, newHooks := flowtest.Filter(w.Log(run), event.HookCreated), flowtest.Filter(w.Log(fork), event.HookCreated)
		old, fresh := oldHooks[len(oldHooks)-1].Token, newHooks[len(newHooks)-1].Token
		if old == fresh {
			t.Error("the fork has the token of the old run")
		}
		w.Resume(old, 7)
		w.Resume(fresh, 8)
		if got := flowtest.Result(w, run); got != 307 {
			t.Errorf("the old run: got %d, want 307", got)
		}
		if got := flowtest.Result(w, fork); got != 8 {
			t.Errorf("the fork: got %d, want 8: what the old run was asked is its own", got)
		}
	})
}

func TestRUN12_EachOfTheseIsOneOperationInDebugMode(t *testing.T) {
	debugged := flowtest.Flow[int, int]("debugged-say")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(debugged, func(ctx workflow.Context, _ int) (int, error) {
		flowtest.Level.Set(ctx, 1)
		hook, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		flowtest.Add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) { return n, nil })
		hook.Dispose(ctx)
		workflow.CloseAsks(ctx)
		flowtest.Level.Set(ctx, 2)
		return 3, nil
	}))
	run := flowtest.Start(w, debugged, 0, workflow.WithDebug())
	types := func() (types []event.Type) {
		for _, e := range w.Log(run) {
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
		w.Status(run, workflow.StatusPaused)
		flowtest.Order(t, run.Step(w.Ctx))
		w.Reach(run, event.RunStepped, n+1)
		if n < len(want)-1 {
			w.Status(run, workflow.StatusPaused)
		} else {
			flowtest.Result(w, run)
		}
		if diff := cmp.Diff(want[n], types()); diff != "" {
			t.Fatalf("after step %d (-want +got):\n%s", n+1, diff)
		}
	}
}

func TestVER1_ACodeThatSaysSomethingElseIsBlocked(t *testing.T) {
	changed := flowtest.Flow[int, int]("changed-say")
	for what, codes := range map[string][2]func(ctx workflow.Context) error{
		"another value": {
			func(ctx workflow.Context) error { flowtest.Level.Set(ctx, 1); return nil },
			func(ctx workflow.Context) error { flowtest.Level.Set(ctx, 2); return nil },
		},
		"a value of another name": {
			func(ctx workflow.Context) error { flowtest.Level.Set(ctx, 1); return nil },
			func(ctx workflow.Context) error { workflow.NewValue[int]("depth").Set(ctx, 1); return nil },
		},
		"a hook of another name": {
			func(ctx workflow.Context) error { _, err := flowtest.Paid.Open(ctx); return err },
			func(ctx workflow.Context) error { _, err := workflow.NewHook[int]("due").Open(ctx); return err },
		},
		"another token": {
			func(ctx workflow.Context) error { _, err := flowtest.Paid.Open(ctx, workflow.Token("a")); return err },
			func(ctx workflow.Context) error { _, err := flowtest.Paid.Open(ctx, workflow.Token("b")); return err },
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			code := func(f func(workflow.Context) error) flowtest.Binding {
				return flowtest.As(changed, func(ctx workflow.Context, _ int) (int, error) {
					if err := f(ctx); err != nil {
						return 0, err
					}
					return flowtest.Numbers.Receive(ctx)
				})
			}
			first := w.Work(worker.Config{Parked: 1}, code(codes[0]))
			run := flowtest.Start(w, changed, 1)
			w.Reach(run, event.WaitCreated, 1)
			first.Stop()
			// The additional step gives the second worker another fingerprint. Without inlining,
			// the two programs would have the same one.
			second := w.Work(worker.Config{}, code(codes[1]), flowtest.DoWork1)
			w.Send(run, 4)
			w.Status(run, workflow.StatusBlocked)
			second.Stop()
			w.Work(worker.Config{}, code(codes[0]))
			if got := flowtest.Result(w, run); got != 4 {
				t.Errorf("with fitting code: got %d", got)
			}
		})
	}
}

func TestFLOW6_AStoreWithHooksAndAsksIsSound(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Bill, flowtest.Hold, flowtest.Account, flowtest.Slowly)
	open, own, asked := flowtest.Start(w, flowtest.Bills, 2), flowtest.Start(w, flowtest.Holds, "sound"), flowtest.Start(w, flowtest.Accounts, 0)
	w.Resume(w.TokenOf(open), 1)
	w.Opened(own)
	if err := flowtest.Failure(w, flowtest.Start(w, flowtest.Holds, "sound")); !errors.As(err, new(*workflow.TokenConflictError)) {
		t.Error(err)
	}
	for _, n := range []int{3, 200, 4} {
		if _, err := flowtest.Add.Ask(w.Ctx, asked, n); (err != nil) != (n > 100) {
			t.Errorf("%d: %v", n, err)
		}
	}
	sound := func(when string) {
		t.Helper()
		var left []fsck.Finding
		w.Eventually("nothing is under way", func() bool {
			left = w.Check()
			return len(left) == 0 || w.Ctx.Err() != nil
		})
		for _, f := range left {
			t.Errorf("%s: %+v", when, f)
		}
	}
	sound("while they go on")
	w.Resume("sound", 1)
	w.Resume(w.TokenOf(open), 2)
	w.Send(asked, 1)
	flowtest.Result(w, open)
	flowtest.Result(w, own)
	flowtest.Result(w, asked)
	w.Eventually("the token is free", func() bool {
		counts, err := w.Client.Count(w.Ctx, workflow.Filter{Workflow: event.HookRun, Statuses: []workflow.Status{workflow.StatusCanceled}})
		return err == nil && counts.Total() == 1
	})
	sound("when they have ended")
}
