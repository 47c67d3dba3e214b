package flows_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestCheckout_IsPaidInParts(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	workflowtest.StubHook(env, flows.Paid,
		workflowtest.Payload[flows.Transfer]{After: time.Hour, Value: flows.Transfer{Cents: 40}},
		workflowtest.Payload[flows.Transfer]{After: 48 * time.Hour, Value: flows.Transfer{Cents: 50}})
	run, err := flows.Checkout.Start(t.Context(), env.Client(), flows.Cart{Customer: "c-7", Cents: 100})
	if err != nil {
		t.Fatal(err)
	}
	env.At(2*time.Hour, func(ctx context.Context) {
		if _, err := flows.Haggle(ctx, env.Client(), run.ID(), 50); !errors.Is(err, flows.ErrTooHigh) {
			t.Errorf("50%%: got %v, want ErrTooHigh", err)
		}
		if price, err := flows.Haggle(ctx, env.Client(), run.ID(), 10); price != 90 || err != nil {
			t.Errorf("10%%: got %d, %v, want 90", price, err)
		}
	})
	var token string
	env.At(3*time.Hour, func(ctx context.Context) {
		hooks, err := env.Client().Run(run.ID()).Hooks(ctx)
		if err != nil || len(hooks) != 1 {
			t.Errorf("got %v, %v, want one open hook", hooks, err)
			return
		}
		token = hooks[0].Token
		title, form, err := flows.Form(ctx, env.Client(), token)
		if title != "100 cents of c-7" || !json.Valid(form) || err != nil {
			t.Errorf("the form: got %q, %s, %v", title, form, err)
		}
		if titles, err := flows.OpenBills(ctx, env.Client(), run.ID()); err != nil || len(titles) != 1 || titles[0] != title {
			t.Errorf("open bills: got %v, %v", titles, err)
		}
	})
	var stages []string
	if err := flows.Show(t.Context(), env.Client(), run.ID(), func(s string) { stages = append(stages, s) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0 paid", "40 paid", "done"}, stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if got, err := run.Result(t.Context()); got != 90 || err != nil {
		t.Errorf("got %d, %v, want 90", got, err)
	}
	if title, form, err := flows.Form(t.Context(), env.Client(), token); title != "100 cents of c-7 (done)" || form != nil || err != nil {
		t.Errorf("the form after the end: got %q, %s, %v", title, form, err)
	}
}

func TestCheckout_SurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, flows.Checkout, flows.Cart{Customer: "c-7", Cents: 100}, func(env *workflowtest.Env) {
		flows.Register(env, nil)
		workflowtest.StubHook(env, flows.Paid, workflowtest.Payload[flows.Transfer]{After: time.Hour, Value: flows.Transfer{Cents: 100}})
	})
}

func TestHall_IsRentedOnce(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	first, err := flows.Hall.Start(t.Context(), env.Client(), "blue")
	if err != nil {
		t.Fatal(err)
	}
	env.Advance(time.Minute)
	if _, err := flows.Hall.Execute(t.Context(), env.Client(), "blue"); !errors.As(err, new(*workflow.TokenConflictError)) {
		t.Errorf("got %v, want a *TokenConflictError", err)
	}
	if err := flows.Report(t.Context(), env.Client(), "hall-blue", "call-1", json.RawMessage(`{"cents":7}`)); err != nil {
		t.Fatal(err)
	}
	if got, err := first.Result(t.Context()); got != "blue for 7" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := flows.Report(t.Context(), env.Client(), "hall-blue", "call-2", json.RawMessage(`{"cents":7}`)); !errors.Is(err, workflow.ErrHookDisposed) {
		t.Errorf("got %v, want ErrHookDisposed", err)
	}
}
