package workflowtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// exampleT replaces the *testing.T of a test.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (*exampleT) Helper()             {}
func (*exampleT) Name() string        { return "TestOrder" }
func (*exampleT) Logf(string, ...any) {}
func (*exampleT) Log(...any)          {}
func (*exampleT) Error(a ...any)      { fmt.Println(a...) }
func (t *exampleT) Cleanup(f func())  { t.cleanups = append(t.cleanups, f) }

func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

func ExampleNew() {
	t := &exampleT{} // in a test: t *testing.T
	defer t.end()
	env := workflowtest.New(t)
	setupOrder(env) // in a program: orders.Register(env, …)
	calls := workflowtest.Stub(env, charge, func(_ context.Context, arg string) (string, error) { return "paid for " + arg, nil })

	result, err := order.Execute(context.Background(), env.Client(), "o1")
	fmt.Println(result, err)
	fmt.Println(calls.Count(), "call,", env.Now().Sub(workflowtest.Epoch), "later")
	// Output:
	// paid for o1 by ann: [a b c] <nil>
	// 1 call, 48h0m0s later
}

func ExampleCrashEverywhere() {
	t := &exampleT{} // in a test: t *testing.T
	defer t.end()
	report := workflowtest.CrashEverywhere(t, order, "o1", setupOrder, workflowtest.Pairs(10))
	fmt.Println(report.Tried == report.Points, report.Pairs, "pairs,", report.Failed, "failed")
	// Output: true 10 pairs, 0 failed
}

func ExampleInterleave() {
	t := &exampleT{} // in a test: t *testing.T
	defer t.end()
	report := workflowtest.Interleave(t, order, "o1", func(env *workflowtest.Env) {
		shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) {
			_, err := workflow.Map(ctx, []string{"a", "b", "c"}, func(ctx workflow.Context, item string) (string, error) {
				return call(ctx, pack, item)
			})
			return in, err
		})
		pack.Bind(env, echo)
	}, 100, workflowtest.WithoutCancels())
	fmt.Println(report.Orders, "orders,", report.Failed, "failed")
	// Output: 6 orders, 0 failed
}
