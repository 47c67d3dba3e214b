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
	deadline time.Time // the earliest deadline of the attempt, of the run and of WithTimeout

	// The run loop sets these when it launches the attempt.
	steps   *steps     // nil if the attempt was not launched
	by      attempting // the run
	run     event.RunID
	fence   store.Fence
	lease   *lease.Lease // the lease and session under which the run was claimed
	session store.SessionID
	fn      engine.StepFunc
	op      *replay.Op // its immutable fields only
	labels  *attemptLabels
	info    at.Attempt // the part that step code can read; the attempt's goroutine adds the step data

	// The executor that has the run owns these.
	launched bool // the goroutine of the attempt frees the slot
	finished bool // finished from outside: the outcome is in the log, although the code has not returned

	stopped bool // stopped before ctx was created; this and the following fields are guarded by mu
	ended   bool // its code has returned
	done    bool // its outcome was posted
	mu      sync.Mutex
	ctx     context.Context // canceled to end the code; nil until the code first uses it
	cancel  context.CancelCauseFunc
	cause   error         // why the attempt was stopped before ctx was created
	stream  *streamWriter // nil if the code has written to no stream
	hook    *opening      // hook through which the attempt may be finished from outside; nil if the code has opened none

	outcome outcome // set by the goroutine that posts it
}

// attempting is a run that executes a step.
type attempting interface {
	// attempted receives the attempt with its outcome.
	attempted(a *attempt)
	// opens creates the hook of an attempt.
	opens(o *opening)
}

// steps executes attempts.
type steps struct {
	*env
	client engine.Client
	slots  *slots

	mu   sync.Mutex
	all  map[*attempt]struct{}
	none chan struct{} // closed when the last attempt has ended; nil if nothing waits for that
}

// launch starts the goroutine of an attempt.
func (s *steps) launch(a *attempt) {
	s.activity.Begin()
	go a.execute()
}

// stop cancels the context of the attempt's code.
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

// attemptTimeoutError is the cause of the context of an attempt that has timed out.
type attemptTimeoutError struct{ after time.Duration }

func (e *attemptTimeoutError) Error() string {
	return fmt.Sprintf("attempt took longer than its timeout of %v", e.after)
}

// around returns the failure of an attempt that timed out, given the failure f of its code. f is
// usually only the context's error, which does not identify the timeout.
func (e *attemptTimeoutError) around(f *event.Failure) *event.Failure {
	if strings.Contains(f.Message, e.Error()) { // the code returned the cause itself
		f.Code = event.CodeTimeout
		return f
	}
	return &event.Failure{Code: event.CodeTimeout, Message: e.Error() + ": " + f.Message, Causes: []*event.Failure{f}}
}

func (e *attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// execute executes the attempt and posts its outcome. Code that has not returned when the grace
// period after its timeout ends is abandoned.
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
	defer func() { // runs even if the code ends its goroutine
		stopTimer()
		if out.gone {
			out = exited()
		}
		out.closes = a.endStream()
		a.conclude(out)
	}()
	// The process may have been suspended since the check at launch, or reading the step data may
	// have taken long. Another worker may have completed the step meanwhile.
	if err := a.lease.AwaitAlive(a.context(), a.session); err != nil {
		out = judge(err, nil)
		return
	}
	callStep(a.context(), a.fn, a.judge, a.op.Input, &out)
}

// judge returns the outcome for the error of the code.
func (a *attempt) judge(err error) outcome {
	if a.leaves(err) {
		return outcome{pending: true}
	}
	return judge(err, a.plan().Spec.Fatal)
}

func (a *attempt) plan() *engine.StepPlan { return engine.PlanOf(a.op) }

// timeUp cancels the code of an attempt that has timed out, and abandons it after the grace period.
func (a *attempt) timeUp() {
	s, cause := a.steps, &attemptTimeoutError{a.plan().Timeout}
	a.stop(cause)
	s.clock.AfterFunc(s.cfg.Grace, func() { a.abandon(cause) })
}

// readStepData reads the data that the previous attempt recorded.
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

// Beat records details for the next attempt. New details count as progress of the run: a run whose
// workers die repeatedly but which advances each time is not quarantined as a cause of their
// deaths. A step that records new details and still kills its worker is bounded by its number of
// attempts.
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

// conclude posts the outcome of an attempt. A failure that follows a cancel by the stopping worker
// is not the step's own, so the attempt is given back.
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

// finish calls f unless the outcome was already posted.
func (a *attempt) finish(f func()) {
	a.mu.Lock()
	first := !a.done
	a.done = true
	a.mu.Unlock()
	if first {
		f()
	}
}

// abandon posts a timeout for code that ignores its context.
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

// ended returns a channel that is closed once no attempt runs. It must be called at most once.
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

// running returns the attempts whose goroutines have not ended.
func (s *steps) running() []*at.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*at.Attempt
	for a := range s.all {
		all = append(all, &a.info)
	}
	return all
}

// attemptContext is the context of an attempt's code. It ends by the worker's clock, or by the log
// when the run or one of its callers times out.
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

// Done returns a channel that is closed when the code must end.
func (c *attemptContext) Done() <-chan struct{} { return c.of().ending().Done() }

// Value returns the attempt's info for the key of package step, and otherwise the base context's
// value.
func (c *attemptContext) Value(key any) any {
	if at.Is(key) {
		return &c.info
	}
	return c.of().ending().Value(key)
}

// Err returns context.DeadlineExceeded if the attempt timed out. A context derived from this one
// returns context.Canceled, with the timeout as its cause.
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

// ending returns the context that ends the code of the attempt. It is created on first use, because
// the code of most steps never uses its context.
func (a *attempt) ending() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
	case a.stopped: // without the base context, which may have ended since: the cause is a.cause
		a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(a.steps.base))
		a.cancel(a.cause)
	default:
		a.ctx, a.cancel = context.WithCancelCause(a.steps.base)
	}
	return a.ctx
}

// endCause returns why the code must end, or nil if it need not.
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

// labelsOf returns the labels of an attempt. It caches them in the run for the next attempt,
// because most runs call few distinct steps repeatedly.
func labelsOf(run *replay.Run, info *at.Attempt) *attemptLabels {
	l, ok := run.Meta.(*attemptLabels)
	if !ok || l.run != info.Run || l.step != info.Step {
		labels := pprof.Labels("flowgen_run", string(info.Run), "flowgen_step", info.Step)
		l = &attemptLabels{info.Run, info.Step, pprof.WithLabels(context.Background(), labels)}
		run.Meta = l
	}
	return l
}

// streams returns the writer for the streams of the run. It is created on first use, because most
// attempts write to no stream.
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

// Write adds a chunk to a stream on behalf of the attempt's code.
func (a *attempt) Write(ctx context.Context, stream string, value []byte, keep int) error {
	p, err := a.streams()
	if err != nil {
		return err
	}
	return p.write(ctx, stream, value, keep)
}

// Close closes a stream as part of the attempt's completion.
func (a *attempt) Close(stream string) error {
	p, err := a.streams()
	if err != nil {
		return err
	}
	return p.close(stream)
}

// endStream ends the attempt's stream writes once its code has returned. It returns the streams
// that the code closed.
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
