package workflowtest

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
)

// errDead ends the attempts of a killed worker. Callers never see it.
var errDead = errors.New("the worker was killed")

// phase is the progress of an attempt's execution.
type phase uint8

const (
	phaseLaunched phase = iota // the worker has just launched it
	phaseReady                 // it may begin
	phaseRunning               // the code of the step runs
	phaseAsleep                // the code waits for virtual time
	phaseStalled               // the code waits for the end of its context
	phaseEnded                 // the code has returned; the worker was not notified yet
	phaseTold                  // the worker was notified
)

// counted reports whether the execution counts as activity of the worker, so that the scheduler
// waits for it.
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

// execution is one execution of a step, between the worker and the step's code.
type execution struct {
	incarnation *incarnation
	info        *attempt.Attempt
	once        bool // the step is not idempotent
	id          goroutineID

	// The lock of the scheduler guards the fields below.
	phase  phase
	since  time.Time // real time of the beginning
	done   bool      // the step's own code has called Done of its context
	wanted time.Time // the attempt's deadline
	ctx    context.Context
	begin  chan struct{} // closed when the code may run
	tell   chan struct{} // closed when the worker may be notified
}

// intercept wraps the implementation of a step for a worker.
func (e *Env) intercept(l *incarnation) func(name string, spec *engine.StepSpec, impl engine.StepFunc) engine.StepFunc {
	return func(name string, spec *engine.StepSpec, impl engine.StepFunc) engine.StepFunc {
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

// execute runs the code of a step when the scheduler allows it, and returns when the worker may be
// notified of the outcome.
func (l *incarnation) execute(ctx context.Context, f engine.StepFunc, args []byte, once bool) (result []byte, err error) {
	x := &execution{incarnation: l, once: once, id: currentGoroutine(), info: attempt.From(ctx), begin: make(chan struct{}), tell: make(chan struct{})}
	if !l.enter(ctx, x) {
		return nil, errDead
	}
	l.env.launched(x)
	defer l.exit(x) // also if the code ends its goroutine
	defer func() {  // a panic is delayed like any other outcome
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

// enter registers the execution. It returns false if the worker is dead.
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

// ended records that the code of the step has returned. The result is closed when the worker may be
// notified.
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

// stepContext is the context of a step's code. It detects that the code itself, rather than a
// library, waits for the end of the context: then only virtual time or the workflow can make
// progress.
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

// Value returns the execution for code of this package.
func (c *stepContext) Value(key any) any {
	if key == (executionKey{}) {
		return c.x
	}
	return c.Context.Value(key)
}

// Sleep waits for d of virtual time, or until ctx ends. It is meant for stand-ins and steps under
// test: virtual time does not advance while a step runs, unless the step waits here or for the end
// of its context. If ctx does not belong to a step of an Env, or the time of the store is real, it
// waits for d of real time.
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

// implementation returns the code that executes a step: a stand-in, or the registered function; nil
// if there is none.
func (e *Env) implementation(name string, impl engine.StepFunc) engine.StepFunc {
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

// missingReceiver records a nil receiver: a step that needs it must have a stand-in if it is
// called.
func (e *Env) missingReceiver(what, step string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing[step] = what
}

// onlyOnce reports whether a step is declared as not idempotent.
func (e *Env) onlyOnce(name string, spec *engine.StepSpec) bool {
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
