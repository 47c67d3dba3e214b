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
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// attempt is one execution of a step. It holds a slot from step_started until
// its goroutine has ended.
type attempt struct {
	ref      uint64
	number   int
	started  time.Time
	deadline time.Time // the earliest of the attempt's own, the run's and those of WithTimeout

	// What launch sets.
	task    *task // nil: not launched
	fence   store.Fence
	lease   *session // under which its run was claimed, with the id
	session store.SessionID
	fn      engine.StepFunc
	op      *replay.Op // for what of it never changes
	labels  *attemptLabels
	info    at.Attempt // what its code may know; its goroutine adds the notes

	launched bool // its goroutine frees the slot; belongs to the task's executor

	stopped bool // before there was a ctx; guarded by mu, and so is what follows
	dry     bool // its code has returned
	done    bool // its outcome was posted
	mu      sync.Mutex
	ctx     context.Context // what ends its code; nil: nobody has asked for it yet
	cancel  context.CancelCauseFunc
	cause   error // why it was stopped before there was a ctx
	ink     *pen  // nil: its code has written to no stream

	outcome outcome // set by whoever posts it
}

// dropAttempts ends what is under way and frees the slots of what never began.
func (t *task) dropAttempts(cause error) {
	for _, a := range t.attempts {
		if a.launched {
			a.stop(cause)
		} else {
			t.w.releaseSlot()
		}
	}
	t.attempts, t.starts, t.held = nil, nil, nil
}

// stop asks the code of the attempt to end.
func (a *attempt) stop(cause error) {
	if a.task == nil {
		return // not launched
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
		a.cancel(cause)
	case !a.stopped && a.task.w.base.Err() == nil:
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

// launch starts an attempt whose step_started is durable.
func (t *task) launch(a *attempt) {
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.attempts[a.ref] != a {
		return // the slot is freed with the task
	}
	if t.w.ending.Load() {
		t.giveBack(a)
		return
	}
	if !t.alive() { // somebody else may have taken the run, with this attempt
		t.held = append(t.held, a)
		return
	}
	a.launched, a.lease, a.session = true, t.w.sessions[t.partition], t.session
	if op.CancelWanted() { // before it could begin
		t.w.releaseSlot()
		a.outcome = failed(op.CancelCause(), event.CodeCanceled)
		t.onStep(a, &a.outcome)
		return
	}
	fn, _ := t.w.code.Step(op.Name) // startSteps has looked
	plan := engine.PlanOf(op)
	spec := t.run.Fold().Spec
	a.info = at.Attempt{Run: t.id, WorkflowID: spec.WorkflowID, Step: op.Name, Key: op.Key, Number: a.number, Ref: a.ref, Tags: spec.Tags, Log: t.id, LogKey: op.Key}
	if c := plan.Caller; c != nil {
		a.info.Run, a.info.WorkflowID, a.info.Key, a.info.Tags = c.Run, c.WorkflowID, c.Key, c.Tags
	}
	a.task, a.fence, a.fn, a.op = t, t.fence, fn, op
	a.labels, a.info.Heart, a.info.Pen = labelsOf(t.run, &a.info), a, a
	a.deadline = a.started.Add(plan.Timeout)
	if d := op.Deadline(); !d.IsZero() && d.Before(a.deadline) {
		a.deadline = d
	}
	t.w.activity.Begin()
	go a.run()
}

// run executes the attempt and posts its outcome. Code that does not end although
// its time is up is left behind after the grace period.
func (a *attempt) run() {
	stack.Grow()
	w := a.task.w
	defer w.activity.End()
	w.attempts.add(a)
	defer w.releaseSlot()
	defer w.attempts.remove(a)
	pprof.SetGoroutineLabels(a.labels.ctx)
	stopTimer := w.clock.AfterFunc(a.plan().Timeout, a.timeUp)
	a.readNotes()
	var out outcome
	defer func() { // also if the code ends its goroutine
		stopTimer()
		if out.gone {
			out = exited()
		}
		out.closes = a.dropPen()
		a.conclude(out)
	}()
	// The process may have been stopped since launch has looked, or the notes have
	// taken their time: somebody else may have completed the step.
	if err := a.lease.awaitAlive(a.context(), a.session); err != nil {
		out = judge(err, nil)
		return
	}
	callStep(a.context(), a.fn, a.plan().Spec.Fatal, a.op.Input, &out)
}

func (a *attempt) plan() *engine.StepPlan { return engine.PlanOf(a.op) }

// timeUp asks the code of an attempt that takes too long to end.
func (a *attempt) timeUp() {
	w, cause := a.task.w, &attemptTimeoutError{a.plan().Timeout}
	a.stop(cause)
	w.clock.AfterFunc(w.cfg.Grace, func() { a.abandon(cause) })
}

// readNotes lets the attempt read what the one before has noted.
func (a *attempt) readNotes() {
	w := a.task.w
	if a.number == 1 {
		return
	}
	noter, ok := store.As[store.Noter](w.store)
	if !ok {
		return
	}
	notes, err := noter.Notes(a.ending(), a.task.id)
	if err != nil {
		w.log.Warn("read heartbeat of the attempt before", "run", a.task.id, "step", a.info.Step, "error", err)
	}
	a.info.Last = notes[a.info.Key]
}

// Beat notes something for the next attempt. If it is something new, the run got further:
// what dies again and again, but comes further each time, kills nobody. A step that notes
// something new and dies all the same ends with its attempts.
func (a *attempt) Beat(ctx context.Context, details []byte) error {
	noter, ok := store.As[store.Noter](a.task.w.store)
	if !ok {
		return errors.ErrUnsupported
	}
	err := noter.SetNote(ctx, a.task.id, a.fence, a.info.Key, details, true)
	if errors.Is(err, store.ErrFenced) {
		a.stop(errLost)
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}

// conclude posts what came of an attempt. Failed after the worker told it to end, it has
// not failed by itself: it is given back.
func (a *attempt) conclude(out outcome) {
	t, cause := a.task, a.endCause()
	switch f := out.failure; {
	case f == nil:
		if err := t.w.client.CheckPayload("result of step ", a.info.Step, len(out.payload)); err != nil {
			out = failed(err, event.CodePayload)
		}
	case f.Code == event.CodeError:
		if late, ok := errors.AsType[*attemptTimeoutError](cause); ok {
			out.failure = late.around(f)
		}
	}
	out.stopped = out.failure != nil && (errors.Is(cause, ErrStopping) || t.w.stopping.Load() && t.w.base.Err() != nil)
	a.finish(func() {
		a.outcome = out
		t.post(input{kind: inputStep, attempt: a})
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
	w := a.task.w
	a.finish(func() {
		w.log.Error("a step ignores its context: it is left behind and goes on running", "run", a.info.Run, "step", a.info.Step,
			"attempt", a.number, "timeout", cause.after, "stack", stackOf("flowgen_run", string(a.info.Run)))
		err := fmt.Errorf("%w, and %v later its code had not ended: it must watch its context", cause, w.cfg.Grace)
		a.outcome = failed(err, event.CodeTimeout)
		a.task.post(input{kind: inputStep, attempt: a})
	})
}

// onStep records what came of an attempt.
func (t *task) onStep(a *attempt, out *outcome) {
	if t.state != taskLive || t.attempts[a.ref] != a {
		return // the run was lost, or ended without it
	}
	if out.stopped {
		t.giveBack(a)
		return
	}
	delete(t.attempts, a.ref)
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.run.Err() != nil {
		return
	}
	if out.misfit != nil { // the step's code was not called: the attempt does not count
		t.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number - 1, Due: t.w.clock.Now()})
		t.block(out.misfit)
		return
	}
	if out.failure == nil {
		for _, name := range out.closes {
			t.apply(event.Event{Type: event.StreamClosed, Name: name, Key: op.Key, Attempt: a.number})
		}
		t.apply(event.Event{Type: event.StepCompleted, Ref: a.ref, Attempt: a.number, Payload: out.payload})
		return
	}
	e := t.verdict(op, a, out)
	t.reportStep(op, &e)
	t.apply(e)
}

// verdict decides what follows from a failed attempt.
func (t *task) verdict(op *replay.Op, a *attempt, out *outcome) event.Event {
	plan := engine.PlanOf(op)
	retry := workflow.RetryPolicy(plan.Retry)
	f, o := out.failure, t.run.Fold().Open(a.ref)
	failed := event.Event{Type: event.StepFailed, Ref: a.ref, Attempt: a.number, Failure: f}
	switch {
	case op.CancelWanted():
		f.Code = event.CodeCanceled
		return failed
	case f.Code == event.CodePayload:
		return failed
	case out.fatal:
		f.Code = event.CodeFatal
		return failed
	case plan.Spec.NonIdempotent && f.Code == event.CodeTimeout:
		return failed // its effect may have happened, or may still
	case o.Counted() >= retry.MaxAttempts():
		return failed
	}
	delay := retry.Delay(o.Counted(), t.w.chance())
	if out.after != nil {
		delay = *out.after
	}
	due := t.w.clock.Now().Add(delay)
	if total := retry.Total; total > 0 && due.After(o.Since.Add(total)) {
		return failed
	}
	return event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: due}
}

// How a worker left an attempt, and why a step that is not idempotent has no other.
const (
	died      = "the worker died, or lost the run, during"
	stopped   = "the worker stopped during"
	oneEffect = "and the step is not idempotent: it may or may not have had its effect"
)

// giveBack ends an attempt because the worker stops, as it was asked to. That is nobody's
// fault: the attempt does not count. A death cannot be recorded by who dies, and counts: a step that ends the process
// must come to an end itself. What is not idempotent is not begun again once it has begun.
func (t *task) giveBack(a *attempt) {
	delete(t.attempts, a.ref)
	if a.launched {
		a.stop(ErrStopping) // it may still be running: then it is left behind
	} else {
		t.w.releaseSlot()
	}
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.run.Err() != nil {
		return
	}
	plan := engine.PlanOf(op)
	switch {
	case op.CancelWanted():
		t.apply(event.Event{Type: event.StepFailed, Ref: a.ref, Attempt: a.number, Failure: replay.CancelFailure(op.CancelCause())})
	case plan.Spec.NonIdempotent && a.launched:
		f := &event.Failure{Code: event.CodeInterrupted, Message: fmt.Sprintf("%s attempt %d, %s", stopped, a.number, oneEffect)}
		e := event.Event{Type: event.StepFailed, Ref: a.ref, Attempt: a.number, Failure: f}
		t.reportStep(op, &e)
		t.apply(e)
	default:
		f := &event.Failure{Code: event.CodeStopped, Message: fmt.Sprintf("%s attempt %d, which does not count", stopped, a.number)}
		t.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: t.w.clock.Now()})
	}
}

// endInterrupted ends a step whose attempt died with its worker, if it may not
// be started again, and reports whether it did.
func (t *task) endInterrupted(ref uint64) bool {
	o := t.run.Fold().Open(ref)
	op := t.run.Op(ref)
	if o == nil || op == nil {
		return true
	}
	plan := engine.PlanOf(op)
	f := &event.Failure{Code: event.CodeInterrupted}
	switch {
	case op.CancelWanted():
		f = replay.CancelFailure(op.CancelCause())
	case plan.Spec.NonIdempotent:
		f.Message = fmt.Sprintf("%s attempt %d, %s", died, o.Attempt, oneEffect)
	case o.Counted() >= workflow.RetryPolicy(plan.Retry).MaxAttempts():
		f.Message = fmt.Sprintf("%s attempt %d, which was the last one", died, o.Attempt)
	default:
		return false
	}
	e := event.Event{Type: event.StepFailed, Ref: ref, Attempt: o.Attempt, Failure: f}
	t.reportStep(op, &e)
	t.apply(e)
	return true
}

// acquireSlot takes a slot for a step, or puts the task in line for one.
func (w *Worker) acquireSlot(t *task) bool {
	if w.slots.Add(-1) >= 0 {
		return true
	}
	w.slots.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slots.Add(-1) >= 0 { // one was freed meanwhile
		return true
	}
	w.slots.Add(1)
	if !t.lined {
		t.lined = true
		w.slotLine = append(w.slotLine, t)
	}
	return false
}

// offerSlots tells the first task in line that there are slots.
func (w *Worker) offerSlots() {
	if w.slots.Load() <= 0 {
		return
	}
	w.mu.Lock()
	var next *task
	if len(w.slotLine) > 0 && w.slots.Load() > 0 {
		next, w.slotLine = w.slotLine[0], w.slotLine[1:]
		next.lined = false
	}
	w.mu.Unlock()
	if next != nil {
		next.post(input{kind: inputTick})
	}
}

func (w *Worker) releaseSlot() {
	w.slots.Add(1)
	w.offerSlots()
}

// attemptSet knows the attempts whose goroutines run.
type attemptSet struct {
	mu   sync.Mutex
	all  map[*attempt]struct{}
	none chan struct{} // closed when the last one has ended; nil: nobody waits
}

func (s *attemptSet) init() { s.all = map[*attempt]struct{}{} }

func (s *attemptSet) add(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[a] = struct{}{}
}

func (s *attemptSet) remove(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, a)
	if len(s.all) == 0 && s.none != nil {
		close(s.none)
		s.none = nil
	}
}

// ended returns a channel that is closed once no attempt runs. It is called once.
func (s *attemptSet) ended() <-chan struct{} {
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
func (s *attemptSet) running() []*at.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*at.Attempt
	for a := range s.all {
		all = append(all, &a.info)
	}
	return all
}
