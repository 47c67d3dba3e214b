package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// attempt is one execution of a step. It holds a slot from its step_started event until its
// goroutine ends.
type attempt struct {
	id       uint64 // ID in the state of the run
	timeout  time.Duration
	deadline time.Time // the earliest deadline of the attempt, of the run and of WithTimeout
	began    time.Time // by the clock of the meter

	steps   *steps
	by      attempting // the run that executes the step
	run     event.RunID
	fence   store.Fence
	lease   *lease.Lease // the lease and session under which the run was claimed
	session store.SessionID
	fn      flow.StepFunc
	op      *replay.Op // only its immutable fields are read
	labels  *attemptLabels
	info    at.Attempt // the data that step code can read; the attempt's goroutine adds the step data

	stopped bool // true if stop was called before ctx was created; mu guards this and the following fields
	ended   bool // the code has returned
	done    bool // the outcome was posted
	mu      sync.Mutex
	ctx     context.Context // context whose end ends the code; nil until the code first uses it
	cancel  context.CancelCauseFunc
	cause   error            // why the attempt was stopped before ctx was created
	stream  *streamWriter    // nil if the code has written to no stream
	hook    *runloop.Opening // hook through which the attempt may be finished from outside; nil if the code has opened none

	outcome runloop.Outcome // set by the goroutine that posts the outcome
}

// attempting is a run that executes steps.
type attempting interface {
	// attempted receives a finished attempt.
	attempted(a *attempt)
	// opens receives a request of an attempt to open a hook.
	opens(o *runloop.Opening)
}

// steps executes attempts.
type steps struct {
	*env
	client flow.Engine
	slots  *slots

	timeouts     *timeouts
	interceptors interceptors

	mu   sync.Mutex
	all  map[*attempt]struct{}
	none chan struct{} // closed when the last attempt has ended; nil unless ended was called
}

// launch starts the goroutine of an attempt.
func (s *steps) launch(a *attempt) {
	s.activity.Begin()
	go a.execute()
}

// stop cancels the context of the attempt's code with the given cause.
func (a *attempt) stop(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
		a.cancel(cause)
	case !a.stopped && a.steps.base.Err() == nil:
		a.stopped, a.cause = true, cause
	}
}

// around returns the failure of an attempt that timed out. Its cause is f, the failure that the
// code returned. f is usually only the context's error, which does not identify the timeout.
func around(e *runloop.TimeoutError, f *event.Failure) *event.Failure {
	if strings.Contains(f.Message, e.Error()) { // the code returned the cause itself
		f.Code = event.CodeTimeout
		return f
	}
	return &event.Failure{Code: event.CodeTimeout, Message: e.Error() + ": " + f.Message, Causes: []*event.Failure{f}}
}

// execute executes the attempt and posts its outcome. If the code has not returned at the end of
// the grace period after its timeout, the attempt is abandoned.
func (a *attempt) execute() {
	stack.Grow()
	s := a.steps
	defer s.activity.End()
	s.add(a)
	defer s.slots.release()
	defer s.remove(a)
	pprof.SetGoroutineLabels(a.labels.ctx)
	limit := s.timeouts.start(a)
	a.readStepData()
	var out runloop.Outcome
	defer func() { // The deferred function runs even if the code calls runtime.Goexit.
		s.timeouts.stop(limit)
		if out.Gone { // the code has called runtime.Goexit
			out = runloop.Outcome{Failure: &event.Failure{Code: event.CodePanic, Message: "the step called runtime.Goexit"}}
		}
		out.Closes = a.endStream()
		a.conclude(out)
	}()
	if cause := a.endCause(); cause != nil { // for example, the run has ended while the step data were read
		out = runloop.Judge(cause, nil)
		return
	}
	// The process may have been suspended since the lease was checked at launch, or reading the
	// step data may have been slow. Meanwhile another worker may have claimed the run and completed
	// the step. This check comes last, so that the process is rarely suspended between it and the
	// code: code without a lease may repeat an effect, whereas code of a run that has ended under a
	// live lease only does needless work. If the lease is not alive, AwaitAlive returns the cause
	// when the run ends.
	if err := a.lease.AwaitAlive(a.context(), a.session); err != nil {
		out = runloop.Judge(err, nil)
		return
	}
	callStep(a.context(), a.fn, a.judge, a.op.Input, &out)
}

// callStep calls the user's code and stores its outcome in out. A panic is a failed attempt whose
// failure contains the stack. If the code calls runtime.Goexit, for example by FailNow of a test,
// callStep does not return, but out is set.
func callStep(ctx context.Context, fn flow.StepFunc, judge func(error) runloop.Outcome, args []byte, out *runloop.Outcome) {
	*out = runloop.Outcome{Gone: true} // remains if the code calls runtime.Goexit
	defer func() {
		if r := recover(); r != nil {
			*out = runloop.Panicked(fmt.Sprintf("panic: %v", r), debug.Stack())
		}
	}()
	payload, err := fn(ctx, args)
	if err == nil {
		*out = runloop.Outcome{Payload: payload}
		return
	}
	*out = judge(err)
}

// judge returns the outcome of an attempt whose code returned err.
func (a *attempt) judge(err error) runloop.Outcome {
	if a.leaves(err) {
		return runloop.Outcome{Pending: true}
	}
	if p, ok := errors.AsType[*at.PanicError](err); ok {
		return runloop.Panicked(p.Error(), p.Stack)
	}
	return runloop.Judge(err, a.plan().Spec.Fatal)
}

func (a *attempt) plan() *flow.StepPlan { return flow.PlanOf(a.op) }

// timeUp cancels the code of an attempt that has timed out. It abandons the attempt after the grace
// period.
func (a *attempt) timeUp() {
	s, cause := a.steps, &runloop.TimeoutError{After: a.timeout}
	a.stop(cause)
	s.clock.AfterFunc(s.cfg.Grace, func() { a.abandon(cause) })
}

// readStepData reads the details that the previous attempt recorded.
func (a *attempt) readStepData() {
	s := a.steps
	if a.info.Number == 1 {
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

// Beat records details for the next attempt. New details count as progress of the run. A run that
// records progress before each death of its worker is therefore not quarantined. The number of
// attempts bounds a step that records new details and still kills its workers.
func (a *attempt) Beat(ctx context.Context, details []byte) error {
	keeper, ok := store.As[store.StepDataStore](a.steps.store)
	if !ok {
		return errors.ErrUnsupported
	}
	err := keeper.SetStepData(ctx, a.run, a.fence, a.info.Key, details, true)
	if errors.Is(err, store.ErrFenced) {
		a.stop(runloop.ErrLost)
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}

// conclude posts the outcome of an attempt. If the attempt failed because the stopping worker
// canceled it, the attempt is given back instead of counting as a failure of the step.
func (a *attempt) conclude(out runloop.Outcome) {
	s, cause := a.steps, a.endCause()
	switch f := out.Failure; {
	case f == nil:
		if err := s.client.CheckPayload("result of step ", a.info.Step, len(out.Payload)); err != nil {
			out = runloop.Failed(err, event.CodePayload)
		}
	case f.Code == event.CodeError:
		if late, ok := errors.AsType[*runloop.TimeoutError](cause); ok {
			out.Failure = around(late, f)
		}
	}
	out.Stopped = out.Failure != nil && (errors.Is(cause, ErrStopping) || s.stopping.Load() && s.base.Err() != nil)
	a.finish(func() {
		if !out.Stopped {
			a.measure()
		}
		a.outcome = out
		a.by.attempted(a)
	})
	a.stop(nil)
}

// finish calls f unless the outcome was posted before.
func (a *attempt) finish(f func()) {
	a.mu.Lock()
	first := !a.done
	a.done = true
	a.mu.Unlock()
	if first {
		f()
	}
}

// abandon posts a timeout as the outcome of an attempt whose code ignores its context.
func (a *attempt) abandon(cause *runloop.TimeoutError) {
	s := a.steps
	a.finish(func() {
		s.log.Error("a step ignores its context: the worker abandons it, and its code is still running", "run", a.info.Run, "step", a.info.Step,
			"attempt", a.info.Number, "timeout", cause.After, "stack", stackOf("flowgen_run", string(a.info.Run)))
		err := fmt.Errorf("%w, and %v later its code had not ended: it must watch its context", cause, s.cfg.Grace)
		a.measure()
		a.outcome = runloop.Failed(err, event.CodeTimeout)
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

// count returns the number of running attempts.
func (s *steps) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// ended returns a channel that is closed when no attempt is running. It must be called at most
// once.
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

// attemptContext is the context of an attempt's code. It ends when the attempt times out by the
// worker's clock, or when the log records that the run or one of its callers has timed out.
type attemptContext attempt

func (a *attempt) context() context.Context { return (*attemptContext)(a) }
func (c *attemptContext) of() *attempt      { return (*attempt)(c) }

// Deadline returns the time at which the attempt times out.
func (c *attemptContext) Deadline() (time.Time, bool) {
	if d, ok := c.steps.base.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done returns a channel that is closed when the code must end.
func (c *attemptContext) Done() <-chan struct{} { return c.of().ending().Done() }

// Value returns the attempt's info for the key of package step. For other keys it returns the base
// context's value.
func (c *attemptContext) Value(key any) any {
	if at.Is(key) {
		return &c.info
	}
	return c.of().ending().Value(key)
}

// Err returns context.DeadlineExceeded if the attempt timed out. A derived context returns
// context.Canceled instead, with the timeout as its cause.
func (c *attemptContext) Err() error {
	ctx := c.of().ending()
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if _, late := errors.AsType[*runloop.TimeoutError](context.Cause(ctx)); late {
		return context.DeadlineExceeded
	}
	return err
}

// ending returns the context whose end ends the code of the attempt. It is created on first use,
// because the code of most steps never uses its context.
func (a *attempt) ending() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
	case a.stopped: // The base context may have ended since. WithoutCancel keeps a.cause as the cause.
		a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(a.steps.base))
		a.cancel(a.cause)
	default:
		a.ctx, a.cancel = context.WithCancelCause(a.steps.base)
	}
	return a.ctx
}

// endCause returns the reason for which the code must end. It returns nil if the code may continue.
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
func labelsOf(l *attemptLabels, info *at.Attempt) *attemptLabels {
	if l == nil || l.run != info.Run || l.step != info.Step {
		labels := pprof.Labels("flowgen_run", string(info.Run), "flowgen_step", info.Step)
		l = &attemptLabels{info.Run, info.Step, pprof.WithLabels(context.Background(), labels)}
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
			env: a.steps.env, client: a.steps.client, attempt: a, name: fmt.Sprintf("%s/%d/%d", a.run, a.info.Ref, a.info.Number), ctx: a.context(), by: effects.Chunk{Run: a.info.Run, Key: a.info.Key, Attempt: a.info.Number},
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

// endStream ends the attempt's stream writes after its code has returned. It returns the streams
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

// OpenHook opens the hook of the attempt and returns the token. It is called by the attempt's code.
func (a *attempt) OpenHook(ctx context.Context, h at.Hook) (string, error) {
	o, err := a.openingOf(h)
	if err != nil {
		return "", err
	}
	select {
	case <-o.Done:
		return o.Token, o.Err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-a.ending().Done(): // ctx may be a context that is not derived from the attempt's
		return "", a.endCause()
	}
}

// openingOf returns the hook of the attempt. At the first call it requests the hook from the run
// loop.
func (a *attempt) openingOf(h at.Hook) (*runloop.Opening, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return nil, errAttemptEnded
	case a.hook == nil:
		a.hook = &runloop.Opening{Ref: a.info.Ref, Attempt: a.id, Hook: h, Done: make(chan struct{})}
		a.by.opens(a.hook)
	case a.hook.Hook.Name != h.Name:
		return nil, &workflow.InvalidError{What: "hook", Value: h.Name, Reason: "is opened by an attempt that has opened hook " + a.hook.Hook.Name + ": an attempt is finished by one hook"}
	}
	return a.hook, nil
}

// leaves reports whether err, which the code has returned, leaves the outcome to the holder of the
// token.
func (a *attempt) leaves(err error) bool {
	p, ok := errors.AsType[*at.PendingError](err)
	a.mu.Lock()
	o := a.hook
	a.mu.Unlock()
	if !ok || o == nil {
		return false
	}
	select {
	case <-o.Done:
		return p.Token != "" && p.Token == o.Token
	default:
		return false // the code does not have the token yet
	}
}

// closedStreams returns the streams that the code of a running attempt has closed.
func (a *attempt) closedStreams() []string {
	a.mu.Lock()
	p := a.stream
	a.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.closed)
}
