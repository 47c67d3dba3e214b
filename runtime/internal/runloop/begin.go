package runloop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
)

// apply applies an event to the run at the current time.
func (s *State) apply(e event.Event) {
	e.Time = s.moment.Now
	s.enter()
	defer s.leave()
	_ = s.run.Apply(e) // The caller checks Err.
}

// end ends a run without executing its code. The event names the caller that requested the end, or
// else the worker.
func (s *State) end(e event.Event) {
	e.By = cmp.Or(e.By, s.Worker)
	s.apply(e)
}

// goesOn reports whether the code of the run may still make progress on this worker.
func (s *State) goesOn() bool { return s.blocked == nil && !s.run.Ended() && s.run.Err() == nil }

// begin starts the code of a run that may begin. The parameter taken reports whether all items
// accepted before the claim are in the log. begin does not wait for later items, because a constant
// supply of them would keep the run from ever beginning.
func (s *State) begin(taken bool) {
	f := s.run.State()
	if f.Run != event.StatePending || !taken {
		return
	}
	now := s.moment.Now
	switch {
	case f.Held() && !now.Before(f.Due()):
		s.end(event.Event{Type: event.RunFailed, Failure: notReleased(f)})
	case tooLate(f, now):
		s.end(event.Event{Type: event.RunFailed, Failure: notStarted(f)})
	case f.Held() || f.Paused || f.Spec.StartAt.After(now):
	default:
		s.apply(event.Event{Type: event.RunStarted, Payload: uncounted(f.Seq), By: s.Worker, Build: s.Build})
	}
}

// earlyEvents bounds how many of the events before the beginning of the code count toward the
// length of a log. Code that continues as new at some length passes on the messages that it has not
// received. If all of these counted and were more than that length, the code could never receive a
// message.
const earlyEvents = 1_000

// uncounted returns the payload of a RunStarted event, which records how many events do not count
// toward the length of the log. The recorded number remains valid if a later release uses another
// rule.
func uncounted(events uint64) json.RawMessage {
	if events <= earlyEvents {
		return nil
	}
	return strconv.AppendUint(nil, events-earlyEvents, 10)
}

func notReleased(f *event.LogState) *event.Failure {
	return &event.Failure{Code: event.CodeNotReleased, Message: fmt.Sprintf("it was held, and not released within %v", f.Spec.Hold)}
}

// tooLate reports whether the start deadline of a run has passed. The worker that would begin the
// run evaluates the deadline under its fence and by the store's clock. So if one worker has begun
// the run, no worker fails it for being late.
func tooLate(f *event.LogState, now time.Time) bool {
	by := f.StartBy()
	return !by.IsZero() && !now.Before(by)
}

func notStarted(f *event.LogState) *event.Failure {
	return &event.Failure{Code: event.CodeNotStarted, Message: fmt.Sprintf("no worker began it within %v", f.Spec.StartWithin)}
}

// OutOfTime returns the failure of a run that must fail before its code begins, because a deadline
// has passed. It returns nil if no deadline has passed.
func OutOfTime(f *event.LogState, now time.Time) *event.Failure {
	switch {
	case f.Held() && !now.Before(f.Due()):
		return notReleased(f)
	case tooLate(f, now):
		return notStarted(f)
	case f.Spec.Timeout > 0 && !now.Before(f.CreatedAt.Add(f.Spec.Timeout)):
		return &event.Failure{Code: event.CodeTimeout, Message: fmt.Sprintf("its run timeout of %v ended before a worker began it", f.Spec.Timeout)}
	}
	return nil
}

// fireDue resumes a delayed rerun that is due and completes the waits that are due, in the order of
// their due times.
func (s *State) fireDue() {
	now := s.moment.Now
	if f := s.run.State(); !f.Paused && !f.Delayed.IsZero() && !now.Before(f.Delayed) {
		s.apply(event.Event{Type: event.RunResumed, By: s.Worker})
		if !s.goesOn() {
			return
		}
	}
	for _, o := range s.run.State().DueBy(now) {
		if o.Entity != event.EntityWait || s.run.State().Open(o.Ref) != o {
			continue // the operation is the next attempt of a step, or a wait that an earlier completion has ended
		}
		s.apply(event.Event{Type: event.WaitCompleted, Ref: o.Ref, Outcome: event.OutcomeDue})
		if s.run.Ended() || s.run.Err() != nil {
			return
		}
	}
}

// endLeftQueue ends a run that was claimed without its permits, unless a cancel was requested. Such
// a run uses more of a limit than the limit allows and would wait forever. If its code has begun,
// the code receives a cancel and cleans up, and then the run fails.
func (s *State) endLeftQueue() {
	f := s.run.State()
	if f.CancelRequested || f.Limit != nil {
		return
	}
	var uses []string
	for _, u := range permits.Stored(f.Spec.Uses) {
		uses = append(uses, fmt.Sprintf("%d of %s", u.Weight, u.LimitID))
	}
	failure := &event.Failure{Code: event.CodeOverLimit, Message: fmt.Sprintf("it uses %s, and one of these limits allows less at once: "+
		"raise the limit, or use less of it", strings.Join(uses, " and "))}
	if f.Run == event.StatePending {
		s.end(event.Event{Type: event.RunFailed, Failure: failure})
		return
	}
	s.apply(event.Event{Type: event.CancelRequested, By: s.Worker, Failure: failure})
}

// A growing log makes each replay more expensive and finally fills the store. So the length of a
// log has a bound. When a log reaches the bound, the worker records a cancel in the log: the code
// cleans up and compensates, and the run fails. If the run has not ended after another fifth of the
// bound, the worker ends it without its code. The fifth is counted from the cancel event, so a run
// whose log exceeded a lowered bound has the same allowance.

// limitLog ends a run whose log has reached its bound.
func (s *State) limitLog(size logSize) {
	f := s.run.State()
	events, bytes := s.MaxLogEvents, s.MaxLogBytes
	switch {
	case f.Limit == nil && (f.Seq >= uint64(events) || size.bytes >= bytes):
		s.apply(event.Event{Type: event.CancelRequested, By: s.Worker, Failure: &event.Failure{
			Code: event.CodeLogLimit, Message: fmt.Sprintf("its log has %d events and %d bytes, the limit is %d events and %d bytes "+
				"(MaxLogEvents and MaxLogBytes of worker.Config): let its code continue as new before that, with workflow.ContinueAsNew", f.Seq, size.bytes, events, bytes),
		}})
	case f.Limit != nil && (f.Seq >= f.Limited+uint64(events/5) || size.limited > 0 && size.bytes >= size.limited+bytes/5):
		failure := *f.Limit
		failure.Message += fmt.Sprintf("; its cancellation was requested at event %d, and it had not ended at event %d: it was ended without its code, and no further compensations were executed", f.Limited, f.Seq)
		s.end(event.Event{Type: event.RunFailed, Failure: &failure})
	}
}
