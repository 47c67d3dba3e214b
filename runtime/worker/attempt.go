package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// attempt is one execution of a step. It holds a slot from step_started until
// its goroutine has ended.
type attempt struct {
	ref      uint64
	number   int
	started  time.Time
	deadline time.Time // the earliest of the attempt's own, the run's and those of WithTimeout

	// What the run loop sets as it launches the attempt.
	steps   *steps     // nil: not launched
	by      attempting // the run
	run     event.RunID
	fence   store.Fence
	lease   *lease.Lease // under which its run was claimed, with the id
	session store.SessionID
	fn      engine.StepFunc
	op      *replay.Op // for what of it never changes
	labels  *attemptLabels
	info    at.Attempt // what its code may know; its goroutine adds the step data

	// These belong to the executor that has the run.
	launched bool // its goroutine frees the slot
	finished bool // from outside: its outcome is in the log, though its code has not ended

	stopped bool // before there was a ctx; guarded by mu, and so are the next fields
	ended   bool // its code has returned
	done    bool // its outcome was posted
	mu      sync.Mutex
	ctx     context.Context // what ends its code; nil: nobody has asked for it yet
	cancel  context.CancelCauseFunc
	cause   error         // why it was stopped before there was a ctx
	stream  *streamWriter // nil: its code has written to no stream
	hook    *opening      // by which it may be finished from outside; nil: its code has opened none

	outcome outcome // set by whoever posts it
}

// attempting is a run whose step is attempted.
type attempting interface {
	// attempted takes the attempt back, with its outcome.
	attempted(a *attempt)
	// opens creates the hook of an attempt.
	opens(o *opening)
}

// steps execute attempts.
type steps struct {
	*env
	client engine.Client
	slots  *slots

	mu   sync.Mutex
	all  map[*attempt]struct{}
	none chan struct{} // closed when the last one has ended; nil: nobody waits
}

// launch starts the goroutine of an attempt.
func (s *steps) launch(a *attempt) {
	s.activity.Begin()
	go a.execute()
}

// stop asks the code of the attempt to end.
func (a *attempt) stop(cause error) {
	if a.steps == nil {
		return // not launched
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
		a.cancel(cause)
	case !a.stopped && a.steps.base.Err() == nil:
		a.stopped, a.cause = true, cause
	}
}

// attemptTimeoutError is the cause of a context whose attempt took too long.
type attemptTimeoutError struct{ after time.Duration }

func (e *attemptTimeoutError) Error() string {
	return fmt.Sprintf("attempt took longer than its timeout of %v", e.after)
}

// around returns the failure of an attempt that took too long, whose code returned f: that
// is mostly only the error of its context, which does not say which timeout it was.
func (e *attemptTimeoutError) around(f *event.Failure) *event.Failure {
	if strings.Contains(f.Message, e.Error()) { // it has returned the cause
		f.Code = event.CodeTimeout
		return f
	}
	return &event.Failure{Code: event.CodeTimeout, Message: e.Error() + ": " + f.Message, Causes: []*event.Failure{f}}
}

func (e *attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// execute executes the attempt and posts its outcome. Code that does not end although
// its time is up is left behind after the grace period.
func (a *attempt) execute() {
	stack.Grow()
	s := a.steps
	defer s.activity.End()
	s.add(a)
	defer s.slots.release()
	defer s.remove(a)
	pprof.SetGoroutineLabels(a.labels.ctx)
	stopTimer := s.clock.AfterFunc(a.plan().Timeout, a.timeUp)
	a.readStepData()
	var out outcome
	defer func() { // even if the code ends its goroutine
		stopTimer()
		if out.gone {
			out = exited()
		}
		out.closes = a.endStream()
		a.conclude(out)
	}()
	// The process may have been stopped since launch has looked, or its data has
	// taken their time: somebody else may have completed the step.
	if err := a.lease.AwaitAlive(a.context(), a.session); err != nil {
		out = judge(err, nil)
		return
	}
	callStep(a.context(), a.fn, a.judge, a.op.Input, &out)
}

// judge reads the error of the code.
func (a *attempt) judge(err error) outcome {
	if a.leaves(err) {
		return outcome{pending: true}
	}
	return judge(err, a.plan().Spec.Fatal)
}

func (a *attempt) plan() *engine.StepPlan { return engine.PlanOf(a.op) }

// timeUp asks the code of an attempt that takes too long to end.
func (a *attempt) timeUp() {
	s, cause := a.steps, &attemptTimeoutError{a.plan().Timeout}
	a.stop(cause)
	s.clock.AfterFunc(s.cfg.Grace, func() { a.abandon(cause) })
}

// readStepData lets the attempt read what the one before has left.
func (a *attempt) readStepData() {
	s := a.steps
	if a.number == 1 {
		return
	}
	keeper, ok := store.As[store.StepDataStore](s.store)
	if !ok {
		return
	}
	data, err := keeper.StepData(a.ending(), a.run)
	if err != nil {
		s.log.Warn("read heartbeat of the attempt before", "run", a.run, "step", a.info.Step, "error", err)
	}
	a.info.Last = data[a.info.Key]
}

// Beat records something for the next attempt. If it is something new, the run got further:
// what dies again and again, but comes further each time, kills nobody. A step that notes
// something new and dies all the same ends with its attempts.
func (a *attempt) Beat(ctx context.Context, details []byte) error {
	keeper, ok := store.As[store.StepDataStore](a.steps.store)
	if !ok {
		return errors.ErrUnsupported
	}
	err := keeper.SetStepData(ctx, a.run, a.fence, a.info.Key, details, true)
	if errors.Is(err, store.ErrFenced) {
		a.stop(errLost)
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}

// conclude posts what came of an attempt. Failed after the worker told it to end, it has
// not failed by itself: it is given back.
func (a *attempt) conclude(out outcome) {
	s, cause := a.steps, a.endCause()
	switch f := out.failure; {
	case f == nil:
		if err := s.client.CheckPayload("result of step ", a.info.Step, len(out.payload)); err != nil {
			out = failed(err, event.CodePayload)
		}
	case f.Code == event.CodeError:
		if late, ok := errors.AsType[*attemptTimeoutError](cause); ok {
			out.failure = late.around(f)
		}
	}
	out.stopped = out.failure != nil && (errors.Is(cause, ErrStopping) || s.stopping.Load() && s.base.Err() != nil)
	a.finish(func() {
		a.outcome = out
		a.by.attempted(a)
	})
	a.stop(nil)
}

// finish calls f if the outcome was not posted yet.
func (a *attempt) finish(f func()) {
	a.mu.Lock()
	first := !a.done
	a.done = true
	a.mu.Unlock()
	if first {
		f()
	}
}

// abandon gives up on code that ignores its context.
func (a *attempt) abandon(cause *attemptTimeoutError) {
	s := a.steps
	a.finish(func() {
		s.log.Error("a step ignores its context: it is left behind and goes on running", "run", a.info.Run, "step", a.info.Step,
			"attempt", a.number, "timeout", cause.after, "stack", stackOf("flowgen_run", string(a.info.Run)))
		err := fmt.Errorf("%w, and %v later its code had not ended: it must watch its context", cause, s.cfg.Grace)
		a.outcome = failed(err, event.CodeTimeout)
		a.by.attempted(a)
	})
}

func (s *steps) add(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[a] = struct{}{}
}

func (s *steps) remove(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, a)
	if len(s.all) == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

// ended returns a channel that is closed once no attempt runs. It is called once.
func (s *steps) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := make(chan struct{})
	if len(s.all) == 0 {
		close(none)
	} else {
		s.none = none
	}
	return none
}

// running returns the attempts whose goroutines run.
func (s *steps) running() []*at.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*at.Attempt
	for a := range s.all {
		all = append(all, &a.info)
	}
	return all
}

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
			env: a.steps.env, client: a.steps.client, attempt: a, name: fmt.Sprintf("%s/%d/%d", a.run, a.ref, a.number), ctx: a.context(), by: effects.Chunk{Run: a.info.Run, Key: a.info.Key, Attempt: a.number},
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
