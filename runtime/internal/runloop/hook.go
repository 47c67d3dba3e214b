package runloop

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// An attempt may be finished from outside, by any holder of the token of a hook that its code has
// opened. Two events record this. step_hook_created is durable before the code gets the token, so
// the store can resolve every token that has left the worker. step_pending is recorded when the
// code has returned. From step_hook_created until the next attempt begins, a payload sent with the
// token is the outcome of the attempt. This holds even if the code is still running or its worker
// has died. The commit that records an outcome, from the code or from outside, closes the hook.
//
// A pending step is only a log entry with a due time: its run is parked, and wakes when the outcome
// arrives or the attempt times out.

var errFinished = errors.New("the attempt was finished from outside")

// open records the hook that an attempt opens. The code gets the token once the event is durable.
func (s *State) open(o *Opening) {
	a := s.attempts.Get(o.Ref)
	if a == nil || a.id != o.Attempt || a.finished {
		s.reveal(o, ErrLost)
		return
	}
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.run.Err() != nil {
		s.reveal(o, errEnded)
		return
	}
	o.Token, a.opened = s.Code.HookToken(s.id, fmt.Sprintf("%s/%d", op.Key, a.number)), true
	seq := s.run.State().Seq + 1
	s.apply(event.Event{
		Type: event.StepHookCreated, Ref: a.ref, Attempt: a.number, Name: o.Hook.Name, Token: o.Token, Payload: o.Hook.Shape, Meta: o.Hook.Meta, Due: a.deadline,
	})
	if s.run.State().Seq < seq {
		s.reveal(o, errEnded)
		return
	}
	s.releases = append(s.releases, release{seq: seq, open: o})
}

// reveal completes a request to open a hook.
func (s *State) reveal(o *Opening, err error) {
	o.Err = err
	s.act(Action{Op: Reveal, Opening: o})
}

// pend records that the code of an attempt has returned and has left the outcome to the holder of
// the token.
func (s *State) pend(op *replay.Op, a *attempt, closes []string) {
	if op.CancelWanted() {
		s.cancelStep(op, a.number)
		return
	}
	e := event.Event{Type: event.StepPending, Ref: a.ref, Attempt: a.number, Due: a.started.Add(flow.PlanOf(op).Timeout)}
	if len(closes) > 0 {
		e.Payload, _ = json.Marshal(closes) // encoding strings cannot fail
	}
	s.apply(e)
	op.Closes = closes
}

// outcomeMayWait reports whether the inbox may contain an outcome, accepted before the timeout, of
// an attempt that has timed out. Such an attempt is recorded as pending, and the inbox is read
// before the attempt times out.
func (s *State) outcomeMayWait(op *replay.Op, a *attempt, out *Outcome) bool {
	return a.opened && out.Failure != nil && out.Failure.Code == event.CodeTimeout &&
		!s.moment.Now.Before(a.started.Add(flow.PlanOf(op).Timeout))
}

// cancelStep records that a step was canceled. No code of this worker is executing the step.
func (s *State) cancelStep(op *replay.Op, attempt int) {
	s.fail(op, event.Event{Type: event.StepFailed, Ref: op.Ref, Attempt: attempt, Failure: replay.CancelFailure(op.CancelCause())})
}

// cancel ends the attempt of a step whose scope has ended. A running attempt is canceled once the
// reason is durable. A pending attempt ends at once.
func (s *State) cancel(op *replay.Op) {
	if o := s.run.State().Open(op.Ref); o != nil && o.State == event.StateWaiting {
		s.cancelStep(op, o.Attempt)
		return
	}
	s.releases = append(s.releases, release{seq: s.run.State().Seq, cancel: op.Ref})
}

// finish records a payload sent with a hook's token as the outcome of the step's attempt. If the
// code of the attempt is still running, it is canceled, and the next attempt does not begin before
// the code has returned.
func (s *State) finish(ref uint64, e *event.Event) {
	op, o := s.run.Op(ref), s.run.State().Open(ref)
	if op == nil {
		return // the outcome is in the log and takes effect when the run is resumed
	}
	closes := op.Closes
	if a := s.attempts.Get(ref); a != nil {
		a.finished, closes = true, s.driver.ClosedStreams(a.id)
		s.stop(a, errFinished)
	}
	s.interrupted = slices.DeleteFunc(s.interrupted, func(r uint64) bool { return r == ref })
	out := s.sentOutcome(op, e)
	out.Closes, out.item, out.key, out.sender, out.attributes = closes, e.Item, e.Key, e.By, e.Attributes
	s.settle(op, o.Attempt, &out)
}

// sentOutcome returns the outcome that a sender has sent. If the payload cannot be decoded as the
// step's result, the attempt fails: the sender has only the shape of the result, which does not
// exclude every wrong payload.
func (s *State) sentOutcome(op *replay.Op, e *event.Event) Outcome {
	s.enter()
	defer s.leave()
	spec := flow.PlanOf(op).Spec
	if e.Failure != nil {
		out := Judge(sentError(e), spec.Fatal)
		out.Failure = e.Failure
		if out.Failure.Code != event.CodePayload {
			out.Failure.Code = event.CodeError
		}
		return out
	}
	if err := checkResult(spec, e.Payload); err != nil {
		return Failed(fmt.Errorf("it was completed from outside with a value that is not a valid result: %w", err), event.CodeError)
	}
	return Outcome{Payload: e.Payload}
}

// sentError returns the error with which a sender has made an attempt fail.
func sentError(e *event.Event) error {
	var err error = &failure.StoredError{F: e.Failure}
	var hint effects.RetryHint
	_ = json.Unmarshal(e.Payload, &hint) // a hint that a later release has written is ignored, and the retry policy decides
	if hint.After != nil {
		err = &at.RetryAfterError{Err: err, Delay: max(*hint.After, 0), Hold: hint.Hold}
	}
	if hint.Fatal {
		err = &at.FatalError{Err: err}
	}
	return err
}

// checkResult returns the error of decoding a sent payload as the result of a step.
func checkResult(spec *flow.StepSpec, payload []byte) (err error) {
	if spec.Result == nil {
		return nil
	}
	defer func() { // a method of the user's type may panic
		if r := recover(); r != nil {
			err = fmt.Errorf("decoding panicked: %v", r)
		}
	}()
	return flow.DecodePayload("result of step ", spec.Name, payload, reflect.New(spec.Result).Interface())
}

// overdue returns the latest due time of the pending attempts that have timed out. It returns zero
// if there is none.
func (s *State) overdue() (since time.Time) {
	for _, o := range s.run.State().DueBy(s.moment.Now) {
		if o.Entity == event.EntityStep && o.State == event.StateWaiting && o.Due.After(since) {
			since = o.Due
		}
	}
	return since
}

// timeOut ends the pending attempts that had timed out at the given time. The caller has applied
// all items accepted before that time.
func (s *State) timeOut(at time.Time) {
	for _, o := range s.run.State().DueBy(at) {
		if o.Entity != event.EntityStep || o.State != event.StateWaiting || s.run.State().Open(o.Ref) != o {
			continue
		}
		if s.run.Ended() || s.run.Err() != nil {
			return
		}
		op := s.run.Op(o.Ref)
		if op == nil {
			continue
		}
		late := &TimeoutError{flow.PlanOf(op).Timeout}
		out := Failed(fmt.Errorf("%w: it was not finished from outside", late), event.CodeTimeout)
		s.settle(op, o.Attempt, &out)
	}
}
