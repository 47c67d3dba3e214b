package runloop

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/refs"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// attempt is an attempt of a step, from its step_started event until its code has returned.
type attempt struct {
	id       uint64 // differs from the IDs of all other attempts of the State
	ref      uint64 // step, named by the sequence number of its creation
	number   int
	started  time.Time
	deadline time.Time // set when the attempt is launched
	launched bool      // the code was called, so the attempt returns its slot itself
	finished bool      // an outside caller has finished the attempt: the outcome is in the log, but the code may not have returned
	opened   bool      // the code has opened a hook
}

// underWay is the state of the attempts of a run that are in progress.
type underWay struct {
	attempts     refs.Map[attempt] // attempts by step, from step_started on
	attemptIDs   uint64            // ID of the latest attempt
	spareAttempt *attempt          // an ended attempt whose memory can be reused
	releases     []release         // effects that wait until their causes are durable, in the order of the causes
	held         []*attempt        // attempts with a durable step_started that wait until the lease is alive
	gaveWay      bool              // whether a step was not started because other runs wait for a slot
	interrupted  []uint64          // steps whose attempts ended with their worker
	holdBack     holdBack          // the closing of rates that the next commit requests
}

// release is an effect that takes place once the event seq is durable. Exactly one of the other
// fields is set.
//
// The queue is the only way to start an attempt, to reveal a token and to cancel a running attempt
// after a cause in the log. So none of these effects is visible before its cause is durable, in
// whatever portions the events are committed.
type release struct {
	seq    uint64
	start  *attempt // attempt to start
	open   *Opening // hook to return to its caller
	cancel uint64   // step whose attempt must be canceled
}

// holdBack is a request to close the rates of the run, which the commit of an event makes.
type holdBack struct {
	seq uint64 // sequence number of the last event that requests it
	d   time.Duration
}

// dropAttempts cancels the launched attempts and frees the slots of the others.
func (s *State) dropAttempts(cause error) {
	for _, a := range s.inOrder() {
		if a.launched {
			s.stop(a, cause)
		} else {
			s.act(Action{Op: ReturnSlot})
		}
	}
	for i := range s.releases {
		if o := s.releases[i].open; o != nil {
			s.reveal(o, cause)
		}
	}
	s.attempts, s.releases, s.held = refs.Map[attempt]{}, nil, nil
}

// inOrder returns the attempts in the order of their steps.
func (s *State) inOrder() []*attempt {
	if s.attempts.Len() == 0 {
		return nil
	}
	return slices.SortedFunc(s.attempts.All, func(a, b *attempt) int { return cmp.Compare(a.ref, b.ref) })
}

// stop cancels the code of an attempt that was started.
func (s *State) stop(a *attempt, cause error) {
	if a.launched {
		s.act(Action{Op: StopAttempt, Attempt: a.id, Err: cause})
	}
}

// ErrLost is the cause of the end of an attempt whose run was lost. ErrStopping is the cause of the
// end of an attempt whose worker is stopping.
var (
	ErrLost     = flow.ErrClaimLost
	ErrStopping = errors.New("worker is stopping")
	errEnded    = errors.New("the run has ended")
)

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

// startSteps begins attempts while slots are free: first of interrupted steps, then of steps whose
// backoff is over, then of new steps. It returns an error if the run cannot continue on this
// worker.
func (s *State) startSteps() error {
	s.gaveWay = false
	if s.moment.Stage >= Stopping || !s.moment.Alive || s.run.State().StandsStill() {
		return nil
	}
	var retries []uint64
	for _, o := range s.run.State().DueBy(s.moment.Now) {
		if o.Entity == event.EntityStep && o.State == event.StatePending {
			retries = append(retries, o.Ref)
		}
	}
	for s.run.Err() == nil && !s.run.Ended() && s.blocked == nil {
		ref, ok := s.nextStep(&retries)
		if !ok {
			return nil
		}
		if s.gaveWay = s.overBudget() || s.moment.Closed; s.gaveWay {
			return nil
		}
		op := s.run.Op(ref)
		if _, known := s.Code.Step(op.Name); !known {
			return &unknownStepError{Run: s.id, Workflow: s.route.Workflow, Step: op.Name}
		}
		if err := s.checkTimeout(op); err != nil {
			return err
		}
		if s.gaveWay = s.lacksTime(op); s.gaveWay {
			return nil
		}
		if !s.driver.TakeSlot() {
			return nil
		}
		n := s.run.State().Open(ref).Attempt + 1
		s.interrupted = slices.DeleteFunc(s.interrupted, func(r uint64) bool { return r == ref })
		seq := s.run.State().Seq + 1
		if s.apply(event.Event{Type: event.StepStarted, Ref: ref, Attempt: n, By: s.Worker}); s.run.State().Seq < seq { // code that has strayed to another goroutine has ended the run in the meantime
			s.act(Action{Op: ReturnSlot})
			return nil
		}
		if !s.attempted {
			s.attempted, s.first = true, s.moment.Now
		}
		a := s.spareAttempt
		if a == nil {
			a = &attempt{}
		}
		s.spareAttempt = nil
		s.attemptIDs++
		*a = attempt{id: s.attemptIDs, ref: ref, number: n, started: s.moment.Now}
		s.attempts.Add(ref, a)
		s.releases = append(s.releases, release{seq: seq, start: a})
	}
	return nil
}

// unstart drops the releases whose causes have a sequence number above last. The run cannot
// continue, so no commit will contain these events.
func (s *State) unstart(last uint64) {
	for i := range s.releases {
		switch r := &s.releases[i]; {
		case r.seq <= last:
		case r.start != nil:
			s.attempts.Delete(r.start.ref)
			s.act(Action{Op: ReturnSlot})
		case r.open != nil:
			s.reveal(r.open, errEnded)
		}
	}
	s.releases = slices.DeleteFunc(s.releases, func(r release) bool { return r.seq > last })
}

// nextStep returns the step to start next. It also ends interrupted steps that may not be started
// again.
func (s *State) nextStep(retries *[]uint64) (uint64, bool) {
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
		if s.run.State().StateOf(ref) == event.StatePending && s.attempts.Get(ref) == nil { // otherwise the code of the previous attempt is still running
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
func (s *State) wanted() bool {
	if len(s.interrupted) > 0 || s.run.Startable() != nil {
		return true
	}
	due := s.run.State().Due()
	return !due.IsZero() && !due.After(s.moment.Now)
}

// overBudget reports whether the run has used up its budget while other runs wait for a slot.
func (s *State) overBudget() bool {
	return s.moment.Now.Sub(s.since) >= s.RunBudget && s.driver.Full()
}

// release carries out the effects whose causes have a sequence number of at most last.
func (s *State) release(last uint64) {
	n := 0
	for n < len(s.releases) && s.releases[n].seq <= last {
		r := s.releases[n]
		n++
		switch {
		case r.start != nil:
			s.launch(r.start)
		case r.open != nil:
			s.reveal(r.open, nil)
		default:
			if a := s.attempts.Get(r.cancel); a != nil {
				s.stop(a, s.cancelCause(r.cancel))
			}
		}
	}
	s.releases = slices.Delete(s.releases, 0, n)
}

// cancelsWait reports whether a cancel of a running attempt waits until its cause is durable.
func (s *State) cancelsWait() bool {
	return slices.ContainsFunc(s.releases, func(r release) bool { return r.cancel != 0 })
}

// resume launches the attempts that were held because the lease was not alive.
func (s *State) resume() {
	if len(s.held) == 0 || !s.moment.Alive {
		return
	}
	held := s.held
	s.held = nil
	for _, a := range held {
		s.launch(a)
	}
}

// launch starts the code of an attempt whose step_started is durable.
func (s *State) launch(a *attempt) {
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.attempts.Get(a.ref) != a {
		return // the slot was freed when the run was dropped
	}
	if s.run.Err() != nil { // the outcome could not be recorded, so the code is not called
		s.attempts.Delete(a.ref)
		s.act(Action{Op: ReturnSlot})
		return
	}
	if s.moment.Stage >= Ending {
		s.giveBack(a)
		return
	}
	if !s.moment.Alive { // another worker may have claimed the run and begun its own attempt
		s.held = append(s.held, a)
		return
	}
	if op.CancelWanted() { // the step was canceled before its code was called
		s.act(Action{Op: ReturnSlot})
		out := Failed(op.CancelCause(), event.CodeCanceled)
		_ = s.record(a.ref, a.id, &out) // record returns an error only for the outcome of called code
		return
	}
	a.launched = true
	timeout := s.attemptTimeout(a, flow.PlanOf(op))
	a.deadline = a.started.Add(timeout)
	if d := op.Deadline(); !d.IsZero() && d.Before(a.deadline) {
		a.deadline = d
	}
	s.act(Action{Op: Start, Claim: s.claim, Attempt: a.id, Begin: Begin{Ref: a.ref, Number: a.number, Timeout: timeout, Deadline: a.deadline, Step: op, Run: s.run}})
}

// record applies the outcome of an attempt. It returns an error if the run cannot continue on this
// worker.
func (s *State) record(ref, id uint64, out *Outcome) error {
	a := s.attempts.Get(ref)
	if a == nil || a.id != id {
		return nil // the run was lost, or ended before the attempt did
	}
	if out.Stopped && !a.finished {
		s.giveBack(a)
		return nil
	}
	s.attempts.Delete(ref)
	s.spareAttempt = a
	op := s.run.Op(ref)
	if op == nil || a.finished || s.run.Ended() || s.run.Err() != nil {
		return nil //nolint:nilerr // the run ends with that error
	}
	if out.Unfit != nil { // the code was not called, so the attempt does not count
		s.apply(event.Event{Type: event.StepRetrying, Ref: ref, Attempt: a.number - 1, Due: s.moment.Now})
		return out.Unfit
	}
	if out.Pending || s.outcomeMayWait(op, a, out) {
		s.pend(op, a, out.Closes)
	} else {
		s.settle(op, a.number, out)
	}
	return nil
}

// settle records the outcome of an attempt and its consequence for the step.
func (s *State) settle(op *replay.Op, attempt int, out *Outcome) {
	if out.Failure == nil {
		for _, name := range out.Closes {
			s.apply(event.Event{Type: event.StreamClosed, Name: name, Key: op.Key, Attempt: attempt})
		}
		s.apply(event.Event{
			Type: event.StepCompleted, Ref: op.Ref, Attempt: attempt, Payload: out.Payload,
			Item: out.item, Key: out.key, By: out.sender, Attributes: out.attributes,
		})
		return
	}
	e := s.verdict(op, attempt, out)
	e.Item, e.Key, e.By, e.Attributes = out.item, out.key, out.sender, out.attributes
	if out.Hold > 0 {
		s.holdBack = holdBack{seq: s.run.State().Seq + 1, d: max(s.holdBack.d, out.Hold)}
	}
	s.fail(op, e)
}

// fail records and reports that an attempt of a step has failed. If the step is not idempotent and
// the attempt may have had an effect, the event records this possibility.
func (s *State) fail(op *replay.Op, e event.Event) {
	s.reportStep(op, &e)
	if e.Type == event.StepFailed && flow.PlanOf(op).Spec.NonIdempotent {
		switch e.Failure.Code {
		case event.CodeInterrupted, event.CodeTimeout, event.CodeCanceled:
			e.Outcome = event.OutcomeUnsure
		}
	}
	s.apply(e)
}

// verdict returns the event that records a failed attempt: step_retrying or step_failed.
func (s *State) verdict(op *replay.Op, attempt int, out *Outcome) event.Event {
	plan := flow.PlanOf(op)
	retry := plan.Retry
	f, o := out.Failure, s.run.State().Open(op.Ref)
	failed := event.Event{Type: event.StepFailed, Ref: op.Ref, Attempt: attempt, Failure: f}
	// If a busy service asks for a delay, the failure proves nothing about the step. So the attempt
	// does not count, up to a limit. The log records which attempts count, so every worker counts
	// the same attempts.
	waits := out.After != nil && f.Code == event.CodeError && o.Waited < retry.MaxWaits()
	switch {
	case op.CancelWanted():
		f.Code = event.CodeCanceled
		return failed
	case f.Code == event.CodePayload:
		return failed
	case out.Fatal:
		f.Code = event.CodeFatal
		return failed
	case plan.Spec.NonIdempotent && f.Code == event.CodeTimeout:
		return failed // the effect of the attempt may have happened, or may happen later
	case !waits && o.Counted() >= retry.MaxAttempts():
		return failed
	}
	delay := retry.Delay(o.Counted(), s.Chance())
	if out.After != nil {
		delay = *out.After
	}
	now := s.moment.Now
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
func (s *State) giveBack(a *attempt) {
	s.attempts.Delete(a.ref)
	if a.finished {
		return
	}
	if a.launched {
		s.stop(a, ErrStopping) // if the code is still running, it is canceled and abandoned
	} else {
		s.act(Action{Op: ReturnSlot})
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
		s.fail(op, event.Event{Type: event.StepFailed, Ref: a.ref, Attempt: a.number, Failure: f})
	default:
		f := &event.Failure{Code: event.CodeStopped, Message: fmt.Sprintf("%s attempt %d, which does not count", stopped, a.number)}
		s.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: s.moment.Now})
	}
}

// endInterrupted ends a step whose attempt ended with its worker, if the step may not be started
// again. It reports whether it has ended the step.
func (s *State) endInterrupted(ref uint64) bool {
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
	case o.Counted() >= plan.Retry.MaxAttempts():
		f.Message = fmt.Sprintf("%s attempt %d, which was the last one", died, o.Attempt)
	default:
		return false
	}
	s.fail(op, event.Event{Type: event.StepFailed, Ref: ref, Attempt: o.Attempt, Failure: f})
	return true
}

// endAttempts ends the attempts of the run when the grace period is over. First the attempts are
// canceled, and their outcomes count. After the hard stop the remaining attempts are given back and
// abandoned.
func (s *State) endAttempts() {
	if s.moment.Stage < Ending {
		return
	}
	hard := s.moment.Stage >= Hard
	for _, a := range s.inOrder() {
		switch {
		case a.launched && !hard:
			s.stop(a, ErrStopping)
		case a.launched, slices.Contains(s.held, a):
			s.giveBack(a)
		}
	}
	s.held = slices.DeleteFunc(s.held, func(a *attempt) bool { return s.attempts.Get(a.ref) != a })
}

func (s *State) cancelCause(ref uint64) error {
	if op := s.run.Op(ref); op != nil && op.CancelWanted() {
		return op.CancelCause()
	}
	return ErrLost
}
