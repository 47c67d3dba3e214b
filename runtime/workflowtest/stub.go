package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Stub replaces a step with fake, which has the type of the step's implementation:
//
//	charges := workflowtest.Stub(env, orders.Steps.Charge,
//		func(ctx context.Context, customer string, cents int64) (orders.Receipt, error) { … })
//
// The package of the step need not be registered. A nil fake completes with the zero value.
func Stub[F any](e *Env, s shim.Step[F], fake F) *Calls {
	e.tb.Helper()
	c := &Calls{env: e, step: s.Name(), spec: engine.SpecOf(s)}
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
// fake is executed as the only step of such a run: FailFirst makes whole runs fail, a run is not
// retried, and Count counts executions (one for each run, and one more for each death of its
// worker). Args decodes the stored input. The run itself is real: it has an ID, is listed, can be
// canceled, and ends with its parent. The package of the workflow need not be registered. A nil
// fake completes with the zero value. StubChild panics if the Env's worker has started: call it
// before the first run.
func StubChild[In, Out any](e *Env, d workflow.Definition[In, Out], fake func(context.Context, In) (Out, error)) *Calls {
	e.tb.Helper()
	return stubRun(e, d.Name(), engine.StandIn(&e.registry, d, fake))
}

// StubBatch is like [StubChild], for a workflow with batch=, whose code takes the inputs of all
// starts that share a run:
//
//	sent := workflowtest.StubBatch(env, flows.Dispatch,
//		func(ctx context.Context, emails []flows.Email) (int, error) { … })
//
// The starts are real: they share runs by their keys, and a run begins when it is full or its time
// has passed. Args decodes the list of the stored inputs.
func StubBatch[In, Out any](e *Env, d workflow.Definition[In, Out], fake func(context.Context, []In) (Out, error)) *Calls {
	e.tb.Helper()
	return stubRun(e, d.Name(), engine.StandIn(&e.registry, d, fake))
}

func stubRun(e *Env, workflow string, handler engine.StepFunc) *Calls {
	c := &Calls{env: e, step: workflow, handler: handler}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stubs[c.step] = c
	return c
}

// adapt returns the handler for fake. It returns false for a nil function.
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
	spec    *engine.StepSpec                                       // nil: a workflow
	handler func(ctx context.Context, args []byte) ([]byte, error) // nil: returns the zero value

	mu     sync.Mutex
	fail   int
	err    error
	delay  time.Duration
	hang   int
	inputs [][]byte
}

// FailFirst makes the first n executions fail with err, before the stand-in is called. Executions
// by a killed worker count.
func (c *Calls) FailFirst(n int, err error) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail, c.err = n, err
	return c
}

// Delay makes each execution take d of virtual time, before it fails or the stand-in is called.
func (c *Calls) Delay(d time.Duration) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
	return c
}

// HangFirst makes the first n executions wait until their context ends, and fail with its cause.
func (c *Calls) HangFirst(n int) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = n
	return c
}

// Count returns how often the step was executed; each attempt counts.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inputs)
}

// Args decodes the arguments of execution number i, from 0, into a pointer: to a struct with fields
// named like the parameters, or to a map. It fails the test if there was no such execution.
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

// execute implements the step.
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
