package worker

import (
	"context"
	"errors"
	"os"
	"time"

	at "github.com/flowgen/flowgen/runtime/internal/attempt"
)

// attemptContext tells the deadline of an attempt. What ends it is the worker's
// clock, or the log when the time of the run or of a caller is up.
type attemptContext struct {
	context.Context
	attempt *attempt
}

// Deadline returns when the attempt times out, unless the base context ends first.
func (c *attemptContext) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.attempt.deadline) {
		return d, true
	}
	return c.attempt.deadline, true
}

// Value returns what package step wants to know of the attempt, and else what the
// base context has.
func (c *attemptContext) Value(key any) any {
	if at.Is(key) {
		return &c.attempt.info
	}
	return c.Context.Value(key)
}

// Err returns context.DeadlineExceeded if the attempt took too long. A context
// that is derived from this one says context.Canceled; its cause tells.
func (c *attemptContext) Err() error {
	err := c.Context.Err()
	if err == nil {
		return nil
	}
	if _, late := errors.AsType[*attemptTimeoutError](context.Cause(c.Context)); late {
		return context.DeadlineExceeded
	}
	return err
}

// growStack lets the goroutine have a stack on which most steps and their JSON have
// room, while there is hardly anything to be copied: later growing costs as much as
// the rest of an attempt.
//
//go:noinline
func growStack() byte {
	var room [6 << 10]byte
	return room[len(os.Args)&1]
}
