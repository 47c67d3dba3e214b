package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// charged finishes the steps of these tests from outside.
var charged = workflow.NewHook[int]("charged")

// charges calls a step and returns its result.
var charges = flowtest.Flow[int, int]("charges")

// leaves is a step that leaves the outcome of an attempt to whoever has its token.
func leaves(ctx context.Context, _ int) (int, error) {
	later, err := step.Later(ctx, charged)
	if err != nil {
		return 0, err
	}
	return later.Pending()
}

// left waits until attempt n of the step of a run is left to others, and returns its token.
func left(w *flowtest.World, run flowtest.Follows, n int) string {
	w.T.Helper()
	tok := w.Reach(run, event.StepHookCreated, n).Token
	w.Reach(run, event.StepPending, n)
	return tok
}

// over reports whether err says that the attempt is over, and by whom.
func over(t *testing.T, what string, err error, answered bool) {
	t.Helper()
	if !errors.Is(err, workflow.ErrHookDisposed) || errors.Is(err, workflow.ErrHookAnswered) != answered {
		t.Errorf("%s: got %v, want ErrHookDisposed, and ErrHookAnswered: %t", what, err, answered)
	}
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
		info.ID, info.Key, info.OpenedAt = created.Correlation(run.ID()), "charges/test.charge#1", created.Time
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
		finish := func() { // before anybody has taken it, and after
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

func TestSTEP13_FailingItFromOutsideIsAnAttemptOfItsPolicy(t *testing.T) {
	policy := shim.Policy{Retry: workflow.RetryPolicy{Attempts: 3, Initial: time.Millisecond, Max: time.Millisecond}, Fatal: func(err error) bool {
		var negative *flowtest.NegativeError
		return errors.As(err, &negative) && negative.N < -100
	}}
	charge := flowtest.AStep[int, int]("charge.fails", policy)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
		fail := func(tok string, err error) {
			t.Helper()
			if err := charged.Fail(w.Ctx, w.Client, tok, err); err != nil {
				t.Fatal(err)
			}
		}
		failure := func(run *workflow.Run[int], attempts int, code string) (failed *workflow.StepError) {
			t.Helper()
			if err := flowtest.Failure(w, run); !errors.As(err, &failed) || failed.Attempts != attempts || failed.Code != code {
				t.Fatalf("got %v, want a *StepError with code %s after %d attempts", err, code, attempts)
			}
			return failed
		}
		t.Run("retried, and then for good", func(t *testing.T) {
			run := flowtest.Start(w, charges, 1)
			var tokens []string
			for n := 1; n <= 3; n++ {
				tok := left(w, run, n)
				if slices.Contains(tokens, tok) {
					t.Errorf("attempt %d has the token of an earlier one", n)
				}
				for _, old := range tokens {
					over(t, "the token of an earlier attempt", charged.Send(w.Ctx, w.Client, old, 1), true)
				}
				tokens = append(tokens, tok)
				fail(tok, fmt.Errorf("gateway: %w", &flowtest.NegativeError{N: -n}))
				fail(tok, fmt.Errorf("gateway: %w", &flowtest.NegativeError{N: -n})) // the same again
			}
			failed := failure(run, 3, event.CodeError)
			var negative *flowtest.NegativeError
			if !errors.As(failed, &negative) || negative.N != -3 {
				t.Errorf("got %v, want the error that was sent", failed)
			}
			fail(tokens[2], fmt.Errorf("gateway: %w", &flowtest.NegativeError{N: -3}))
			over(t, "after the end", charged.Fail(w.Ctx, w.Client, tokens[2], flowtest.ErrBusy), true)
		})
		t.Run("and completed later", func(t *testing.T) {
			run := flowtest.Start(w, charges, 1)
			fail(left(w, run, 1), flowtest.ErrBusy)
			if err := charged.Send(w.Ctx, w.Client, left(w, run, 2), 9); err != nil {
				t.Fatal(err)
			}
			if got := flowtest.Result(w, run); got != 9 {
				t.Errorf("got %d, want 9", got)
			}
		})
		t.Run("fatal", func(t *testing.T) {
			run := flowtest.Start(w, charges, 1)
			fail(left(w, run, 1), fmt.Errorf("closed: %w", step.Fatal(flowtest.ErrBusy)))
			failure(run, 1, event.CodeFatal)
		})
		t.Run("fatal by the directive", func(t *testing.T) {
			run := flowtest.Start(w, charges, 1)
			if err := w.Client.FailHook(w.Ctx, left(w, run, 1), &flowtest.NegativeError{N: -1000}); err != nil {
				t.Fatal(err)
			}
			failure(run, 1, event.CodeFatal)
		})
		t.Run("later, which does not count", func(t *testing.T) {
			run := flowtest.Start(w, charges, 1)
			for n := 1; n <= 4; n++ {
				fail(left(w, run, n), step.RetryAfter(flowtest.ErrBusy, 7*time.Millisecond))
			}
			for _, e := range flowtest.Filter(w.Log(run), event.StepRetrying) {
				if d := e.Due.Sub(e.Time); d < 7*time.Millisecond || d > 8*time.Millisecond || e.Failure.Code != event.CodeRetryAfter {
					t.Errorf("attempt %d: the next one after %v, code %s", e.Attempt, d, e.Failure.Code)
				}
			}
			if err := charged.Send(w.Ctx, w.Client, left(w, run, 5), 1); err != nil {
				t.Fatal(err)
			}
			flowtest.Result(w, run)
		})
	})
}

func TestSTEP13_ItsTimeoutAndTotalTimeHoldWhileItWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		policy   shim.Policy
		attempts int // that time out
		code     string
		text     string
	}{
		"retried, and completed":        {policy: shim.Policy{Timeout: time.Hour}, attempts: 1},
		"the last attempt":              {policy: shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 2}}, attempts: 2, code: event.CodeTimeout, text: "timeout of 1h"},
		"the total time":                {policy: shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 9, Total: 90 * time.Minute}}, attempts: 2, code: event.CodeTimeout, text: "total time of 1h30m"},
		"a step that is not idempotent": {policy: shim.Policy{Timeout: time.Hour, NonIdempotent: true}, attempts: 1, code: event.CodeTimeout, text: "nobody has finished it"},
		"the default of ten minutes":    {policy: shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}}, attempts: 1, code: event.CodeTimeout, text: "timeout of 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			charge := flowtest.AStep[int, int]("charge.late", tt.policy)
			limit := tt.policy.Timeout
			if limit == 0 {
				limit = workflow.DefaultAttemptTimeout
			}
			w := flowtest.NewVirtual(t)
			w.Work(worker.Config{Parked: 1}, charge.As(leaves), flowtest.As(charges, charge.Call))
			run := flowtest.Start(w, charges, 1)
			var tokens []string
			for n := 1; n <= tt.attempts; n++ {
				tokens = append(tokens, left(w, run, n))
				w.Eventually("nobody has the run", func() bool { return w.Parked(run) })
				began := flowtest.Filter(w.Log(run), event.StepStarted)[n-1].Time
				w.Clock.Advance(limit - time.Second - w.Clock.Now().Sub(began))
				if info, err := w.Client.Hook(w.Ctx, tokens[n-1]); err != nil || info.Closed || !info.Due.Equal(began.Add(limit)) {
					t.Errorf("a second before: got %+v, %v", info, err)
				}
				w.Clock.Advance(2 * time.Second)
				if n < tt.attempts || tt.code == "" {
					e := w.Reach(run, event.StepRetrying, n)
					if !flowtest.Exactly(e.Time.Sub(began), limit) || e.Failure.Code != event.CodeTimeout {
						t.Errorf("attempt %d ended after %v with %s, want the timeout after %v", n, e.Time.Sub(began), e.Failure.Code, limit)
					}
					w.Clock.Advance(e.Due.Sub(w.Clock.Now()))
				}
			}
			if tt.code == "" {
				tok := left(w, run, tt.attempts+1)
				for _, old := range tokens {
					over(t, "after its time", charged.Send(w.Ctx, w.Client, old, 1), false)
					over(t, "after its time", charged.Fail(w.Ctx, w.Client, old, flowtest.ErrBusy), false)
				}
				if err := charged.Send(w.Ctx, w.Client, tok, 5); err != nil {
					t.Fatal(err)
				}
				if got := flowtest.Result(w, run); got != 5 {
					t.Errorf("got %d, want 5", got)
				}
				return
			}
			var failed *workflow.StepError
			if err := flowtest.Failure(w, run); !errors.As(err, &failed) || failed.Code != tt.code || failed.Attempts != tt.attempts || !flowtest.ContainsAll(err.Error(), tt.text) {
				t.Errorf("got %v, want code %s, %d attempts, %q", err, tt.code, tt.attempts, tt.text)
			}
		})
	}
}

// What is accepted counts, also at the very moment at which the time is up.
func TestSTEP13_NoAcceptedOutcomeIsLostWhenItRacesWithTheTimeout(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.races", shim.Policy{Timeout: 300 * time.Millisecond, Retry: workflow.RetryPolicy{Attempts: 1}})
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
	var racers sync.WaitGroup
	var won, late atomic.Int64
	for n := range 300 {
		run := flowtest.Start(w, charges, n)
		racers.Go(func() {
			e := w.Reach(run, event.StepHookCreated, 1)
			if n%4 > 0 { // it is the race, and nothing is waited for
				time.Sleep(time.Until(e.Due) + time.Duration(n%7-5)*time.Millisecond)
			}
			sent := charged.Send(w.Ctx, w.Client, e.Token, n)
			got, err := run.Result(w.Ctx)
			var failed *workflow.RunError
			switch {
			case sent == nil && err == nil && got == n:
				won.Add(1)
			case errors.Is(sent, workflow.ErrHookDisposed) && errors.As(err, &failed) && failed.Code == event.CodeTimeout:
				late.Add(1)
			default:
				t.Errorf("sent: %v, result: %d, %v", sent, got, err)
			}
		})
	}
	racers.Wait()
	if t.Logf("%d in time, %d late", won.Load(), late.Load()); late.Load() == 0 {
		t.Error("what came after the time was up counts")
	}
}

// The code of an attempt waits until its time is up, and the worker does not know that somebody has
// used its token meanwhile.
func TestSTEP13_WhatWasAcceptedInTimeCountsThoughTheCodeIsTooSlow(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.slow", shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 1}})
	w := flowtest.NewVirtual(t)
	var deaf atomic.Bool
	between := &flowtest.Between{Store: w.Store}
	between.Around = func(_ context.Context, op string, _ any, do func() error) error {
		err := do()
		if op == "wait" && deaf.Load() {
			return errors.New("no answer")
		}
		return err
	}
	client := w.Client
	w.Client = workflow.NewClient(between, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = client.Close() })
	opened := make(chan string, 1)
	w.Work(worker.Config{}, flowtest.As(charges, charge.Call), charge.As(func(ctx context.Context, _ int) (int, error) {
		later, err := step.Later(ctx, charged)
		if err != nil {
			return 0, err
		}
		opened <- later.Token()
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	run := flowtest.Start(w, charges, 1)
	tok := <-opened
	deaf.Store(true)
	if err := charged.Send(w.Ctx, w.Client, tok, 17); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Hour)
	w.Eventually("the step has ended", func() bool {
		log := w.Log(run)
		return len(flowtest.Filter(log, event.StepCompleted))+len(flowtest.Filter(log, event.StepFailed)) > 0
	})
	deaf.Store(false)
	if got := flowtest.Result(w, run); got != 17 {
		t.Errorf("got %d, want the outcome that was accepted before the time was up", got)
	}
}

// The worker learns of an outcome only after the time of the attempt is up: it was accepted in time.
func TestSTEP13_WhatWasAcceptedInTimeCountsHoweverLateItIsRead(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.unread", shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 1}})
	holds := flowtest.AStep[int, int]("charge.holds", shim.Policy{Timeout: 100 * time.Hour})
	w := flowtest.NewVirtual(t)
	deaf := &flowtest.Between{Store: w.Store}
	var closed atomic.Bool
	deaf.Around = func(_ context.Context, op string, _ any, do func() error) error {
		err := do()
		if op == "wait" && closed.Load() { // nobody tells the worker that there is something new
			return errors.New("no answer")
		}
		return err
	}
	client := w.Client
	w.Client = workflow.NewClient(deaf, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = client.Close() })
	leave := make(chan struct{})
	w.Work(worker.Config{}, charge.As(leaves), holds.As(func(context.Context, int) (int, error) {
		<-leave // so that the worker keeps the run
		return 0, nil
	}), flowtest.As(charges, func(ctx workflow.Context, n int) (int, error) {
		other := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return holds.Call(ctx, n) })
		v, err := charge.Call(ctx, n)
		if err != nil {
			return 0, err
		}
		_, err = other.Get(ctx)
		return v, err
	}))
	run := flowtest.Start(w, charges, 1)
	tok := left(w, run, 1)
	closed.Store(true)
	if err := charged.Send(w.Ctx, w.Client, tok, 17); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Hour)
	w.Eventually("the step has ended", func() bool {
		log := w.Log(run)
		return len(flowtest.Filter(log, event.StepCompleted))+len(flowtest.Filter(log, event.StepFailed)) > 0
	})
	closed.Store(false)
	close(leave)
	if got := flowtest.Result(w, run); got != 17 {
		t.Errorf("got %d, want 17", got)
	}
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
			if n > 0 { // the code of the first run may still be about to return when the second one begins
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
			<-ctx.Done() // what came from outside ends it
			if n > 0 {
				<-leave // and it takes its time
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
		close(leave) // only now may the next attempt begin
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

// dying runs a step that hands its token out on a worker that dies before it has returned, or
// does something else first.
func TestSTEP13_ATokenOfADeadWorkerIsGoodUntilTheNextAttemptBegins(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.dies", shim.Policy{Retry: flowtest.Quick})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		tokens, next := make(chan string, 2), make(chan struct{}, 2)
		first := true
		w.Keep(1, worker.Config{}, func(die func()) []flowtest.Binding {
			if !first {
				<-next // nobody has the runs
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
		left(w, run, 1) // the first attempt was never pending
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
		next <- struct{}{} // so that the fleet can end
	})
}

func TestSTEP13_ACancelFreesAStepThatIsLeftToOthers(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.canceled", shim.Policy{})
	limited := flowtest.Flow[int, string]("charges.limited")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Parked: 1}, charge.As(leaves), flowtest.As(charges, charge.Call), flowtest.As(limited, func(ctx workflow.Context, n int) (string, error) {
			short, cancel := workflow.WithTimeout(ctx, time.Duration(n)*time.Millisecond)
			defer cancel()
			_, err := charge.Call(short, n)
			if !errors.Is(err, workflow.ErrTimeout) {
				t.Errorf("got %v, want ErrTimeout", err)
			}
			return "too late", nil
		}))
		run := flowtest.Start(w, charges, 1)
		tok := left(w, run, 1)
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v, want it canceled", err)
		}
		over(t, "after the cancel", charged.Send(w.Ctx, w.Client, tok, 1), false)

		branch := flowtest.Start(w, limited, 50)
		tok = w.Reach(branch, event.StepHookCreated, 1).Token
		if got := flowtest.Result(w, branch); got != "too late" {
			t.Errorf("got %q", got)
		}
		over(t, "after the time of its branch", charged.Send(w.Ctx, w.Client, tok, 1), false)
	})
}

// Whatever moment a cancel comes at: what was accepted has completed the step, or the log says
// that it came too late.
func TestSTEP13_NoAcceptedOutcomeIsLostWhenItRacesWithACancel(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.cancels", shim.Policy{})
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
	var racers sync.WaitGroup
	var won, lost, missed atomic.Int64
	for n := range 300 {
		run := flowtest.Start(w, charges, n)
		racers.Go(func() {
			tok := w.Reach(run, event.StepHookCreated, 1).Token
			sent := make(chan error, 1)
			go func() { sent <- charged.Send(w.Ctx, w.Client, tok, n) }()
			if err := run.Cancel(w.Ctx, "enough"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				t.Error(err)
			}
			err := <-sent
			got, ended := run.Result(w.Ctx)
			log := w.Log(run)
			last := log[len(log)-1]
			switch {
			case err == nil && ended == nil && got == n:
				won.Add(1)
			case err == nil && errors.Is(ended, workflow.ErrCanceled) && (len(last.Unread) == 1 || len(flowtest.Filter(log, event.StepCompleted)) == 1):
				missed.Add(1)
			case errors.Is(err, workflow.ErrHookDisposed) && errors.Is(ended, workflow.ErrCanceled) && len(flowtest.Filter(log, event.StepCompleted)) == 0:
				lost.Add(1)
			default:
				t.Errorf("sent: %v, result: %d, %v, log %v, unread %v", err, got, ended, types(log), last.Unread)
			}
		})
	}
	racers.Wait()
	t.Logf("%d completed, %d refused, %d accepted and listed as unread, or completed under the cancel", won.Load(), lost.Load(), missed.Load())
}

func TestSTEP13_MisuseIsATypedError(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.misuse", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	other := workflow.NewHook[int]("other")
	var leaked *step.Deferred[int]
	w := flowtest.NewMemory(t)
	misuse := map[int]func(ctx context.Context) (int, error){
		0: func(ctx context.Context) (int, error) {
			_, err := step.Later(ctx, charged, workflow.Token("mine"))
			return 0, err
		},
		1: func(ctx context.Context) (int, error) {
			_, err := step.Later(ctx, charged, workflow.Describe(workflow.HookMeta{Title: "\xff"}))
			return 0, err
		},
		2: func(ctx context.Context) (int, error) {
			if _, err := step.Later(ctx, charged); err != nil {
				return 0, err
			}
			_, err := step.Later(ctx, other)
			return 0, err
		},
		3: func(ctx context.Context) (v int, err error) {
			if leaked, err = step.Later(ctx, charged); err != nil {
				return 0, err
			}
			return 3, nil // it does not leave its outcome to others
		},
		4: func(context.Context) (int, error) { return leaked.Pending() }, // of another attempt
	}
	w.Work(worker.Config{}, charge.As(func(ctx context.Context, n int) (int, error) { return misuse[n](ctx) }), flowtest.As(charges, charge.Call))
	for n := range 3 {
		if err := flowtest.Failure(w, flowtest.Start(w, charges, n)); !errors.As(err, new(*workflow.InvalidError)) {
			t.Errorf("%d: got %v, want an *InvalidError", n, err)
		}
	}
	run := flowtest.Start(w, charges, 3)
	if got := flowtest.Result(w, run); got != 3 {
		t.Errorf("got %d, want what the code has returned", got)
	}
	over(t, "the token of code that has returned a result", charged.Send(w.Ctx, w.Client, w.Reach(run, event.StepHookCreated, 1).Token, 1), false)
	if err := flowtest.Failure(w, flowtest.Start(w, charges, 4)); err.Code != event.CodeError {
		t.Errorf("the token of another attempt: got %v, want an ordinary failure", err)
	}

	w.Work(worker.Config{}, flowtest.Bill)
	bill := flowtest.Start(w, flowtest.Bills, 1)
	tok := w.TokenOf(bill)
	if err := flowtest.Paid.Fail(w.Ctx, w.Client, tok, flowtest.ErrBusy); !errors.As(err, new(*workflow.InvalidError)) {
		t.Errorf("failing a hook of a workflow: got %v, want an *InvalidError", err)
	}
	if err := flowtest.Paid.Fail(w.Ctx, w.Client, tok, nil); !errors.As(err, new(*workflow.InvalidError)) {
		t.Errorf("failing with nil: got %v, want an *InvalidError", err)
	}
	w.Resume(tok, 1)
	flowtest.Result(w, bill)
}

// picky is a result that only its own code can read.
type picky struct{ N int }

// UnmarshalJSON refuses what is negative.
func (p *picky) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &p.N); err != nil {
		return err
	}
	if p.N < -100 {
		panic("far too little")
	}
	if p.N < 0 {
		return &flowtest.NegativeError{N: p.N}
	}
	return nil
}

// MarshalJSON writes the number.
func (p picky) MarshalJSON() ([]byte, error) { return json.Marshal(p.N) }

func TestSTEP13_WhatIsNoResultOfTheStepIsAFailedAttempt(t *testing.T) {
	pick := flowtest.AStep[int, picky]("pick", shim.Policy{Retry: flowtest.Quick})
	picks := flowtest.Flow[int, int]("picks")
	picked := workflow.NewHook[picky]("picked")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, pick.As(func(ctx context.Context, _ int) (picky, error) {
			later, err := step.Later(ctx, picked)
			if err != nil {
				return picky{}, err
			}
			return later.Pending()
		}), flowtest.As(picks, func(ctx workflow.Context, n int) (int, error) {
			p, err := pick.Call(ctx, n)
			return p.N, err
		}))
		run := flowtest.Start(w, picks, 1)
		for n, v := range []int{-5, -500, 5} {
			if err := picked.Send(w.Ctx, w.Client, left(w, run, n+1), picky{v}); err != nil {
				t.Fatal(err)
			}
		}
		if got := flowtest.Result(w, run); got != 5 {
			t.Errorf("got %d, want 5", got)
		}
		for _, e := range flowtest.Filter(w.Log(run), event.StepRetrying) {
			if e.Failure.Code != event.CodeError || !flowtest.ContainsAll(e.Failure.Message, "no result of it") {
				t.Errorf("attempt %d failed with %+v", e.Attempt, e.Failure)
			}
		}
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
			if n == 1 { // its outcome comes while it runs
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
		left(w, fork, 3) // it has taken over the first one
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
