package repairtest

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The workflows of the repair tests, written like generated code.

type stepFunc = func(context.Context, string) (string, error)

type stepArgs struct {
	In string `json:"in"`
}

// loop is an input: the number of continuations, and the duration of the final sleep.
type loop struct {
	Times int           `json:"times"`
	For   time.Duration `json:"for"`
}

func declare(name string, p shim.Policy) shim.Step[stepFunc] {
	return shim.NewStep(name, p, func(f stepFunc) shim.Handler {
		return shim.Handle(func(ctx context.Context, a stepArgs) (string, error) { return f(ctx, a.In) })
	})
}

var (
	echo  = declare("repair.echo", shim.Policy{})
	shaky = declare("repair.shaky", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 3, Initial: time.Hour, Max: time.Hour}})

	sleeping  = shim.NewWorkflow[time.Duration, string]("repair.sleeping", "for", shim.WorkflowPolicy{})
	asking    = shim.NewWorkflow[string, string]("repair.asking", "in", shim.WorkflowPolicy{})
	retrying  = shim.NewWorkflow[string, string]("repair.retrying", "in", shim.WorkflowPolicy{})
	working   = shim.NewWorkflow[string, string]("repair.working", "in", shim.WorkflowPolicy{})
	looping   = shim.NewWorkflow[loop, string]("repair.looping", "loop", shim.WorkflowPolicy{})
	begetting = shim.NewWorkflow[time.Duration, string]("repair.begetting", "for", shim.WorkflowPolicy{})
	failing   = shim.NewWorkflow[string, string]("repair.failing", "in", shim.WorkflowPolicy{})

	answers = workflow.NewTopic[string]("repair-answers")
)

// register binds the workflows and steps. The first attempt of the step shaky fails.
func register(r workflow.Registrar) {
	echo.Bind(r, func(_ context.Context, in string) (string, error) { return in, nil })
	shaky.Bind(r, func(ctx context.Context, in string) (string, error) {
		if step.Attempt(ctx) == 1 {
			return "", errors.New("not yet")
		}
		return in, nil
	})
	shim.BindWorkflow(r, sleeping, func(ctx workflow.Context, d time.Duration) (string, error) {
		due := workflow.Now(ctx).Add(d)
		if err := workflow.Sleep(ctx, d); err != nil {
			return "", err
		}
		if workflow.Now(ctx).Before(due) {
			return "woke too early", nil
		}
		return "slept", nil
	})
	shim.BindWorkflow(r, asking, func(ctx workflow.Context, in string) (string, error) {
		one, err := answers.Receive(ctx)
		if err != nil {
			return "", err
		}
		two, err := shim.Call[string](ctx, echo, stepArgs{in})
		if err != nil {
			return "", err
		}
		three, err := answers.Receive(ctx)
		return one + " " + two + " " + three, err
	})
	shim.BindWorkflow(r, retrying, func(ctx workflow.Context, in string) (string, error) {
		return shim.Call[string](ctx, shaky, stepArgs{in})
	})
	shim.BindWorkflow(r, working, func(ctx workflow.Context, in string) (string, error) {
		return shim.Call[string](ctx, echo, stepArgs{in})
	})
	shim.BindWorkflow(r, looping, func(ctx workflow.Context, l loop) (string, error) {
		if l.Times > 0 {
			return "", looping.ContinueAsNew(ctx, loop{l.Times - 1, l.For})
		}
		return "looped", workflow.Sleep(ctx, l.For)
	})
	shim.BindWorkflow(r, begetting, func(ctx workflow.Context, d time.Duration) (string, error) {
		got, err := sleeping.Child(ctx, d)
		return "the child " + got, err
	})
	shim.BindWorkflow(r, failing, func(workflow.Context, string) (string, error) { return "", errors.New("it does not work") })
}
