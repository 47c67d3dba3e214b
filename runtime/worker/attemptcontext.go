package worker

import (
	"context"
	"errors"
	"time"

	at "github.com/flowgen/flowgen/runtime/internal/attempt"
)

// attemptContext is the context of the code of an attempt. What ends it is the
// worker's clock, or the log when the time of the run or of a caller is up.
type attemptContext attempt

func (a *attempt) context() context.Context { return (*attemptContext)(a) }
func (c *attemptContext) of() *attempt      { return (*attempt)(c) }

// Deadline returns when the attempt times out, unless the base context ends first.
func (c *attemptContext) Deadline() (time.Time, bool) {
	if d, ok := c.task.w.base.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done returns what is closed when the code is to end.
func (c *attemptContext) Done() <-chan struct{} { return c.of().ending().Done() }

// Value returns what package step wants to know of the attempt, and else what the
// base context has.
func (c *attemptContext) Value(key any) any {
	if at.Is(key) {
		return &c.info
	}
	return c.of().ending().Value(key)
}

// Err returns context.DeadlineExceeded if the attempt took too long. A context
// that is derived from this one says context.Canceled; its cause tells.
func (c *attemptContext) Err() error {
	ctx := c.of().ending()
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if _, late := errors.AsType[*attemptTimeoutError](context.Cause(ctx)); late {
		return context.DeadlineExceeded
	}
	return err
}

// ending returns what ends the code of the attempt. It is made for the first who
// asks: the code of most steps returns without a look at it.
func (a *attempt) ending() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
	case a.stopped: // perhaps the base has ended, too, but only after that
		a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(a.task.w.base))
		a.cancel(a.cause)
	default:
		a.ctx, a.cancel = context.WithCancelCause(a.task.w.base)
	}
	return a.ctx
}

// endCause returns why the code is to end; nil: it is not.
func (a *attempt) endCause() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
		return context.Cause(a.ctx)
	case a.stopped:
		return a.cause
	}
	return context.Cause(a.task.w.base)
}
