package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// stepping begins the attempts of the steps of a run, and records what comes of them.
type stepping struct {
	*execution
	*tenure
	underWay
	code     engine.Registry
	runs     *runs
	steps    *steps
	reporter *reporter
}

// underWay holds the attempts and steps of a run that are under way.
type underWay struct {
	attempts    map[uint64]*attempt // by step; from step_started on
	starts      []*attempt          // to start once their step_started is durable
	held        []*attempt          // durable, to start once the lease is live again
	gaveWay     bool                // a step was not started because others wait for a place
	cancels     []uint64            // steps to cancel once the reason is durable
	opened      []*opening          // hooks to hand out once they are durable
	interrupted []uint64            // steps whose attempt died with another worker
	holdBack    holdBack            // of the rates of the run, for the commit of its event
}

// holdBack says that the commit of an event closes rates.
type holdBack struct {
	seq uint64 // of the event; the last one, if there are several
	d   time.Duration
}

// forget drops what is under way.
func (s *stepping) forget() { s.underWay = underWay{gaveWay: s.gaveWay} }

// drop ends what is under way and frees the slots of what never began.
func (s *stepping) drop(cause error) {
	for _, a := range s.attempts {
		if a.launched {
			a.stop(cause)
		} else {
			s.steps.slots.release()
		}
	}
	s.attempts, s.starts, s.held = nil, nil, nil
}

// unknownStepError says that a workflow called a step that the worker does not
// know.
type unknownStepError struct {
	Run            event.RunID
	Workflow, Step string
}

// Error names the step and the fix.
func (e *unknownStepError) Error() string {
	return fmt.Sprintf("run %s of %s calls step %s, which this worker does not know: call the generated Register of its package before Run; "+
		"the run is blocked until a worker comes that knows it", e.Run, e.Workflow, e.Step)
}

// start begins attempts while there are slots for them: those that were
// interrupted, those whose backoff is over, and new ones. It returns why the run cannot go on
// here; nil: it can.
func (s *stepping) start() error {
	s.gaveWay = false
	if s.stopping.Load() || !s.alive() || s.run.State().StandsStill() {
		return nil
	}
	var retries []uint64
	for _, o := range s.run.State().DueBy(s.clock.Now()) {
		if o.Entity == event.EntityStep && o.State == event.StatePending {
			retries = append(retries, o.Ref)
		}
	}
	for s.run.Err() == nil && !s.run.Ended() && s.blocked == nil {
		ref, ok := s.nextStep(&retries)
		if !ok {
			return nil
		}
		if s.gaveWay = s.overBudget() || s.runs.closedTo(s.in); s.gaveWay {
			return nil
		}
		op := s.run.Op(ref)
		if _, known := s.code.Step(op.Name); !known {
			return &unknownStepError{Run: s.in.id, Workflow: s.route.Workflow, Step: op.Name}
		}
		if !s.steps.slots.acquire(s.in) {
			return nil
		}
		n := s.run.State().Open(ref).Attempt + 1
		s.interrupted = slices.DeleteFunc(s.interrupted, func(r uint64) bool { return r == ref })
		begun := event.Event{Type: event.StepStarted, Ref: ref, Attempt: n, By: s.cfg.Name}
		if s.build != s.run.State().Build {
			begun.Build = s.build
		}
		s.apply(begun)
		s.attempted = true
		a := &attempt{ref: ref, number: n, started: s.clock.Now()}
		if s.attempts == nil {
			s.attempts = map[uint64]*attempt{}
		}
		s.attempts[ref] = a
		s.starts = append(s.starts, a)
	}
	return nil
}

// nextStep returns the step to start next. On the way it ends interrupted steps
// that may not be started again.
func (s *stepping) nextStep(retries *[]uint64) (uint64, bool) {
	for len(s.interrupted) > 0 {
		ref := s.interrupted[0]
		if !s.endInterrupted(ref) {
			return ref, true
		}
		s.interrupted = s.interrupted[1:]
		if s.run.Ended() || s.run.Err() != nil {
			return 0, false
		}
	}
	for len(*retries) > 0 {
		ref := (*retries)[0]
		if s.run.State().StateOf(ref) == event.StatePending && s.attempts[ref] == nil { // else the code of the attempt before runs
			return ref, true
		}
		*retries = (*retries)[1:] // started
	}
	if op := s.run.Startable(); op != nil {
		return op.Ref, true
	}
	return 0, false
}

// wanted reports whether a step waits to be started.
func (s *stepping) wanted() bool {
	if len(s.interrupted) > 0 || s.run.Startable() != nil {
		return true
	}
	due := s.run.State().Due()
	return !due.IsZero() && !due.After(s.clock.Now())
}

// overBudget reports whether the run has had its time while others wait.
func (s *stepping) overBudget() bool {
	return s.clock.Now().Sub(s.since) >= s.cfg.RunBudget && s.runs.full()
}

// saved does what a commit explains that is durable: it starts attempts, and cancels others.
func (s *stepping) saved(c *commit) {
	for _, a := range c.starts {
		s.launch(a)
	}
	for _, o := range c.opened {
		o.end(nil)
	}
	for _, ref := range c.cancels {
		if a := s.attempts[ref]; a != nil {
			a.stop(s.cancelCause(ref))
		}
	}
}

// resume starts what was held because the lease was not alive.
func (s *stepping) resume() {
	if len(s.held) == 0 || !s.alive() {
		return
	}
	held := s.held
	s.held = nil
	for _, a := range held {
		s.launch(a)
	}
}

// launch starts an attempt whose step_started is durable.
func (s *stepping) launch(a *attempt) {
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.attempts[a.ref] != a {
		return // the slot is freed with the run
	}
	if s.ending.Load() {
		s.giveBack(a)
		return
	}
	if !s.alive() { // somebody else may have taken the run, with this attempt
		s.held = append(s.held, a)
		return
	}
	a.launched, a.lease, a.session = true, s.lease, s.session
	if op.CancelWanted() { // before it could begin
		s.steps.slots.release()
		a.outcome = failed(op.CancelCause(), event.CodeCanceled)
		_ = s.record(a, &a.outcome) // nil: its code was not called
		return
	}
	fn, _ := s.code.Step(op.Name) // startSteps has looked
	plan := engine.PlanOf(op)
	spec := s.run.State().Spec
	a.info = at.Attempt{Run: s.in.id, WorkflowID: spec.WorkflowID, Step: op.Name, Key: op.Key, Number: a.number, Ref: a.ref, Tags: spec.Tags, Log: s.in.id, LogKey: op.Key}
	if c := plan.Caller; c != nil {
		a.info.Run, a.info.WorkflowID, a.info.Key, a.info.Tags = c.Run, c.WorkflowID, c.Key, c.Tags
	}
	a.steps, a.by, a.run, a.fence, a.fn, a.op = s.steps, s.in, s.in.id, s.fence, fn, op
	a.labels, a.info.Heart, a.info.Streams, a.info.Client = labelsOf(s.run, &a.info), a, a, s.steps.client
	a.info.Hooks = a
	a.deadline = a.started.Add(plan.Timeout)
	if d := op.Deadline(); !d.IsZero() && d.Before(a.deadline) {
		a.deadline = d
	}
	s.steps.launch(a)
}

// record lets what came of an attempt come into effect. It returns why the run cannot go on
// here; nil: it can.
func (s *stepping) record(a *attempt, out *outcome) error {
	if s.attempts[a.ref] != a {
		return nil // the run was lost, or ended without it
	}
	if out.stopped && !a.finished {
		s.giveBack(a)
		return nil
	}
	delete(s.attempts, a.ref)
	op := s.run.Op(a.ref)
	if op == nil || a.finished || s.run.Ended() || s.run.Err() != nil {
		return nil //nolint:nilerr // the run ends with that error
	}
	if out.unfit != nil { // the step's code was not called: the attempt does not count
		s.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number - 1, Due: s.clock.Now()})
		return out.unfit
	}
	if out.pending || s.outcomeMayWait(op, a, out) {
		s.leave(op, a, out.closes)
	} else {
		s.settle(op, a.number, out)
	}
	return nil
}

// settle records the outcome of an attempt, and what follows from it for the step.
func (s *stepping) settle(op *replay.Op, attempt int, out *outcome) {
	if out.failure == nil {
		for _, name := range out.closes {
			s.apply(event.Event{Type: event.StreamClosed, Name: name, Key: op.Key, Attempt: attempt})
		}
		s.apply(event.Event{Type: event.StepCompleted, Ref: op.Ref, Attempt: attempt, Payload: out.payload, Item: out.item, Key: out.key, By: out.sender})
		return
	}
	e := s.verdict(op, attempt, out)
	e.Item, e.Key, e.By = out.item, out.key, out.sender
	s.reporter.step(op, &e)
	if out.hold > 0 {
		s.holdBack = holdBack{seq: s.run.State().Seq + 1, d: max(s.holdBack.d, out.hold)}
	}
	s.fail(op, e)
}

// fail records that an attempt of a step has failed, and whether it may have had an effect that must not be repeated.
func (s *stepping) fail(op *replay.Op, e event.Event) {
	if e.Type == event.StepFailed && engine.PlanOf(op).Spec.NonIdempotent {
		switch e.Failure.Code {
		case event.CodeInterrupted, event.CodeTimeout, event.CodeCanceled:
			e.Outcome = event.OutcomeUnsure
		}
	}
	s.apply(e)
}

// verdict decides what follows from a failed attempt.
func (s *stepping) verdict(op *replay.Op, attempt int, out *outcome) event.Event {
	plan := engine.PlanOf(op)
	retry := workflow.RetryPolicy(plan.Retry)
	f, o := out.failure, s.run.State().Open(op.Ref)
	failed := event.Event{Type: event.StepFailed, Ref: op.Ref, Attempt: attempt, Failure: f}
	// A service that is busy says nothing about the step: waiting for it uses up no attempt,
	// but only so often. The log says which attempts did, so that every worker counts the same.
	waits := out.after != nil && f.Code == event.CodeError && o.Waited < retry.MaxWaits()
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
	case !waits && o.Counted() >= retry.MaxAttempts():
		return failed
	}
	delay := retry.Delay(o.Counted(), s.chance())
	if out.after != nil {
		delay = *out.after
	}
	now := s.clock.Now()
	due := now.Add(delay)
	if total := retry.Total; total > 0 && due.After(o.Since.Add(total)) {
		failed.Failure = outOfTotal(total, f)
		return failed
	}
	if waits {
		f.Code = event.CodeRetryAfter
	}
	return event.Event{Type: event.StepRetrying, Time: now, Ref: op.Ref, Attempt: attempt, Failure: f, Due: due}
}

// outOfTotal returns the failure of a step that has no time for another attempt, whose
// last one has failed with f. It has the code and the stack of f, which is its cause: so
// errors.Is and errors.As find what the step returned.
func outOfTotal(total time.Duration, f *event.Failure) *event.Failure {
	cause := *f
	cause.Stack = ""
	return &event.Failure{
		Code: f.Code, Stack: f.Stack, Causes: []*event.Failure{&cause},
		Message: failure.Cut(fmt.Sprintf("its total time of %v leaves none for another attempt: %s", total, f.Message), failure.MaxText),
	}
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
func (s *stepping) giveBack(a *attempt) {
	delete(s.attempts, a.ref)
	if a.finished {
		return
	}
	if a.launched {
		a.stop(ErrStopping) // it may still be running: then it is left behind
	} else {
		s.steps.slots.release()
	}
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.run.Err() != nil {
		return
	}
	plan := engine.PlanOf(op)
	switch {
	case op.CancelWanted():
		s.fail(op, event.Event{Type: event.StepFailed, Ref: a.ref, Attempt: a.number, Failure: replay.CancelFailure(op.CancelCause())})
	case plan.Spec.NonIdempotent && a.launched:
		f := &event.Failure{Code: event.CodeInterrupted, Message: fmt.Sprintf("%s attempt %d, %s", stopped, a.number, oneEffect)}
		e := event.Event{Type: event.StepFailed, Ref: a.ref, Attempt: a.number, Failure: f}
		s.reporter.step(op, &e)
		s.fail(op, e)
	default:
		f := &event.Failure{Code: event.CodeStopped, Message: fmt.Sprintf("%s attempt %d, which does not count", stopped, a.number)}
		s.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: s.clock.Now()})
	}
}

// endInterrupted ends a step whose attempt died with its worker, if it may not
// be started again, and reports whether it did.
func (s *stepping) endInterrupted(ref uint64) bool {
	o := s.run.State().Open(ref)
	op := s.run.Op(ref)
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
	s.reporter.step(op, &e)
	s.fail(op, e)
	return true
}

// end ends the attempts of the run once the grace period is over: first they are
// asked to end, and what they answer counts; in the end they are left behind.
func (s *stepping) end() {
	if !s.ending.Load() {
		return
	}
	hard := s.hard.Load()
	for _, a := range slices.SortedFunc(maps.Values(s.attempts), func(a, b *attempt) int { return cmp.Compare(a.ref, b.ref) }) {
		switch {
		case a.launched && !hard:
			a.stop(ErrStopping)
		case a.launched, slices.Contains(s.held, a):
			s.giveBack(a)
		}
	}
	s.held = slices.DeleteFunc(s.held, func(a *attempt) bool { return s.attempts[a.ref] != a })
}

func (s *stepping) cancelCause(ref uint64) error {
	if op := s.run.Op(ref); op != nil && op.CancelWanted() {
		return op.CancelCause()
	}
	return errLost
}
