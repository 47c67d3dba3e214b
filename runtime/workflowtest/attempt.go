package workflowtest

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/flow"
)

// errDead is the error of the attempts of a killed worker. Callers never receive it.
var errDead = errors.New("the worker was killed")

// phase is the progress of an execution.
type phase uint8

const (
	phaseLaunched phase = iota // the worker has just launched the attempt
	phaseReady                 // the attempt may begin
	phaseRunning               // the code of the step runs
	phaseAsleep                // the code waits for virtual time
	phaseStalled               // the code waits for the end of its context
	phaseEnded                 // the code has returned, and the worker has not been notified
	phaseTold                  // the worker has been notified
)

// counted reports whether an execution in this phase counts as activity of the worker. The
// scheduler waits while there is activity.
func (p phase) counted() bool { return p == phaseLaunched || p == phaseRunning || p == phaseTold }

// shift changes the phase. The caller must hold the lock of the scheduler.
func (x *execution) shift(to phase) {
	from := x.phase
	x.phase = to
	switch a := x.incarnation.activity; {
	case from.counted() && !to.counted():
		a.End()
	case !from.counted() && to.counted():
		a.Begin()
	}
}

// execution is one execution of a step's code for an attempt of the worker.
type execution struct {
	incarnation *incarnation
	info        *attempt.Attempt
	once        bool // the step is not idempotent
	id          goroutineID

	// The lock of the scheduler guards the fields below.
	phase  phase
	since  time.Time // real time at which the code began
	done   bool      // code of the user has called Done of the step's context
	wanted time.Time // deadline of the attempt
	ctx    context.Context
	begin  chan struct{} // closed when the code may run
	tell   chan struct{} // closed when the worker may be notified
}

// intercept returns a function that wraps the implementations of steps for a worker.
func (e *Env) intercept(l *incarnation) func(name string, spec *flow.StepSpec, impl flow.StepFunc) flow.StepFunc {
	return func(name string, spec *flow.StepSpec, impl flow.StepFunc) flow.StepFunc {
		f := e.implementation(name, impl)
		if f == nil {
			return nil
		}
		once := e.onlyOnce(name, spec)
		return func(ctx context.Context, args []byte) (result []byte, err error) {
			return l.execute(ctx, f, args, once)
		}
	}
}

// execute runs the code of a step when the scheduler allows it. It returns when the worker may be
// notified of the outcome.
func (l *incarnation) execute(ctx context.Context, f flow.StepFunc, args []byte, once bool) (result []byte, err error) {
	x := &execution{incarnation: l, once: once, id: currentGoroutine(), info: attempt.From(ctx), begin: make(chan struct{}), tell: make(chan struct{})}
	if !l.enter(ctx, x) {
		return nil, errDead
	}
	l.env.launched(x)
	defer l.exit(x) // deferred, because the code may end its goroutine
	defer func() {  // return a panic only when the worker may be notified
		<-l.ended(x)
		if l.dead.Load() {
			result, err = nil, errDead
		}
	}()
	<-x.begin
	if !l.env.begun(x) {
		return nil, errDead
	}
	return f(&stepContext{Context: ctx, x: x}, args)
}

// enter registers the execution. It returns false if the worker was killed.
func (l *incarnation) enter(ctx context.Context, x *execution) bool {
	c := &l.env.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.dead.Load() {
		return false
	}
	x.ctx = ctx
	x.wanted, _ = ctx.Deadline()
	c.executions[x] = struct{}{}
	if !l.env.virtual() {
		x.phase = phaseRunning
		close(x.begin)
		close(x.tell)
		return true
	}
	x.shift(phaseReady)
	return true
}

// ended records that the code of the step has returned. The returned channel is closed when the
// worker may be notified.
func (l *incarnation) ended(x *execution) <-chan struct{} {
	if !l.env.virtual() {
		return x.tell
	}
	c := &l.env.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	x.shift(phaseEnded)
	if l.dead.Load() {
		x.release()
	}
	return x.tell
}

// release notifies the worker of the outcome of an execution. The caller must hold the lock of the
// scheduler.
func (x *execution) release() {
	if x.phase != phaseTold {
		x.shift(phaseTold)
		close(x.tell)
	}
}

func (l *incarnation) exit(x *execution) {
	c := &l.env.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.executions, x)
	if len(c.executions) == 0 && c.none != nil {
		close(c.none)
		c.none = nil
	}
}

type executionKey struct{}

func executionOf(ctx context.Context) *execution {
	x, _ := ctx.Value(executionKey{}).(*execution)
	return x
}

// stepContext is the context of a step's code. It records whether the code of the user, and not
// only a library, has called Done. If that code waits for the end of the context, only virtual time
// or the workflow can end the wait.
type stepContext struct {
	context.Context
	x *execution
}

// Done returns the channel of the worker's context.
func (c *stepContext) Done() <-chan struct{} {
	if calledByUser() {
		k := &c.x.incarnation.env.scheduler
		k.mu.Lock()
		c.x.done = true
		k.mu.Unlock()
	}
	return c.Context.Done()
}

// Value returns the execution for executionKey. For other keys it returns the value of the worker's
// context.
func (c *stepContext) Value(key any) any {
	if key == (executionKey{}) {
		return c.x
	}
	return c.Context.Value(key)
}

// Sleep waits for d of virtual time, or until ctx ends. Use it in stand-ins and in steps under
// test. Virtual time does not advance while a step runs, unless the step waits in Sleep or for the
// end of its context. If ctx does not belong to a step of an Env, or if the time of the store is
// real, Sleep waits for d of real time.
func Sleep(ctx context.Context, d time.Duration) error {
	x := executionOf(ctx)
	if x == nil || !x.incarnation.env.virtual() {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return x.sleep(ctx, d)
}

func (x *execution) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	c := &x.incarnation.env.scheduler
	woken := make(chan struct{})
	wake := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if x.phase == phaseAsleep {
			x.shift(phaseRunning)
		}
	}
	stop := c.clock.AfterFunc(d, func() {
		wake()
		close(woken)
	})
	defer stop()
	c.mu.Lock()
	x.shift(phaseAsleep)
	c.mu.Unlock()
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		wake()
		return context.Cause(ctx)
	}
}

// implementation returns the code that executes a step: the stand-in if there is one, otherwise
// impl, which is nil if the step is not registered. If the receiver of the step is nil, the code
// fails the test.
func (e *Env) implementation(name string, impl flow.StepFunc) flow.StepFunc {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.stubs[name]; s != nil {
		return s.execute
	}
	if what := e.missing[name]; what != "" {
		return func(context.Context, []byte) ([]byte, error) {
			err := errors.New("workflowtest: step " + name + " was called, but " + what + " is nil: pass a value to Register, or replace the step with Stub")
			e.fail(err.Error())
			return nil, &attempt.FatalError{Err: err}
		}
	}
	return impl
}

// missingReceiver records that Register was called with a nil receiver. The steps of that receiver
// must have stand-ins if they are called.
func (e *Env) missingReceiver(what, step string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing[step] = what
}

// onlyOnce reports whether a step is declared nonidempotent.
func (e *Env) onlyOnce(name string, spec *flow.StepSpec) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if spec == nil && e.stubs[name] != nil {
		spec = e.stubs[name].spec
	}
	if spec == nil || !spec.NonIdempotent {
		return false
	}
	e.onceSteps[name] = true
	return true
}
