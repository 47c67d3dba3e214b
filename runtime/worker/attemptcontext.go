package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/chunk"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// attemptContext is the context of the code of an attempt. What ends it is the
// worker's clock, or the log when the time of the run or of a caller is up.
type attemptContext attempt

func (a *attempt) context() context.Context { return (*attemptContext)(a) }
func (c *attemptContext) of() *attempt      { return (*attempt)(c) }

// Deadline returns when the attempt times out, unless the base context ends first.
func (c *attemptContext) Deadline() (time.Time, bool) {
	if d, ok := c.steps.base.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done returns the channel that is closed when the code must end.
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
		a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(a.steps.base))
		a.cancel(a.cause)
	default:
		a.ctx, a.cancel = context.WithCancelCause(a.steps.base)
	}
	return a.ctx
}

// endCause returns why the code must end; nil: it need not.
func (a *attempt) endCause() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
		return context.Cause(a.ctx)
	case a.stopped:
		return a.cause
	}
	return context.Cause(a.steps.base)
}

// attemptLabels are the profiler labels of an attempt.
type attemptLabels struct {
	run  event.RunID
	step string
	ctx  context.Context
}

// labelsOf returns the labels of an attempt. The run keeps them for the next one: most
// runs call few steps, again and again.
func labelsOf(run *replay.Run, info *at.Attempt) *attemptLabels {
	l, ok := run.Meta.(*attemptLabels)
	if !ok || l.run != info.Run || l.step != info.Step {
		labels := pprof.Labels("flowgen_run", string(info.Run), "flowgen_step", info.Step)
		l = &attemptLabels{info.Run, info.Step, pprof.WithLabels(context.Background(), labels)}
		run.Meta = l
	}
	return l
}

// streams returns what the attempt writes to the streams of its run with. It is made when
// it is asked for: most attempts write nothing.
func (a *attempt) streams() (*streamWriter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, errAttemptEnded
	}
	if a.stream == nil {
		a.stream = &streamWriter{
			env: a.steps.env, client: a.steps.client, attempt: a, name: fmt.Sprintf("%s/%d/%d", a.run, a.ref, a.number), ctx: a.context(), by: chunk.Chunk{Run: a.info.Run, Key: a.info.Key, Attempt: a.number},
			run: a.run, fence: a.fence, caller: a.plan().Caller,
		}
	}
	return a.stream, nil
}

// Write adds a chunk to a stream. It writes for the code of the attempt.
func (a *attempt) Write(ctx context.Context, stream string, value []byte, keep int) error {
	p, err := a.streams()
	if err != nil {
		return err
	}
	return p.write(ctx, stream, value, keep)
}

// Close closes a stream with the completion of the attempt.
func (a *attempt) Close(stream string) error {
	p, err := a.streams()
	if err != nil {
		return err
	}
	return p.close(stream)
}

// endStream is called when the code of the attempt has returned: it writes no more. It
// returns the streams that it has closed.
func (a *attempt) endStream() []string {
	a.mu.Lock()
	p := a.stream
	a.ended = true
	a.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.end()
}
