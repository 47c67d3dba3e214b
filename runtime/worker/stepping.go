package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// stepping begins the attempts of the steps of a run, and records their outcomes.
type stepping struct {
	*execution
	*heldClaim
	underWay
	code     *flow.Registry
	runs     *runs
	steps    *steps
	reporter *reporter
}

// underWay is the state of the attempts of a run that are in progress.
type underWay struct {
	attempts    map[uint64]*attempt // attempts by step, from step_started on
	starts      []*attempt          // attempts to launch once their step_started is durable
	held        []*attempt          // attempts with a durable step_started that wait until the lease is alive
	gaveWay     bool                // whether a step was not started because other runs wait for a slot
	cancels     []uint64            // steps to cancel once the reason is durable
	opened      []*opening          // hooks whose tokens the code gets once they are durable
	interrupted []uint64            // steps whose attempts ended with their worker
	holdBack    holdBack            // the closing of rates that the next commit requests
}

// holdBack is a request to close the rates of the run, which the commit of an event makes.
type holdBack struct {
	seq uint64 // sequence number of the last event that requests it
	d   time.Duration
}

// forget drops the state of all attempts.
func (s *stepping) forget() { s.underWay = underWay{gaveWay: s.gaveWay} }

// drop cancels the launched attempts and frees the slots of the others.
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

// unknownStepError is the error of a run that calls a step which the worker has not registered.
type unknownStepError struct {
	Run            event.RunID
	Workflow, Step string
}

// Error names the missing step and how to fix the error.
func (e *unknownStepError) Error() string {
	return fmt.Sprintf("run %s of %s calls step %s, which is not registered on this worker: call the generated Register of its package before Run; "+
		"the run is blocked until a worker starts that registers it", e.Run, e.Workflow, e.Step)
}

// start begins attempts while slots are free: first of interrupted steps, then of steps whose
// backoff is over, then of new steps. It returns an error if the run cannot continue on this
// worker.
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

// unstart drops the attempts in starts from index n on. The run cannot continue, so no commit will
// contain the events that begin them.
func (s *stepping) unstart(n int) {
	for _, a := range s.starts[n:] {
		delete(s.attempts, a.ref)
		s.steps.slots.release()
	}
	s.starts = s.starts[:n]
}

// nextStep returns the step to start next. It also ends interrupted steps that may not be started
// again.
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
		if s.run.State().StateOf(ref) == event.StatePending && s.attempts[ref] == nil { // otherwise the code of the previous attempt is still running
			return ref, true
		}
		*retries = (*retries)[1:] // the step was started before
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

// overBudget reports whether the run has used up its budget while other runs wait for a slot.
func (s *stepping) overBudget() bool {
	return s.clock.Now().Sub(s.since) >= s.cfg.RunBudget && s.runs.full()
}

// saved carries out the effects of a durable commit: it launches attempts, returns tokens of hooks,
// and cancels attempts.
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

// resume launches the attempts that were held because the lease was not alive.
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

// launch starts the code of an attempt whose step_started is durable.
func (s *stepping) launch(a *attempt) {
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.attempts[a.ref] != a {
		return // the slot was freed when the run was dropped
	}
	if s.ending.Load() {
		s.giveBack(a)
		return
	}
	if !s.alive() { // another worker may have claimed the run and begun its own attempt
		s.held = append(s.held, a)
		return
	}
	a.launched, a.lease, a.session = true, s.lease, s.session
	if op.CancelWanted() { // the step was canceled before its code was called
		s.steps.slots.release()
		a.outcome = failed(op.CancelCause(), event.CodeCanceled)
		_ = s.record(a, &a.outcome) // record returns an error only for the outcome of called code
		return
	}
	fn, _ := s.code.Step(op.Name) // start has checked that the step exists
	plan := flow.PlanOf(op)
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

// record applies the outcome of an attempt. It returns an error if the run cannot continue on this
// worker.
func (s *stepping) record(a *attempt, out *outcome) error {
	if s.attempts[a.ref] != a {
		return nil // the run was lost, or ended before the attempt did
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
	if out.unfit != nil { // the code was not called, so the attempt does not count
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

// settle records the outcome of an attempt and its consequence for the step.
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

// fail records that an attempt of a step has failed. If the step is not idempotent and the attempt
// may have had an effect, the event records this possibility.
func (s *stepping) fail(op *replay.Op, e event.Event) {
	if e.Type == event.StepFailed && flow.PlanOf(op).Spec.NonIdempotent {
		switch e.Failure.Code {
		case event.CodeInterrupted, event.CodeTimeout, event.CodeCanceled:
			e.Outcome = event.OutcomeUnsure
		}
	}
	s.apply(e)
}

// verdict returns the event that records a failed attempt: step_retrying or step_failed.
func (s *stepping) verdict(op *replay.Op, attempt int, out *outcome) event.Event {
	plan := flow.PlanOf(op)
	retry := workflow.RetryPolicy(plan.Retry)
	f, o := out.failure, s.run.State().Open(op.Ref)
	failed := event.Event{Type: event.StepFailed, Ref: op.Ref, Attempt: attempt, Failure: f}
	// If a busy service asks for a delay, the failure proves nothing about the step. So the attempt
	// does not count, up to a limit. The log records which attempts count, so every worker counts
	// the same attempts.
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
		return failed // the effect of the attempt may have happened, or may happen later
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

// outOfTotal returns the failure of a step that has no time for another attempt and whose last
// attempt has failed with f. It has the code and the stack of f, and f as its cause. So errors.Is
// and errors.As find the error that the step returned.
func outOfTotal(total time.Duration, f *event.Failure) *event.Failure {
	cause := *f
	cause.Stack = ""
	return &event.Failure{
		Code: f.Code, Stack: f.Stack, Causes: []*event.Failure{&cause},
		Message: failure.Cut(fmt.Sprintf("its total timeout of %v leaves no time for another attempt: %s", total, f.Message), failure.MaxText),
	}
}

// These texts describe how a worker has left an attempt, and why a step that is not idempotent gets
// no further attempt.
const (
	died      = "the worker died, or lost the run, during"
	stopped   = "the worker stopped during"
	oneEffect = "and the step is not idempotent: it may or may not have had its effect"
)

// giveBack ends an attempt because the worker stops. The attempt does not count, because the step
// has not caused the stop. In contrast, the death of a worker cannot be recorded in advance and
// counts as an attempt, so that a step that kills its process runs out of attempts. A step that is
// not idempotent is not started again after its attempt was launched.
func (s *stepping) giveBack(a *attempt) {
	delete(s.attempts, a.ref)
	if a.finished {
		return
	}
	if a.launched {
		a.stop(ErrStopping) // if the code is still running, it is canceled and abandoned
	} else {
		s.steps.slots.release()
	}
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.run.Err() != nil {
		return
	}
	plan := flow.PlanOf(op)
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

// endInterrupted ends a step whose attempt ended with its worker, if the step may not be started
// again. It reports whether it has ended the step.
func (s *stepping) endInterrupted(ref uint64) bool {
	o := s.run.State().Open(ref)
	op := s.run.Op(ref)
	if o == nil || op == nil {
		return true
	}
	plan := flow.PlanOf(op)
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

// end ends the attempts of the run when the grace period is over. First the attempts are canceled,
// and their outcomes count. After the hard stop the remaining attempts are given back and
// abandoned.
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
