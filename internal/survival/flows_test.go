package survival

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The workflows of these tests, written like generated code.

type noArgs struct{}

type stepFunc = func(context.Context) (string, error)

func declare(name string, p shim.Policy) shim.Step[stepFunc] {
	return shim.NewStep(name, p, func(f stepFunc) shim.Handler {
		return shim.Handle(func(ctx context.Context, _ noArgs) (string, error) { return f(ctx) })
	})
}

func call(ctx workflow.Context, s shim.Step[stepFunc]) (string, error) {
	return shim.Call[string](ctx, s, noArgs{})
}

var (
	first  = declare("survival.first", shim.Policy{})
	second = declare("survival.second", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 20}})

	// Two is a workflow that executes the step first and then the step second. The step second ends
	// when the gate file exists.
	Two = shim.NewWorkflow[workflow.None, string]("survival.two", "", shim.WorkflowPolicy{})
	// Bomb is a workflow whose code ends the process before it records anything.
	Bomb = shim.NewWorkflow[workflow.None, string]("survival.bomb", "", shim.WorkflowPolicy{})
	// Plain is a workflow that executes the step first.
	Plain = shim.NewWorkflow[workflow.None, string]("survival.plain", "", shim.WorkflowPolicy{})
)

func two(ctx workflow.Context, _ workflow.None) (string, error) {
	a, err := call(ctx, first)
	if err != nil {
		return "", err
	}
	b, err := call(ctx, second)
	return a + b, err
}

// swapped is the code of [Two] with the two steps in the opposite order.
func swapped(ctx workflow.Context, _ workflow.None) (string, error) {
	b, err := call(ctx, second)
	if err != nil {
		return "", err
	}
	a, err := call(ctx, first)
	return a + b, err
}

func bomb(workflow.Context, workflow.None) (string, error) {
	os.Exit(7)
	return "", nil
}

func plain(ctx workflow.Context, _ workflow.None) (string, error) { return call(ctx, first) }

// register binds all workflows and steps. gate is the path of the file for which the step second
// waits. If exchange is set, Two has the code swapped.
func register(w *worker.Worker, gate string, exchange bool) {
	first.Bind(w, func(ctx context.Context) (string, error) {
		fmt.Println("first", step.Attempt(ctx))
		return "a", nil
	})
	second.Bind(w, func(ctx context.Context) (string, error) {
		fmt.Println("second", step.Attempt(ctx))
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(gate); err == nil {
				return fmt.Sprintf("b%d", step.Attempt(ctx)), nil
			}
			select {
			case <-ctx.Done():
				fmt.Println("second stopped:", context.Cause(ctx))
				return "", ctx.Err()
			case <-tick.C:
			}
		}
	})
	if exchange {
		shim.BindWorkflow(w, Two, swapped)
	} else {
		shim.BindWorkflow(w, Two, two)
	}
	shim.BindWorkflow(w, Bomb, bomb)
	shim.BindWorkflow(w, Plain, plain)
}
