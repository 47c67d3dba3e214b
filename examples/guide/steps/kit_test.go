package steps_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/examples/guide/steps"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// till is a bank and a courier. It records their calls.
type till struct {
	booked map[string]string // payments by idempotency key
	calls  int               // number of calls of the courier
}

func (b *till) register(env *workflowtest.Env) {
	*b = till{booked: map[string]string{}}
	bank := &steps.Bank{Book: func(_ context.Context, key, customer string, cents int64) (string, error) {
		b.booked[key] = fmt.Sprint(customer, " ", cents)
		return "payment", nil
	}}
	courier := &steps.Courier{Call: func(context.Context, string) error {
		b.calls++
		return nil
	}}
	archive := &steps.Archive{Rows: 3000, Copy: func(context.Context, int, int) error { return nil }}
	steps.Register(env, archive, bank, courier)
}

func TestSell_SurvivesEveryCrash(t *testing.T) {
	var b till
	r := workflowtest.CrashEverywhere(t, steps.Sell, order, b.register,
		workflowtest.State(func(*workflowtest.Env) any { return b.booked }),
		workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, run workflowtest.Outcome) {
			// Fetch is not idempotent. A crash during the step fails the run, so that an operator
			// can examine it.
			if b.calls > 1 || run.Status == workflow.StatusCompleted && b.calls != 1 {
				t.Errorf("the courier was called %d times, the run is %s", b.calls, run.Status)
			}
		}))
	if r.Interrupted == 0 {
		t.Error("no crash was during the step that is not idempotent")
	}
}

func TestMoveAndCollect_SurviveEveryCrash(t *testing.T) {
	var b till
	workflowtest.CrashEverywhere(t, steps.Move, workflow.None{}, b.register)
	workflowtest.CrashEverywhere(t, steps.Collect, steps.CollectInput{Customer: "ada", Cents: 1}, func(env *workflowtest.Env) {
		b.register(env)
		workflowtest.Stub(env, steps.Steps.Charge, func(context.Context, string, int64) (steps.Receipt, error) {
			return steps.Receipt{Payment: "p"}, nil
		}).FailFirst(10, errors.New("closed"))
	})
}

func TestSell_WorksInAnyOrder(t *testing.T) {
	var b till
	workflowtest.Interleave(t, steps.Sell, order, b.register, 40)
}
