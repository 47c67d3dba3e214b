package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Stub replaces the implementation of a step with fake, which has the same type:
//
//	charges := workflowtest.Stub(env, orders.Steps.Charge,
//		func(ctx context.Context, customer string, cents int64) (orders.Receipt, error) { … })
//
// The package of the step need not be registered. If fake is nil, the step completes with the zero
// value.
func Stub[F any](e *Env, s shim.Step[F], fake F) *Calls {
	e.tb.Helper()
	c := &Calls{env: e, step: s.Name(), spec: flow.Step[F, shim.Handler](s).Spec()}
	if handler, ok := adapt(s, fake); ok {
		c.handler = handler
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stubs[c.step] = c
	return c
}

// StubChild replaces the code of a workflow with fake, both for children and for runs that the test
// starts:
//
//	prices := workflowtest.StubChild(env, flows.Price,
//		func(ctx context.Context, carrier string) (flows.Offer, error) { … })
//
// Each run of the workflow executes fake as its only step. FailFirst makes whole runs fail, because
// a run is not retried. Count returns the number of executions: one for each run, and one more for
// each crash of its worker. Args decodes the stored input of the run.
//
// The run itself is real: it has an ID, is listed, can be canceled, and ends with its parent. The
// package of the workflow need not be registered. If fake is nil, runs complete with the zero
// value. StubChild panics if the worker of the Env has started, so call it before the first run.
func StubChild[In, Out any](e *Env, d workflow.Definition[In, Out], fake func(context.Context, In) (Out, error)) *Calls {
	e.tb.Helper()
	return stubRun(e, d.Name(), standIn(e, d, fake))
}

// StubBatch is like [StubChild], for a workflow with batch=, whose code receives the inputs of all
// starts that share a run:
//
//	sent := workflowtest.StubBatch(env, flows.Dispatch,
//		func(ctx context.Context, emails []flows.Email) (int, error) { … })
//
// The starts are real: starts with the same key share a run. A run begins when it is full or when
// its time has passed. Args decodes the list of stored inputs.
func StubBatch[In, Out any](e *Env, d workflow.Definition[In, Out], fake func(context.Context, []In) (Out, error)) *Calls {
	e.tb.Helper()
	return stubRun(e, d.Name(), standIn(e, d, fake))
}

// standIn makes a step replace the code of a workflow, and returns the code of the step, which calls
// fake. Stored is the type of the stored input.
func standIn[Stored, In, Out any](e *Env, d workflow.Definition[In, Out], fake func(context.Context, Stored) (Out, error)) flow.StepFunc {
	spec := flow.Definition(d).Spec()
	(*flow.Registry)(&e.registry).StandIn(spec)
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var in Stored
		if _, err := spec.DecodeInput(args, &in); err != nil {
			return nil, err
		}
		var out Out
		if fake != nil {
			var err error
			if out, err = fake(ctx, in); err != nil {
				return nil, err
			}
		}
		if _, none := any(out).(workflow.None); none {
			return nil, nil
		}
		return flow.EncodePayload("result of the stand-in for workflow", spec.Name, out)
	}
}

func stubRun(e *Env, workflow string, handler flow.StepFunc) *Calls {
	c := &Calls{env: e, step: workflow, handler: handler}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stubs[c.step] = c
	return c
}

// adapt returns the handler that calls fake. It returns false if fake is nil.
func adapt[F any](s shim.Step[F], fake F) (shim.Handler, bool) {
	if isNil(fake) {
		return nil, false
	}
	return s.Adapt(fake), true
}

// Calls records the calls of a stand-in. Its methods are safe for concurrent use.
type Calls struct {
	env     *Env
	step    string
	spec    *flow.StepSpec                                         // the replaced step; nil: a workflow is replaced
	handler func(ctx context.Context, args []byte) ([]byte, error) // nil: the stand-in returns the zero value

	mu     sync.Mutex
	fail   int
	err    error
	delay  time.Duration
	hang   int
	inputs [][]byte
}

// FailFirst makes the first n executions fail with err instead of calling the stand-in. Executions
// by a killed worker count.
func (c *Calls) FailFirst(n int, err error) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail, c.err = n, err
	return c
}

// Delay makes each execution take d of virtual time, before it fails or calls the stand-in.
func (c *Calls) Delay(d time.Duration) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
	return c
}

// HangFirst makes the first n executions wait until their contexts end. They fail with the cause of
// the context.
func (c *Calls) HangFirst(n int) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = n
	return c
}

// Count returns the number of executions. Each attempt is one execution.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inputs)
}

// Args decodes the arguments of execution number i, counted from 0, into a pointer to a struct or a
// map. The fields of the struct are named like the parameters. Args fails the test if there was no
// such execution.
func (c *Calls) Args(i int, into any) {
	c.env.tb.Helper()
	c.mu.Lock()
	n := len(c.inputs)
	var args []byte
	if i >= 0 && i < n {
		args = c.inputs[i]
	}
	c.mu.Unlock()
	if i < 0 || i >= n {
		c.env.tb.Fatalf("workflowtest: Args(%d) of step %s: it was executed %d times", i, c.step, n)
	}
	if err := json.Unmarshal(args, into); err != nil {
		c.env.tb.Fatalf("workflowtest: Args(%d) of step %s: read %s: %v", i, c.step, args, err)
	}
}

// execute is the implementation of the replaced step.
func (c *Calls) execute(ctx context.Context, args []byte) ([]byte, error) {
	c.mu.Lock()
	c.inputs = append(c.inputs, args)
	n, delay := len(c.inputs), c.delay
	fail, hang, err := n <= c.fail, n <= c.hang, c.err
	c.mu.Unlock()
	if delay > 0 {
		if err := Sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
	switch {
	case hang:
		if err := wait(ctx); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("hang: %w", context.Cause(ctx))
	case fail:
		return nil, err
	case c.handler == nil:
		return []byte("null"), nil
	}
	return c.handler(ctx, args)
}

// forever is longer than any horizon.
const forever = 200 * 365 * 24 * time.Hour

func wait(ctx context.Context) error { return Sleep(ctx, forever) }
