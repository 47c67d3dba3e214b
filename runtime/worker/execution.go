package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// execution is a run in memory: its code, which has come as far as its log and perhaps
// further. It belongs to the executor that has the run loop.
type execution struct {
	*env
	in      *inputs     // of its run loop
	run     *replay.Run // nil: the run is not in memory
	exec    *executor
	blocked error // why the run cannot go on here
}

// apply lets an event come into effect, now.
func (x *execution) apply(e event.Event) {
	e.Time = x.clock.Now()
	x.exec.inUserCode(func() { _ = x.run.Apply(e) }) // Err is looked at in advance
}

// end ends a run without its code. It signs for whoever has asked for that, or with the name of the worker.
func (x *execution) end(e event.Event) {
	e.By = cmp.Or(e.By, x.cfg.Name)
	x.apply(e)
}

// goesOn reports whether the code of the run may still do something here.
func (x *execution) goesOn() bool { return x.blocked == nil && !x.run.Ended() && x.run.Err() == nil }

// close drops the code of the run.
func (x *execution) close() {
	x.blocked = nil
	if run := x.run; run != nil {
		x.run = nil
		x.exec.inUserCode(run.Close)
	}
}

// begin lets the code of a run begin, unless it must not begin yet. What was accepted
// for it before it was claimed is in the log by then; it does not wait for what came since,
// or it would never begin while there is always more.
func (x *execution) begin(taken bool) {
	f := x.run.State()
	if f.Run != event.StatePending || !taken {
		return
	}
	now := x.clock.Now()
	switch {
	case f.Held() && !now.Before(f.Due()):
		x.end(event.Event{Type: event.RunFailed, Failure: notReleased(f)})
	case tooLate(f, now):
		x.end(event.Event{Type: event.RunFailed, Failure: notStarted(f)})
	case f.Held() || f.Paused || f.Spec.StartAt.After(now):
	default:
		x.apply(event.Event{Type: event.RunStarted, Payload: uncounted(f.Seq), By: x.cfg.Name, Build: x.build})
	}
}

// earlyEvents is how many of the events from before the code began count for the length of a log. Code that continues as new at some
// length hands on what it has not received: were all of that counted, it could never receive any, once more waits than that length.
const earlyEvents = 1_000

// uncounted returns the payload of a RunStarted, as the log says how it is counted: a run that a worker of an earlier release has
// started goes on as it did.
func uncounted(events uint64) json.RawMessage {
	if events <= earlyEvents {
		return nil
	}
	return strconv.AppendUint(nil, events-earlyEvents, 10)
}

func notReleased(f *event.LogState) *event.Failure {
	return &event.Failure{Code: event.CodeNotReleased, Message: fmt.Sprintf("it was held, and nobody released it within %v", f.Spec.Hold)}
}

// tooLate reports whether a run must not begin any more. It is asked under the fence of the
// worker that would begin the run, by the clock of the store, so that what has begun was not
// too late for any worker.
func tooLate(f *event.LogState, now time.Time) bool {
	by := f.StartBy()
	return !by.IsZero() && !now.Before(by)
}

func notStarted(f *event.LogState) *event.Failure {
	return &event.Failure{Code: event.CodeNotStarted, Message: fmt.Sprintf("no worker began it within %v", f.Spec.StartWithin)}
}

// outOfTime returns why a run that has not begun fails now without its code; nil: it does not.
func outOfTime(f *event.LogState, now time.Time) *event.Failure {
	switch {
	case f.Held() && !now.Before(f.Due()):
		return notReleased(f)
	case tooLate(f, now):
		return notStarted(f)
	case f.Spec.Timeout > 0 && !now.Before(f.CreatedAt.Add(f.Spec.Timeout)):
		return &event.Failure{Code: event.CodeTimeout, Message: fmt.Sprintf("its time of %v was over before a worker had begun with it", f.Spec.Timeout)}
	}
	return nil
}

// fireDue lets a rerun go on whose time has come, and ends the waits whose time has come, in order of their due times.
func (x *execution) fireDue() {
	now := x.clock.Now()
	if f := x.run.State(); !f.Paused && !f.Delayed.IsZero() && !now.Before(f.Delayed) {
		x.apply(event.Event{Type: event.RunResumed, By: x.cfg.Name})
		if !x.goesOn() {
			return
		}
	}
	for _, o := range x.run.State().DueBy(now) {
		if o.Entity != event.EntityWait || x.run.State().Open(o.Ref) != o {
			continue // a step's next attempt, or ended by one that fired before it
		}
		x.apply(event.Event{Type: event.WaitCompleted, Ref: o.Ref, Outcome: event.OutcomeDue})
		if x.run.Ended() || x.run.Err() != nil {
			return
		}
	}
}

// endCalledOff ends a run that was claimed without its permits, unless it was asked to end:
// it uses more of a limit than that has, and would wait for ever. Code that has begun sees a
// cancel, cleans up, and the run fails.
func (x *execution) endCalledOff() {
	f := x.run.State()
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
		x.end(event.Event{Type: event.RunFailed, Failure: failure})
		return
	}
	x.apply(event.Event{Type: event.CancelRequested, By: x.cfg.Name, Failure: failure})
}

// A log that only grows costs more with each replay, and fills the store in the end. So it
// has a cap. A run that reaches it is asked to end, by an event of its log: its code sees
// a cancel, cleans up and undoes what it did, and the run fails. Only a run that has not
// ended a fifth of the cap later is ended without its code. Both are counted from that
// event, so a run that was longer already, under an older configuration, has the same room.

// limitLog ends a run whose log has become too long.
func (x *execution) limitLog(size logSize) {
	f := x.run.State()
	events, bytes := x.cfg.MaxLogEvents, x.cfg.MaxLogBytes
	switch {
	case f.Limit == nil && (f.Seq >= uint64(events) || size.bytes >= bytes):
		x.apply(event.Event{Type: event.CancelRequested, By: x.cfg.Name, Failure: &event.Failure{
			Code: event.CodeLogLimit, Message: fmt.Sprintf("its log has %d events and %d bytes, and may have %d events and %d bytes "+
				"(MaxLogEvents and MaxLogBytes of worker.Config): let its code continue as new before that, with workflow.ContinueAsNew", f.Seq, size.bytes, events, bytes),
		}})
	case f.Limit != nil && (f.Seq >= f.Limited+uint64(events/5) || size.limited > 0 && size.bytes >= size.limited+bytes/5):
		failure := *f.Limit
		failure.Message += fmt.Sprintf("; it was asked to end at event %d, and had not at event %d: it was ended without its code, and nothing more of it was undone", f.Limited, f.Seq)
		x.end(event.Event{Type: event.RunFailed, Failure: &failure})
	}
}
