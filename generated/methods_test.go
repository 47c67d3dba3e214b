package generated_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/generated/methods"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

type registrar struct{ registry workflow.Registry }

func (r *registrar) Registry() *workflow.Registry { return &r.registry }

func same(s string) string { return s }

func TestRegister_TakesEveryReceiver(t *testing.T) {
	methods.Register(&registrar{}, methods.Clock{}, same, &methods.Shop{}, &methods.Store{}, methods.Base{})
}

func TestRegister_NamesAMissingReceiver(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "shop *Shop") {
			t.Errorf("methods.Register without a shop says %q, want it to name the parameter", got)
		}
	}()
	methods.Register(&registrar{}, methods.Clock{}, same, nil, &methods.Store{}, methods.Base{})
	t.Error("methods.Register accepted a missing shop")
}

func TestSell_NeedsNoShopIfItsStepsHaveStandIns(t *testing.T) {
	setup := func(env *workflowtest.Env) {
		methods.Register(env, methods.Clock{}, same, nil, &methods.Store{}, methods.Base{})
		workflowtest.Stub(env, methods.Steps.Count, nil)
		workflowtest.Stub(env, methods.Steps.Ship, func(_ context.Context, order methods.Order) (string, error) { return "label " + order.ID, nil })
	}
	env := workflowtest.New(t)
	setup(env)
	if got, err := methods.Sell.Execute(t.Context(), env.Client(), methods.Order{ID: "7"}); got != "label 7" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	workflowtest.CrashEverywhere(t, methods.Sell, methods.Order{ID: "7"}, setup)
}
