package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/seam"
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
	launched bool      // its goroutine frees the slot; belongs to the task's executor
	lease    *session  // under which its run was claimed, with the id; set by launch
	session  store.SessionID

	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil: not launched
	done   bool                    // its outcome was posted

	outcome outcome // set by whoever posts it

	// What its pen is made of, once its code writes to a stream.
	task   *task
	fence  store.Fence
	caller *workflow.Caller // for whose run it executes the step; nil: for its own
	ink    *pen             // guarded by mu
	dry    bool             // its code has returned; guarded by mu

	info    at.Attempt     // what its code may know; set by launch
	context attemptContext // of its code
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel(cause)
	}
}

// attemptTimeoutError is the cause of a context whose attempt took too long.
type attemptTimeoutError struct{ after time.Duration }

func (e *attemptTimeoutError) Error() string {
	return fmt.Sprintf("attempt took longer than its timeout of %v", e.after)
}

func (e *attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// launch starts an attempt whose step_started is durable.
func (t *task) launch(a *attempt) {
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.attempts[a.ref] != a {
		return // the slot is freed with the task
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
	fn, _ := t.w.registry.Step(seam.Gate{}, op.Name) // startSteps has looked
	plan := workflow.PlanOf(seam.Gate{}, op)
	spec := t.run.Fold().Spec
	a.info = at.Attempt{Run: t.id, WorkflowID: spec.WorkflowID, Step: op.Name, Key: op.Key, Number: a.number, Ref: a.ref, Tags: spec.Tags, Log: t.id, LogKey: op.Key}
	if c := plan.Caller; c != nil {
		a.info.Run, a.info.WorkflowID, a.info.Key, a.info.Tags = c.Run, c.WorkflowID, c.Key, c.Tags
	}
	ctx, cancel := context.WithCancelCause(t.w.base)
	a.context = attemptContext{ctx, a}
	a.mu.Lock()
	a.cancel = cancel
	a.mu.Unlock()
	a.deadline = a.started.Add(plan.Timeout)
	if d := op.Deadline(); !d.IsZero() && d.Before(a.deadline) {
		a.deadline = d
	}
	t.w.activity.Begin()
	go t.w.runAttempt(ctx, t, a, fn, plan, op.Input, t.fence)
}

// runAttempt executes an attempt and posts its outcome. Code that does not end
// although its time is up is left behind after the grace period.
func (w *Worker) runAttempt(ctx context.Context, t *task, a *attempt, fn workflow.StepFunc, plan *workflow.StepPlan, args []byte, fence store.Fence) {
	info := &a.info
	growStack()
	defer w.activity.End()
	w.attempts.add(a, info)
	defer w.releaseSlot()
	defer w.attempts.remove(a)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("flowgen_step", info.Step, "flowgen_run", string(info.Run))))
	stopTimer := w.clock.AfterFunc(plan.Timeout, func() {
		cause := &attemptTimeoutError{plan.Timeout}
		a.stop(cause)
		w.clock.AfterFunc(w.cfg.Grace, func() { w.abandon(t, a, info, cause) })
	})
	w.readNotes(ctx, t.id, a, info, fence)
	var out outcome
	a.fence, a.task, a.caller = fence, t, plan.Caller
	info.Pen = a
	defer func() { // also if the code ends its goroutine
		stopTimer()
		out.closes = a.dropPen()
		t.conclude(ctx, a, info, out)
	}()
	// The process may have been stopped since launch has looked, or the notes have
	// taken their time: somebody else may have completed the step.
	if err := a.lease.awaitAlive(ctx, a.session); err != nil {
		out = judge(err, nil)
		return
	}
	callStep(&a.context, fn, plan.Spec.Fatal, args, &out)
}

// readNotes lets the attempt read what the one before has noted, and note
// something itself.
func (w *Worker) readNotes(ctx context.Context, run event.RunID, a *attempt, info *at.Attempt, fence store.Fence) {
	noter, ok := store.As[store.Noter](w.store)
	if !ok {
		info.Beat = func(context.Context, []byte) error { return errors.ErrUnsupported }
		return
	}
	if a.number > 1 {
		notes, err := noter.Notes(ctx, run)
		if err != nil {
			w.log.Warn("read heartbeat of the attempt before", "run", run, "step", info.Step, "error", err)
		}
		info.Last = notes[info.Key]
	}
	info.Beat = func(ctx context.Context, details []byte) error {
		return noter.SetNote(ctx, run, fence, info.Key, details)
	}
}

// conclude posts what came of an attempt, unless it counts as interrupted
// because the worker stops: then the next worker decides.
func (t *task) conclude(ctx context.Context, a *attempt, info *at.Attempt, out outcome) {
	cause := context.Cause(ctx)
	switch f := out.failure; {
	case f == nil:
		if err := workflow.CheckPayload(seam.Gate{}, t.w.client, "result of step ", info.Step, len(out.payload)); err != nil {
			out = failed(err, event.CodePayload)
		}
	case f.Code == event.CodeError:
		if _, late := errors.AsType[*attemptTimeoutError](cause); late {
			f.Code = event.CodeTimeout
		}
	}
	stopped := errors.Is(cause, ErrStopping) && out.failure != nil
	a.finish(func() {
		if !stopped {
			a.outcome = out
			t.post(input{kind: inputStep, attempt: a})
		}
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
func (w *Worker) abandon(t *task, a *attempt, info *at.Attempt, cause *attemptTimeoutError) {
	a.finish(func() {
		w.log.Error("a step ignores its context: it is left behind and goes on running", "run", info.Run, "step", info.Step,
			"attempt", a.number, "timeout", cause.after, "stack", stackOf("flowgen_run", string(info.Run)))
		err := fmt.Errorf("%w, and %v later its code had not ended: it must watch its context", cause, w.cfg.Grace)
		a.outcome = failed(err, event.CodeTimeout)
		t.post(input{kind: inputStep, attempt: a})
	})
}

// onStep records what came of an attempt.
func (t *task) onStep(a *attempt, out *outcome) {
	if t.state != taskLive || t.attempts[a.ref] != a {
		return // the run was lost, or ended without it
	}
	delete(t.attempts, a.ref)
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.run.Err() != nil {
		return
	}
	if out.failure == nil {
		for _, name := range out.closes {
			t.apply(event.Event{Type: event.StreamClosed, Name: name, Key: op.Key, Attempt: a.number})
		}
		t.apply(event.Event{Type: event.StepCompleted, Ref: a.ref, Attempt: a.number, Payload: out.payload})
		return
	}
	t.apply(t.verdict(op, a, out))
}

// verdict decides what follows from a failed attempt.
func (t *task) verdict(op *replay.Op, a *attempt, out *outcome) event.Event {
	plan := workflow.PlanOf(seam.Gate{}, op)
	f := out.failure
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
	case a.number >= plan.Retry.MaxAttempts():
		return failed
	}
	delay := plan.Retry.Delay(a.number, t.w.chance())
	if out.after != nil {
		delay = *out.after
	}
	due := t.w.clock.Now().Add(delay)
	if total := plan.Retry.Total; total > 0 && due.After(t.run.Fold().Open(a.ref).Since.Add(total)) {
		return failed
	}
	return event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: due}
}

// endInterrupted ends a step whose attempt died with its worker, if it may not
// be started again, and reports whether it did.
func (t *task) endInterrupted(ref uint64) bool {
	o := t.run.Fold().Open(ref)
	op := t.run.Op(ref)
	if o == nil || op == nil {
		return true
	}
	plan := workflow.PlanOf(seam.Gate{}, op)
	f := &event.Failure{Code: event.CodeInterrupted}
	switch {
	case op.CancelWanted():
		f = replay.CancelFailure(op.CancelCause())
	case plan.Spec.NonIdempotent:
		f.Message = fmt.Sprintf("the worker died during attempt %d, and the step is not idempotent: it may or may not have had its effect", o.Attempt)
	case o.Attempt >= plan.Retry.MaxAttempts():
		f.Message = fmt.Sprintf("the worker died during attempt %d, which was the last one", o.Attempt)
	default:
		return false
	}
	t.apply(event.Event{Type: event.StepFailed, Ref: ref, Attempt: o.Attempt, Failure: f})
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
	all  map[*attempt]*at.Attempt
	none chan struct{} // closed when the last one has ended; nil: nobody waits
}

func (s *attemptSet) init() { s.all = map[*attempt]*at.Attempt{} }

func (s *attemptSet) add(a *attempt, info *at.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[a] = info
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
	for _, info := range s.all {
		all = append(all, info)
	}
	return all
}
