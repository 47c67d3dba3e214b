package worker

import (
	"cmp"
	"fmt"
	"log/slog"
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

// fireDue ends the waits whose time has come, in order of their due times.
func (t *runLoop) fireDue() {
	now := t.clock.Now()
	for _, o := range t.run.Fold().DueBy(now) {
		if o.Entity != event.EntityWait || t.run.Fold().Open(o.Ref) != o {
			continue // a step's next attempt, or ended by one that fired before it
		}
		t.apply(event.Event{Type: event.WaitCompleted, Ref: o.Ref, Outcome: event.OutcomeDue})
		if t.run.Ended() || t.run.Err() != nil {
			return
		}
	}
}

// startSteps begins attempts while there are slots for them: those that were
// interrupted, those whose backoff is over, and new ones.
func (t *runLoop) startSteps() {
	t.under.gaveWay = false
	if t.stopping.Load() || !t.alive() || t.run.Fold().Paused {
		return
	}
	var retries []uint64
	for _, o := range t.run.Fold().DueBy(t.clock.Now()) {
		if o.Entity == event.EntityStep && o.State == event.StatePending {
			retries = append(retries, o.Ref)
		}
	}
	for t.run.Err() == nil && !t.run.Ended() && t.blocked == nil {
		ref, ok := t.nextStep(&retries)
		if !ok {
			return
		}
		if t.under.gaveWay = t.overBudget() || t.runs.closedTo(&t.inputs); t.under.gaveWay {
			return
		}
		op := t.run.Op(ref)
		if _, known := t.code.Step(op.Name); !known {
			t.block(&unknownStepError{Run: t.id, Workflow: t.route.Workflow, Step: op.Name})
			return
		}
		if !t.steps.slots.acquire(&t.inputs) {
			return
		}
		n := t.run.Fold().Open(ref).Attempt + 1
		t.under.interrupted = slices.DeleteFunc(t.under.interrupted, func(r uint64) bool { return r == ref })
		begun := event.Event{Type: event.StepStarted, Ref: ref, Attempt: n, By: t.cfg.Name}
		if t.build != t.run.Fold().Build {
			begun.Build = t.build
		}
		t.apply(begun)
		a := &attempt{ref: ref, number: n, started: t.clock.Now()}
		if t.under.attempts == nil {
			t.under.attempts = map[uint64]*attempt{}
		}
		t.under.attempts[ref] = a
		t.under.starts = append(t.under.starts, a)
	}
}

// nextStep returns the step to start next. On the way it ends interrupted steps
// that may not be started again.
func (t *runLoop) nextStep(retries *[]uint64) (uint64, bool) {
	for len(t.under.interrupted) > 0 {
		ref := t.under.interrupted[0]
		if !t.endInterrupted(ref) {
			return ref, true
		}
		t.under.interrupted = t.under.interrupted[1:]
		if t.run.Ended() || t.run.Err() != nil {
			return 0, false
		}
	}
	for len(*retries) > 0 {
		ref := (*retries)[0]
		if t.run.Fold().StateOf(ref) == event.StatePending {
			return ref, true
		}
		*retries = (*retries)[1:] // started
	}
	if op := t.run.Startable(); op != nil {
		return op.Ref, true
	}
	return 0, false
}

// wantsStep reports whether a step waits to be started.
func (t *runLoop) wantsStep() bool {
	if len(t.under.interrupted) > 0 || t.run.Startable() != nil {
		return true
	}
	due := t.run.Fold().Due()
	return !due.IsZero() && !due.After(t.clock.Now())
}

func runningSteps(f *event.Fold) []uint64 {
	var refs []uint64
	if f.RunningSteps() == 0 {
		return nil
	}
	f.Opens(func(o *event.Open) bool {
		if o.State == event.StateRunning {
			refs = append(refs, o.Ref)
		}
		return true
	})
	slices.SortFunc(refs, cmp.Compare)
	return refs
}

// overBudget reports whether the run has had its time while others wait.
func (t *runLoop) overBudget() bool {
	return t.clock.Now().Sub(t.since) >= t.cfg.RunBudget && t.runs.full()
}

// launch starts an attempt whose step_started is durable.
func (t *runLoop) launch(a *attempt) {
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.under.attempts[a.ref] != a {
		return // the slot is freed with the run
	}
	if t.ending.Load() {
		t.giveBack(a)
		return
	}
	if !t.alive() { // somebody else may have taken the run, with this attempt
		t.under.held = append(t.under.held, a)
		return
	}
	a.launched, a.lease, a.session = true, t.leases[t.partition], t.session
	if op.CancelWanted() { // before it could begin
		t.steps.slots.release()
		a.outcome = failed(op.CancelCause(), event.CodeCanceled)
		t.onStep(a, &a.outcome)
		return
	}
	fn, _ := t.code.Step(op.Name) // startSteps has looked
	plan := engine.PlanOf(op)
	spec := t.run.Fold().Spec
	a.info = at.Attempt{Run: t.id, WorkflowID: spec.WorkflowID, Step: op.Name, Key: op.Key, Number: a.number, Ref: a.ref, Tags: spec.Tags, Log: t.id, LogKey: op.Key}
	if c := plan.Caller; c != nil {
		a.info.Run, a.info.WorkflowID, a.info.Key, a.info.Tags = c.Run, c.WorkflowID, c.Key, c.Tags
	}
	a.steps, a.by, a.run, a.fence, a.fn, a.op = t.steps, t, t.id, t.fence, fn, op
	a.labels, a.info.Heart, a.info.Pen = labelsOf(t.run, &a.info), a, a
	a.deadline = a.started.Add(plan.Timeout)
	if d := op.Deadline(); !d.IsZero() && d.Before(a.deadline) {
		a.deadline = d
	}
	t.steps.launch(a)
}

// onStep records what came of an attempt.
func (t *runLoop) onStep(a *attempt, out *outcome) {
	if t.state != stateLive || t.under.attempts[a.ref] != a {
		return // the run was lost, or ended without it
	}
	if out.stopped {
		t.giveBack(a)
		return
	}
	delete(t.under.attempts, a.ref)
	op := t.run.Op(a.ref)
	if op == nil || t.run.Ended() || t.run.Err() != nil {
		return
	}
	if out.unfit != nil { // the step's code was not called: the attempt does not count
		t.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number - 1, Due: t.clock.Now()})
		t.block(out.unfit)
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
func (t *runLoop) verdict(op *replay.Op, a *attempt, out *outcome) event.Event {
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
	delay := retry.Delay(o.Counted(), t.chance())
	if out.after != nil {
		delay = *out.after
	}
	due := t.clock.Now().Add(delay)
	if total := retry.Total; total > 0 && due.After(o.Since.Add(total)) {
		failed.Failure = outOfTotal(total, f)
		return failed
	}
	return event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: due}
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
func (t *runLoop) giveBack(a *attempt) {
	delete(t.under.attempts, a.ref)
	if a.launched {
		a.stop(ErrStopping) // it may still be running: then it is left behind
	} else {
		t.steps.slots.release()
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
		t.apply(event.Event{Type: event.StepRetrying, Ref: a.ref, Attempt: a.number, Failure: f, Due: t.clock.Now()})
	}
}

// endInterrupted ends a step whose attempt died with its worker, if it may not
// be started again, and reports whether it did.
func (t *runLoop) endInterrupted(ref uint64) bool {
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

// endAttempts ends the attempts of the run once the grace period is over: first they are
// asked to end, and what they answer counts; in the end they are left behind.
func (t *runLoop) endAttempts() {
	if !t.ending.Load() {
		return
	}
	hard := t.hard.Load()
	for _, a := range slices.SortedFunc(maps.Values(t.under.attempts), func(a, b *attempt) int { return cmp.Compare(a.ref, b.ref) }) {
		switch {
		case a.launched && !hard:
			a.stop(ErrStopping)
		case a.launched, slices.Contains(t.under.held, a):
			t.giveBack(a)
		}
	}
	t.under.held = slices.DeleteFunc(t.under.held, func(a *attempt) bool { return t.under.attempts[a.ref] != a })
}

func (t *runLoop) cancelCause(ref uint64) error {
	if op := t.run.Op(ref); op != nil && op.CancelWanted() {
		return op.CancelCause()
	}
	return errLost
}

// reportStep prepares the line about the end of an attempt, which is the event after
// those that the run has now. What was canceled is none: the code wanted that.
func (t *runLoop) reportStep(op *replay.Op, e *event.Event) {
	if e.Failure.Code == event.CodeCanceled {
		return
	}
	r := report{seq: t.run.Fold().Seq + 1, level: slog.LevelError, text: "step failed"}
	if c := engine.PlanOf(op).Caller; c != nil {
		r.add(slog.String("run", string(c.Run)), slog.String("step", op.Name), slog.String("key", c.Key))
	} else {
		r.add(slog.String("run", string(t.id)), slog.String("workflow", t.route.Workflow), slog.String("step", op.Name), slog.String("key", op.Key))
	}
	r.add(slog.Int("attempt", e.Attempt))
	if e.Type == event.StepRetrying {
		r.level, r.text = slog.LevelWarn, "attempt of a step failed"
		r.add(slog.Duration("next", e.Due.Sub(t.clock.Now()).Round(time.Millisecond)))
	}
	r.addFailure(e.Failure)
	t.news.reports = append(t.news.reports, r)
}
