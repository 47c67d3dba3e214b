// Package interceptors_test proves the promises about interceptors of clients and workers.
package interceptors_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientFunc, codeFunc and stepFunc are interceptors.
type (
	clientFunc func(ctx context.Context, call *workflow.ClientCall, next func(context.Context) error) error
	codeFunc   func(ctx workflow.Context, next func(workflow.Context) error) error
	stepFunc   func(ctx context.Context, call step.Call, next func(context.Context) error) error
)

func (f clientFunc) InterceptClient(ctx context.Context, call *workflow.ClientCall, next func(context.Context) error) error {
	return f(ctx, call, next)
}

func (f codeFunc) InterceptWorkflow(ctx workflow.Context, next func(workflow.Context) error) error {
	return f(ctx, next)
}

func (f stepFunc) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	return f(ctx, call, next)
}

var (
	double  = flowtest.AStep[int, int]("double", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 2, Initial: flowtest.Quick.Initial, Max: flowtest.Quick.Max}})
	doubles = flowtest.Flow[int, int]("intercepted")
	remote  = flowtest.AStep[int, int]("double.elsewhere", shim.Policy{Queue: "elsewhere", Retry: flowtest.Quick})
)

// code is the code of doubles.
func code(ctx workflow.Context, n int) (int, error) { return double.Call(ctx, n) }

// twice is the code of the steps.
func twice(_ context.Context, n int) (int, error) { return 2 * n, nil }

func bindings() []flowtest.Binding {
	return []flowtest.Binding{flowtest.As(doubles, code), double.As(twice), remote.As(twice)}
}
