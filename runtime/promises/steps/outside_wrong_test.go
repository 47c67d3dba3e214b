package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

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
				fail(tok, fmt.Errorf("gateway: %w", &flowtest.NegativeError{N: -n})) // repeating the failure has no effect
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
			return 3, nil // the attempt returns a result instead of being pending
		},
		4: func(context.Context) (int, error) { return leaked.Pending() }, // uses the token of another attempt
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

// picky is a type whose UnmarshalJSON method refuses some values.
type picky struct{ N int }

// UnmarshalJSON refuses negative numbers, and panics for numbers below -100.
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
			if e.Failure.Code != event.CodeError || !flowtest.ContainsAll(e.Failure.Message, "not a valid result") {
				t.Errorf("attempt %d failed with %+v", e.Attempt, e.Failure)
			}
		}
	})
}
