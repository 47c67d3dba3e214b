package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var (
	billing  = flow("shop.billing")
	status   = workflow.NewValue[string]("status")
	paid     = workflow.NewHook[int]("paid")
	discount = workflow.NewAsk[int, string]("discount")
)

// billingCode publishes its status and waits for payments at two hooks. Meanwhile it answers
// questions about discounts. Then it continues as new and does the same again.
func billingCode(ctx workflow.Context, in string) (string, error) {
	status.Set(ctx, "open "+in)
	price := 10
	discount.Handle(ctx, func(percent int) error {
		if percent > 50 {
			return errors.New("too much")
		}
		return nil
	}, func(ctx workflow.Context, percent int) (string, error) {
		price--
		return call(ctx, charge, fmt.Sprint(in, percent))
	})
	sum := 0
	for _, opts := range [][]workflow.HookOption{nil, {workflow.Token("bill")}} {
		hook, err := paid.Open(ctx, opts...)
		if err != nil {
			return "", err
		}
		if _, err := call(ctx, pack, fmt.Sprint(len(hook.Token()), " bytes")); err != nil {
			return "", err
		}
		for range 2 {
			cents, err := hook.Receive(ctx, workflow.Timeout(24*time.Hour))
			if err != nil {
				return "", err
			}
			sum += cents
		}
		hook.Dispose(ctx)
	}
	workflow.CloseAsks(ctx)
	status.Set(ctx, fmt.Sprint(in, " for ", price))
	told := fmt.Sprint(in, sum, ";")
	if len(in) < 5 {
		return "", flow("shop.billing").ContinueAsNew(ctx, told)
	}
	return told, nil
}

func setupBilling(e *workflowtest.Env) *books {
	b := &books{seen: map[string]bool{}}
	shim.BindWorkflow(e, billing, billingCode)
	for _, s := range []shim.Step[stepFunc]{charge, pack} {
		s.Bind(e, func(ctx context.Context, arg string) (string, error) {
			b.book(ctx, arg)
			return arg, nil
		})
	}
	workflowtest.StubHook(e, paid, workflowtest.Payload[int]{After: time.Hour, Value: 3}, workflowtest.Payload[int]{After: 2 * time.Hour, Value: 4})
	for i, percent := range []int{10, 60, 20, 30} {
		e.At(time.Duration(i)*70*time.Minute, func(ctx context.Context) {
			answer, err := discount.Ask(ctx, e.Run(), percent, workflow.IdempotencyKey(fmt.Sprint(i)))
			var refused *workflow.RefusedError
			switch {
			case ctx.Err() != nil: // the Env is closed
			case errors.As(err, new(*workflow.AnswerError)): // the run was canceled
			case errors.As(err, &refused):
				if !refused.Ended && percent < 50 {
					panic(err)
				}
			case err != nil || percent > 50:
				panic(fmt.Sprintf("got %q, %v", answer, err))
			}
		})
	}
	return b
}

func TestTEST3_WhatARunSaysAndHearsSurvivesEveryCrash(t *testing.T) {
	var b *books
	r := workflowtest.CrashEverywhere(t, billing, "o1", func(e *workflowtest.Env) { b = setupBilling(e) },
		workflowtest.State(func(e *workflowtest.Env) any {
			last, _, err := status.Get(e.Context(), e.Run())
			return []any{b.entries, last, err}
		}))
	if r.Tried != r.Points || r.Points < 60 || r.Failed+r.Interrupted != 0 {
		t.Errorf("got %+v", r)
	}
	t.Logf("%+v", r)
}

func TestTEST3_WhatARunSaysAndHearsEndsAlikeInEveryOrder(t *testing.T) {
	workflowtest.Interleave(t, billing, "o1", func(e *workflowtest.Env) { setupBilling(e) }, 100)
}

func TestTEST2_AStandInResumesHooksAtVirtualTimes(t *testing.T) {
	e := workflowtest.New(t)
	waits := flow("tests.waits")
	shim.BindWorkflow(e, waits, func(ctx workflow.Context, _ string) (string, error) {
		hook, err := paid.Open(ctx)
		if err != nil {
			return "", err
		}
		began := workflow.Now(ctx)
		var got string
		for range 2 {
			v, err := hook.Receive(ctx)
			if err != nil {
				return "", err
			}
			got += fmt.Sprint(v, " after ", workflow.Now(ctx).Sub(began), " ")
		}
		return got, nil
	})
	workflowtest.StubHook(e, paid,
		workflowtest.Payload[int]{After: 3 * time.Hour, Value: 2}, workflowtest.Payload[int]{After: time.Hour, Value: 1},
		workflowtest.Payload[int]{After: 4 * time.Hour, Value: 5}) // arrives after the code has closed the hook
	run, err := waits.Start(t.Context(), e.Client(), "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := run.Result(t.Context())
	if want := "1 after 1h0m0s 2 after 3h0m0s "; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if diff := cmp.Diff([]string{
		"+0s run_created tests.waits " + `{"in":""}`, "+0s run_started", "+0s hook_created waits/hook.paid#1 paid",
		"+0s wait_created waits/receive.paid#1 payload paid",
		"+1h0m0s hook_received waits/hook.paid#1 1", "+1h0m0s wait_completed waits/receive.paid#1 received",
		"+1h0m0s wait_created waits/receive.paid#2 payload paid",
		"+3h0m0s hook_received waits/hook.paid#1 2", "+3h0m0s wait_completed waits/receive.paid#2 received",
		`+3h0m0s run_completed "1 after 1h0m0s 2 after 3h0m0s "`,
	}, e.Log(run.Handle)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
