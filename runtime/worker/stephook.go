package worker

import (
	"context"
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
	"github.com/flowgen/flowgen/runtime/workflow"
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

// opening is a request of an attempt to open its hook, with the result.
type opening struct {
	attempt *attempt
	hook    at.Hook
	done    chan struct{} // closed when the hook is durable or cannot become durable
	token   string
	err     error
}

// end completes the request with err, which is nil if the hook is durable.
func (o *opening) end(err error) {
	o.err = err
	close(o.done)
}

var errFinished = errors.New("the attempt was finished from outside")

// OpenHook opens the hook of the attempt and returns the token. It is called by the attempt's code.
func (a *attempt) OpenHook(ctx context.Context, h at.Hook) (string, error) {
	o, err := a.openingOf(h)
	if err != nil {
		return "", err
	}
	select {
	case <-o.done:
		return o.token, o.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-a.ending().Done(): // ctx may be a context that is not derived from the attempt's
		return "", a.endCause()
	}
}

// openingOf returns the hook of the attempt. At the first call it requests the hook from the run
// loop.
func (a *attempt) openingOf(h at.Hook) (*opening, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return nil, errAttemptEnded
	case a.hook == nil:
		a.hook = &opening{attempt: a, hook: h, done: make(chan struct{})}
		a.by.opens(a.hook)
	case a.hook.hook.Name != h.Name:
		return nil, &workflow.InvalidError{What: "hook", Value: h.Name, Reason: "is opened by an attempt that has opened hook " + a.hook.hook.Name + ": an attempt is finished by one hook"}
	}
	return a.hook, nil
}

// leaves reports whether err, which the code has returned, leaves the outcome to the holder of the
// token.
func (a *attempt) leaves(err error) bool {
	p, ok := errors.AsType[*at.PendingError](err)
	a.mu.Lock()
	defer a.mu.Unlock()
	return ok && a.hook != nil && p.Token != "" && p.Token == a.hook.token
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

// open records the hook that an attempt opens. The code gets the token once the event is durable.
func (s *stepping) open(o *opening) {
	a := o.attempt
	if s.attempts[a.ref] != a || a.finished {
		o.end(errLost)
		return
	}
	op := s.run.Op(a.ref)
	if op == nil || s.run.Ended() || s.run.Err() != nil {
		o.end(errEnded)
		return
	}
	a.mu.Lock()
	o.token = s.code.HookToken(s.in.id, fmt.Sprintf("%s/%d", op.Key, a.number))
	a.mu.Unlock()
	s.apply(event.Event{
		Type: event.StepHookCreated, Ref: a.ref, Attempt: a.number, Name: o.hook.Name, Token: o.token, Payload: o.hook.Shape, Meta: o.hook.Meta, Due: a.deadline,
	})
	s.opened = append(s.opened, o)
}

// leave records that the code of an attempt has returned and has left the outcome to the holder of
// the token.
func (s *stepping) leave(op *replay.Op, a *attempt, closes []string) {
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
func (s *stepping) outcomeMayWait(op *replay.Op, a *attempt, out *outcome) bool {
	a.mu.Lock()
	opened := a.hook != nil && a.hook.token != ""
	a.mu.Unlock()
	return opened && out.failure != nil && out.failure.Code == event.CodeTimeout &&
		!s.clock.Now().Before(a.started.Add(flow.PlanOf(op).Timeout))
}

// cancelStep records that a step was canceled. No code of this worker is executing the step.
func (s *stepping) cancelStep(op *replay.Op, attempt int) {
	s.fail(op, event.Event{Type: event.StepFailed, Ref: op.Ref, Attempt: attempt, Failure: replay.CancelFailure(op.CancelCause())})
}

// cancel ends the attempt of a step whose scope has ended. A running attempt is canceled once the
// reason is durable. A pending attempt ends at once.
func (s *stepping) cancel(op *replay.Op) {
	if o := s.run.State().Open(op.Ref); o != nil && o.State == event.StateWaiting {
		s.cancelStep(op, o.Attempt)
		return
	}
	s.cancels = append(s.cancels, op.Ref)
}

// finish records a payload sent with a hook's token as the outcome of the step's attempt. If the
// code of the attempt is still running, it is canceled, and the next attempt does not begin before
// the code has returned.
func (s *stepping) finish(ref uint64, e *event.Event) {
	op, o := s.run.Op(ref), s.run.State().Open(ref)
	if op == nil {
		return // the outcome is in the log and takes effect when the run is resumed
	}
	closes := op.Closes
	if a := s.attempts[ref]; a != nil {
		a.finished, closes = true, a.closedStreams()
		a.stop(errFinished)
	}
	s.interrupted = slices.DeleteFunc(s.interrupted, func(r uint64) bool { return r == ref })
	out := s.sentOutcome(op, e)
	out.closes, out.item, out.key, out.sender = closes, e.Item, e.Key, e.By
	s.settle(op, o.Attempt, &out)
}

// sentOutcome returns the outcome that a sender has sent. If the payload cannot be decoded as the
// step's result, the attempt fails: the sender has only the shape of the result, which does not
// exclude every wrong payload.
func (s *stepping) sentOutcome(op *replay.Op, e *event.Event) outcome {
	spec := flow.PlanOf(op).Spec
	var out outcome
	s.exec.inUserCode(func() {
		if e.Failure != nil {
			out = judge(sentError(e), spec.Fatal)
			out.failure = e.Failure
			if out.failure.Code != event.CodePayload {
				out.failure.Code = event.CodeError
			}
			return
		}
		if err := checkResult(spec, e.Payload); err != nil {
			out = failed(fmt.Errorf("it was completed from outside with a value that is not a valid result: %w", err), event.CodeError)
			return
		}
		out = outcome{payload: e.Payload}
	})
	return out
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
func (s *stepping) overdue() (since time.Time) {
	for _, o := range s.run.State().DueBy(s.clock.Now()) {
		if o.Entity == event.EntityStep && o.State == event.StateWaiting && o.Due.After(since) {
			since = o.Due
		}
	}
	return since
}

// timeOut ends the pending attempts that had timed out at the given time. The caller has applied
// all items accepted before that time.
func (s *stepping) timeOut(at time.Time) {
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
		late := &attemptTimeoutError{flow.PlanOf(op).Timeout}
		out := failed(fmt.Errorf("%w: it was not finished from outside", late), event.CodeTimeout)
		s.settle(op, o.Attempt, &out)
	}
}
