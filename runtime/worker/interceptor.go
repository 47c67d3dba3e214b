package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// interceptors are the interceptors of a worker with their names for errors.
type interceptors struct {
	around *flow.Around // nil: the code of workflows is called directly

	steps     []step.Interceptor
	stepNames []string
}

// checkInterceptors returns a *[store.InvalidError] if an element wraps neither the code of workflows
// nor steps.
func checkInterceptors(all []workflow.Interceptor) error {
	for n, i := range all {
		_, isCode := i.(workflow.CodeInterceptor)
		if _, isStep := i.(step.Interceptor); !isCode && !isStep {
			return &store.InvalidError{
				What: fmt.Sprintf("Interceptors[%d]", n), Value: fmt.Sprintf("%T", i),
				Reason: "is neither a workflow.CodeInterceptor nor a step.Interceptor: implement InterceptWorkflow or InterceptStep",
			}
		}
	}
	return nil
}

// newInterceptors returns the interceptors of all.
func newInterceptors(all []workflow.Interceptor) (c interceptors) {
	var codes []workflow.CodeInterceptor
	var codeNames []string
	for _, i := range all {
		name := fmt.Sprintf("%T", i)
		if code, ok := i.(workflow.CodeInterceptor); ok {
			codes, codeNames = append(codes, code), append(codeNames, name)
		}
		if attempts, ok := i.(step.Interceptor); ok {
			c.steps, c.stepNames = append(c.steps, attempts), append(c.stepNames, name)
		}
	}
	if len(codes) > 0 {
		c.around = new(aroundCode(codes, codeNames))
	}
	return c
}

// aroundCode returns a function that calls the code of a workflow through interceptors. It blocks a
// run for which an interceptor has broken the rules, because a corrected program can continue it.
func aroundCode(all []workflow.CodeInterceptor, names []string) flow.Around {
	return func(ctx flow.Context, code func(flow.Context) error) error {
		b := ctx.Branch()
		l := flow.Links[workflow.Context]{
			Names: names,
			Code:  func(ctx workflow.Context) error { return code(flow.Context(ctx)) },
			Call: func(i int, ctx workflow.Context, next func(workflow.Context) error) error {
				return all[i].InterceptWorkflow(ctx, next)
			},
			Check: func(ctx workflow.Context) string {
				if !flow.Context(ctx).Is(b) {
					return "called next with the Context of another branch: pass on its own Context, or one derived from it"
				}
				return ""
			},
		}
		err := l.Intercept(workflow.Context(ctx))
		if misuse, ok := errors.AsType[*workflow.InterceptorError](err); ok {
			b.Block(misuse)
		}
		return err
	}
}

// aroundStep returns the code of a step, called through interceptors.
func (c *interceptors) aroundStep(fn flow.StepFunc) flow.StepFunc {
	return func(ctx context.Context, args []byte) (payload []byte, err error) {
		a := at.From(ctx)
		call, _ := step.Current(ctx)
		l := flow.Links[context.Context]{
			Names: c.stepNames,
			Wait:  true, // the attempt must not end before the code, because the next attempt would run beside it
			Code: func(ctx context.Context) (err error) {
				payload, err = recovered(ctx, fn, args)
				return err
			},
			Call: func(i int, ctx context.Context, next func(context.Context) error) error {
				return c.steps[i].InterceptStep(ctx, call, next)
			},
			Check: func(ctx context.Context) string {
				if ctx == nil || at.From(ctx) != a {
					return "called next with a context that is not derived from its own"
				}
				return ""
			},
		}
		err = l.Intercept(ctx)
		return payload, err
	}
}

// recovered calls the code of a step. It returns a panic as a *step.PanicError.
func recovered(ctx context.Context, fn flow.StepFunc, args []byte) (payload []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &step.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return fn(ctx, args)
}
