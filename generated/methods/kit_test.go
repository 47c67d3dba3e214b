package methods

import (
	"context"
	"testing"

	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestSell_NeedsNoShopIfItsStepsHaveStandIns(t *testing.T) {
	setup := func(env *workflowtest.Env) {
		Register(env, Clock{}, same, nil, base{})
		workflowtest.Stub(env, Steps.Count, nil)
		workflowtest.Stub(env, Steps.Ship, func(_ context.Context, order Order) (string, error) { return "label " + order.ID, nil })
	}
	env := workflowtest.New(t)
	setup(env)
	if got, err := Sell.Execute(t.Context(), env.Client(), Order{ID: "7"}); got != "label 7" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	workflowtest.CrashEverywhere(t, Sell, Order{ID: "7"}, setup)
}
