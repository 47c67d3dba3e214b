package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// charged is the hook with which these tests complete steps from outside.
var charged = workflow.NewHook[int]("charged")

// charges calls a step and returns its result.
var charges = flowtest.Flow[int, int]("charges")

// leaves is the code of a step whose attempts are pending until their outcome is sent to the hook
// named "charged".
func leaves(ctx context.Context, _ int) (int, error) {
	later, err := step.Later(ctx, charged)
	if err != nil {
		return 0, err
	}
	return later.Pending()
}

// left waits until attempt n of the step of a run is pending, and returns the token of the attempt.
func left(w *flowtest.World, run flowtest.Follows, n int) string {
	w.T.Helper()
	tok := w.Reach(run, event.StepHookCreated, n).Token
	w.Reach(run, event.StepPending, n)
	return tok
}

func types(log []event.Event) (all []event.Type) {
	for i := range log {
		all = append(all, log[i].Type)
	}
	return all
}

func TestSTEP13_WhoeverHasTheTokenCompletesTheStep(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge", shim.Policy{Timeout: time.Hour})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var calls atomic.Int64
		code := charge.As(func(ctx context.Context, n int) (int, error) {
			calls.Add(1)
			later, err := step.Later(ctx, charged, workflow.Describe(workflow.HookMeta{Title: fmt.Sprint("Charge ", n)}))
			if err != nil {
				return 0, err
			}
			again, err := step.Later(ctx, charged)
			if err != nil || again.Token() != later.Token() {
				t.Errorf("asked again: got %v, %v, want the same token", again, err)
			}
			v, err := later.Pending()
			return v, fmt.Errorf("wrapped: %w", err)
		})
		first := w.Work(worker.Config{Parked: 1}, code, flowtest.As(charges, charge.Call))
		run := flowtest.Start(w, charges, 7)
		tok := left(w, run, 1)
		w.Eventually("nobody has the run", func() bool { return w.Parked(run) })
		w.Status(run, workflow.StatusWaiting)
		first.Stop()

		created := flowtest.Filter(w.Log(run), event.StepHookCreated)[0]
		info := workflow.HookInfo{Hook: "charged", Token: tok, Run: run.ID(), Attempt: 1, Due: created.Due, Meta: workflow.HookMeta{Title: "Charge 7"}}
		if got, err := w.Client.Hook(w.Ctx, tok); err != nil || !cmp.Equal(info, got) {
			t.Errorf("Hook: got %+v, %v, want %+v", got, err, info)
		}
		info.ID, info.Key, info.Event, info.OpenedAt = created.Correlation(run.ID()), "charges/test.charge#1", created.Seq, created.Time
		if got, err := run.Hooks(w.Ctx); err != nil || !cmp.Equal([]workflow.HookInfo{info}, got) {
			t.Errorf("Hooks: got %+v, %v, want %+v", got, err, info)
		}

		if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(`"much"`)); !errors.As(err, new(*workflow.PayloadError)) {
			t.Errorf("what is no result: got %v, want a *PayloadError", err)
		}
		for what, tok := range map[string]string{
			"another secret": tok[:len(tok)-3] + "___", "a cut token": tok[:len(tok)-1], "another run": string(event.NewRunID(time.Now(), 1)) + tok[len(run.ID()):],
		} {
			if err := charged.Send(w.Ctx, w.Client, tok, 1); !errors.Is(err, workflow.ErrHookNotFound) {
				t.Errorf("%s: got %v, want ErrHookNotFound", what, err)
			}
			if err := charged.Fail(w.Ctx, w.Client, tok, flowtest.ErrBusy); !errors.Is(err, workflow.ErrHookNotFound) {
				t.Errorf("%s: got %v, want ErrHookNotFound", what, err)
			}
		}
		if err := flowtest.Paid.Send(w.Ctx, w.Client, tok, 1); !errors.Is(err, workflow.ErrHookNotFound) {
			t.Errorf("another hook: got %v, want ErrHookNotFound", err)
		}
		finish := func() { // sends twice, before and after the run has received the outcome
			t.Helper()
			for i := range 2 {
				if err := charged.Send(w.Ctx, w.Client, tok, 30, workflow.IdempotencyKey("call-1")); err != nil {
					t.Errorf("%d: %v", i, err)
				}
				if err := charged.Send(w.Ctx, w.Client, tok, 30); err != nil {
					t.Errorf("the same value: %v", err)
				}
				if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(" 31 "), workflow.IdempotencyKey("call-1")); err != nil {
					t.Errorf("the same key: %v", err)
				}
				over(t, "another value", charged.Send(w.Ctx, w.Client, tok, 31), true)
				over(t, "another key", charged.Send(w.Ctx, w.Client, tok, 31, workflow.IdempotencyKey("call-2")), true)
				over(t, "an error", charged.Fail(w.Ctx, w.Client, tok, flowtest.ErrBusy), true)
			}
		}
		finish()
		w.Work(worker.Config{}, code, flowtest.As(charges, charge.Call))
		if got := flowtest.Result(w, run); got != 30 {
			t.Errorf("got %d, want 30", got)
		}
		finish()
		if n := calls.Load(); n != 1 {
			t.Errorf("the code of the step was called %d times", n)
		}
		want := []event.Type{
			event.RunCreated, event.RunStarted, event.StepCreated, event.StepStarted, event.StepHookCreated, event.StepPending, event.StepCompleted, event.RunCompleted,
		}
		if diff := cmp.Diff(want, types(w.Log(run))); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if info, err := w.Client.Hook(w.Ctx, tok); err != nil || !info.Closed {
			t.Errorf("after the end: got %+v, %v", info, err)
		}
	})
}

func TestSTEP13_ATokenIsGoodAsSoonAsTheCodeHasIt(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.itself", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(charges, charge.Call), charge.As(func(ctx context.Context, n int) (int, error) {
			later, err := step.Later(ctx, charged)
			if err != nil {
				return 0, err
			}
			if err := charged.Send(context.WithoutCancel(ctx), w.Client, later.Token(), n); err != nil {
				t.Errorf("run %d: %v", n, err)
			}
			return later.Pending()
		}))
		var runs []*workflow.Run[int]
		for n := range 50 {
			runs = append(runs, flowtest.Start(w, charges, n))
		}
		for n, run := range runs {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
	})
}

func TestSTEP13_OfManyOutcomesOneCounts(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.crowd", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
		for range 5 {
			run := flowtest.Start(w, charges, 0)
			tok := w.Reach(run, event.StepHookCreated, 1).Token
			var senders sync.WaitGroup
			var accepted flowtest.Seen[int]
			for n := range 20 {
				senders.Go(func() {
					send := func() error {
						if n%4 == 0 {
							return charged.Fail(w.Ctx, w.Client, tok, &flowtest.NegativeError{N: -n})
						}
						return charged.Send(w.Ctx, w.Client, tok, n)
					}
					first := send()
					if again := send(); (first == nil) != (again == nil) {
						t.Errorf("%d: got %v, and then %v", n, first, again)
					}
					if first == nil {
						accepted.Add(n)
						return
					}
					over(t, fmt.Sprint(n), first, true)
				})
			}
			senders.Wait()
			got, err := run.Result(w.Ctx)
			if negative, ok := errors.AsType[*flowtest.NegativeError](err); ok {
				got, err = -negative.N, nil
			}
			if diff := cmp.Diff([]int{got}, accepted.Get()); diff != "" || err != nil {
				t.Errorf("%v: the run has %d, these were told so (-want +got):\n%s", err, got, diff)
			}
		}
	})
}

func TestSTEP13_WhatComesWhileTheCodeStillRunsIsItsOutcome(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.early", shim.Policy{NonIdempotent: true, Retry: flowtest.Quick})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var running, overlaps atomic.Int64
		leave := make(chan struct{})
		w.Work(worker.Config{}, charge.As(func(ctx context.Context, n int) (int, error) {
			if n > 0 { // not checked for n = 0, because this code may return while the next run begins
				if running.Add(1) > 1 {
					overlaps.Add(1)
				}
				defer running.Add(-1)
			}
			later, err := step.Later(ctx, charged)
			if err != nil || n > 0 && step.Attempt(ctx) > 1 {
				v, pending := later.Pending()
				return v, errors.Join(err, pending)
			}
			<-ctx.Done() // the outcome from outside ends the context
			if n > 0 {
				<-leave // the code returns late
			}
			return -1, nil
		}), flowtest.As(charges, charge.Call))
		run := flowtest.Start(w, charges, 0)
		tok := w.Reach(run, event.StepHookCreated, 1).Token
		if err := charged.Send(w.Ctx, w.Client, tok, 11); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != 11 || len(flowtest.Filter(w.Log(run), event.StepPending)) > 0 {
			t.Errorf("got %d, want 11, and no step_pending", got)
		}

		run = flowtest.Start(w, charges, 1)
		tok = w.Reach(run, event.StepHookCreated, 1).Token
		if err := charged.Fail(w.Ctx, w.Client, tok, flowtest.ErrBusy); err != nil {
			t.Fatal(err)
		}
		w.Reach(run, event.StepRetrying, 1)
		close(leave) // the next attempt may begin only after this code has returned
		if err := charged.Send(w.Ctx, w.Client, left(w, run, 1), 12); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("the first token: %v", err)
		}
		if err := charged.Send(w.Ctx, w.Client, w.Reach(run, event.StepHookCreated, 2).Token, 12); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != 12 {
			t.Errorf("got %d, want 12", got)
		}
		if n := overlaps.Load(); n > 0 {
			t.Errorf("%d attempts began while the code of another one ran", n)
		}
	})
}

// TestSTEP13_ATokenOfADeadWorkerIsGoodUntilTheNextAttemptBegins proves that the token of an attempt
// remains valid if the worker of the attempt dies before the step returns. It is valid until the
// next attempt begins.
func TestSTEP13_ATokenOfADeadWorkerIsGoodUntilTheNextAttemptBegins(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.dies", shim.Policy{Retry: flowtest.Quick})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		tokens, next := make(chan string, 2), make(chan struct{}, 2)
		first := true
		w.Keep(1, worker.Config{}, func(die func()) []flowtest.Binding {
			if !first {
				<-next // until then, no worker has the runs
			}
			first = false
			return []flowtest.Binding{flowtest.As(charges, charge.Call), charge.As(func(ctx context.Context, _ int) (int, error) {
				later, err := step.Later(ctx, charged)
				if err != nil {
					return 0, err
				}
				if step.Attempt(ctx) > 1 {
					return later.Pending()
				}
				tokens <- later.Token()
				die()
				<-ctx.Done()
				return 0, ctx.Err()
			})}
		})
		run := flowtest.Start(w, charges, 1)
		tok := <-tokens
		if err := charged.Send(w.Ctx, w.Client, tok, 41); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{}
		if got := flowtest.Result(w, run); got != 41 || len(flowtest.Filter(w.Log(run), event.StepStarted)) != 1 {
			t.Errorf("got %d in log %v, want 41 by the first attempt", got, types(w.Log(run)))
		}

		run = flowtest.Start(w, charges, 1)
		tok = <-tokens
		next <- struct{}{}
		left(w, run, 1) // waits for the second attempt; the first one was never pending
		if err := charged.Send(w.Ctx, w.Client, tok, 42); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("the token of the attempt that died: got %v, want ErrHookDisposed", err)
		}
		again := w.Reach(run, event.StepHookCreated, 2).Token
		if again == tok {
			t.Error("two attempts have one token")
		}
		if err := charged.Send(w.Ctx, w.Client, again, 43); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != 43 {
			t.Errorf("got %d, want 43", got)
		}
		next <- struct{}{} // lets the last worker of the fleet start, so that the fleet can stop
	})
}

func TestSTEP13_StreamsAreClosedWithTheCompletionFromOutside(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.writes", shim.Policy{Retry: flowtest.Quick})
	lines := workflow.NewStream[string]("lines")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		wrote := make(chan struct{}, 1)
		w.Work(worker.Config{Parked: 1}, charge.As(func(ctx context.Context, n int) (int, error) {
			later, err := step.Later(ctx, charged)
			if err = errors.Join(err, step.Write(ctx, lines, "asked"), step.Close(ctx, lines)); err != nil {
				return 0, err
			}
			wrote <- struct{}{}
			if n == 1 { // for n = 1, the outcome arrives while the code is executing
				<-ctx.Done()
			}
			return later.Pending()
		}), flowtest.As(charges, charge.Call))
		for n := range 2 {
			run := flowtest.Start(w, charges, n)
			<-wrote
			if n == 0 {
				w.Reach(run, event.StepPending, 1)
			}
			if err := charged.Fail(w.Ctx, w.Client, w.Reach(run, event.StepHookCreated, 1).Token, flowtest.ErrBusy); err != nil {
				t.Fatal(err)
			}
			w.Reach(run, event.StepRetrying, 1)
			tok := w.Reach(run, event.StepHookCreated, 2).Token
			<-wrote
			w.Eventually("both attempts have written", func() bool { return w.Published(run, "s:lines") == 2 })
			if closed := flowtest.Filter(w.Log(run), event.StreamClosed); len(closed) > 0 {
				t.Errorf("an attempt that has failed has closed the stream: %v", closed)
			}
			if n == 0 {
				w.Reach(run, event.StepPending, 2)
			}
			if err := charged.Send(w.Ctx, w.Client, tok, 1); err != nil {
				t.Fatal(err)
			}
			flowtest.Result(w, run)
			if closed := flowtest.Filter(w.Log(run), event.StreamClosed); len(closed) != 1 || closed[0].Name != "lines" || closed[0].Attempt != 2 {
				t.Errorf("%d: closed: %v, want the stream by the attempt that was completed", n, closed)
			}
		}
	})
}

func TestSTEP13_APausedRunTakesTheOutcomeAndGoesOnWhenItIsResumed(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.paused", shim.Policy{})
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Parked: 1}, charge.As(leaves), flowtest.As(charges, charge.Call))
		run := flowtest.Start(w, charges, 1)
		tok := left(w, run, 1)
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Reach(run, event.RunPaused, 1)
		if err := charged.Send(w.Ctx, w.Client, tok, 8); err != nil {
			t.Fatal(err)
		}
		w.Reach(run, event.StepCompleted, 1)
		w.Status(run, workflow.StatusPaused)
		flowtest.Order(t, run.Resume(w.Ctx))
		if got := flowtest.Result(w, run); got != 8 {
			t.Errorf("got %d, want 8", got)
		}
	})
}

func TestSTEP13_AForkBeginsAStepAgainThatIsLeftToOthers(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.forked", shim.Policy{})
	both := flowtest.Flow[int, int]("charges.both")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, charge.As(leaves), flowtest.As(both, func(ctx workflow.Context, n int) (int, error) {
			first := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return charge.CallKey(ctx, "a", n) })
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
			b, err := charge.CallKey(ctx, "b", n)
			if err != nil {
				return 0, err
			}
			a, err := first.Get(ctx)
			return 100*a + b, err
		}))
		run := flowtest.Start(w, both, 1)
		left(w, run, 1)
		w.Send(run, 1)
		left(w, run, 2)
		fork, err := run.Fork(w.Ctx, flowtest.Filter(w.Log(run), event.StepCreated)[1].Key)
		if err != nil {
			t.Fatal(err)
		}
		left(w, fork, 3) // the fork has taken over the first step
		finish := func(run *workflow.Run[int], a, b int) {
			t.Helper()
			hooks, err := run.Hooks(w.Ctx)
			if err != nil || len(hooks) != 2 {
				t.Fatalf("got %v, %v, want two open hooks", hooks, err)
			}
			for i, v := range []int{a, b} {
				if hooks[i].Run != run.ID() {
					t.Errorf("the hook is one of run %s", hooks[i].Run)
				}
				if err := charged.Send(w.Ctx, w.Client, hooks[i].Token, v); err != nil {
					t.Fatal(err)
				}
			}
			if got := flowtest.Result(w, run); got != 100*a+b {
				t.Errorf("got %d, want %d", got, 100*a+b)
			}
		}
		finish(fork, 3, 4)
		finish(run, 1, 2)
	})
}
