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
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// execution is a run in memory. Its code has reached the end of the durable log or is ahead of it.
// Only the executor that handles the run loop may use an execution.
type execution struct {
	*env
	in      *inputs     // inputs of the run loop
	run     *replay.Run // nil if the run is not in memory
	exec    *executor
	blocked error // why the run cannot continue on this worker; nil if it can
}

// apply applies an event to the run at the current time.
func (x *execution) apply(e event.Event) {
	e.Time = x.clock.Now()
	x.exec.inUserCode(func() { _ = x.run.Apply(e) }) // The caller checks Err.
}

// end ends a run without executing its code. The event names the caller that requested the end, or
// else the worker.
func (x *execution) end(e event.Event) {
	e.By = cmp.Or(e.By, x.cfg.Name)
	x.apply(e)
}

// goesOn reports whether the code of the run may still make progress on this worker.
func (x *execution) goesOn() bool { return x.blocked == nil && !x.run.Ended() && x.run.Err() == nil }

// close closes the code of the run.
func (x *execution) close() {
	x.blocked = nil
	if run := x.run; run != nil {
		x.run = nil
		x.exec.inUserCode(run.Close)
	}
}

// begin starts the code of a run that may begin. The parameter taken reports whether all items
// accepted before the claim are in the log. begin does not wait for later items, because a constant
// supply of them would keep the run from ever beginning.
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

// outOfTime returns the failure of a run that must fail before its code begins, because a deadline
// has passed. It returns nil if no deadline has passed.
func outOfTime(f *event.LogState, now time.Time) *event.Failure {
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
			continue // the operation is the next attempt of a step, or a wait that an earlier completion has ended
		}
		x.apply(event.Event{Type: event.WaitCompleted, Ref: o.Ref, Outcome: event.OutcomeDue})
		if x.run.Ended() || x.run.Err() != nil {
			return
		}
	}
}

// endLeftQueue ends a run that was claimed without its permits, unless a cancel was requested. Such
// a run uses more of a limit than the limit allows and would wait forever. If its code has begun,
// the code receives a cancel and cleans up, and then the run fails.
func (x *execution) endLeftQueue() {
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

// A growing log makes each replay more expensive and finally fills the store. So the length of a
// log has a bound. When a log reaches the bound, the worker records a cancel in the log: the code
// cleans up and compensates, and the run fails. If the run has not ended after another fifth of the
// bound, the worker ends it without its code. The fifth is counted from the cancel event, so a run
// whose log exceeded a lowered bound has the same allowance.

// limitLog ends a run whose log has reached its bound.
func (x *execution) limitLog(size logSize) {
	f := x.run.State()
	events, bytes := x.cfg.MaxLogEvents, x.cfg.MaxLogBytes
	switch {
	case f.Limit == nil && (f.Seq >= uint64(events) || size.bytes >= bytes):
		x.apply(event.Event{Type: event.CancelRequested, By: x.cfg.Name, Failure: &event.Failure{
			Code: event.CodeLogLimit, Message: fmt.Sprintf("its log has %d events and %d bytes, the limit is %d events and %d bytes "+
				"(MaxLogEvents and MaxLogBytes of worker.Config): let its code continue as new before that, with workflow.ContinueAsNew", f.Seq, size.bytes, events, bytes),
		}})
	case f.Limit != nil && (f.Seq >= f.Limited+uint64(events/5) || size.limited > 0 && size.bytes >= size.limited+bytes/5):
		failure := *f.Limit
		failure.Message += fmt.Sprintf("; its cancellation was requested at event %d, and it had not ended at event %d: it was ended without its code, and no further compensations were executed", f.Limited, f.Seq)
		x.end(event.Event{Type: event.RunFailed, Failure: &failure})
	}
}

// heldClaim is the claim under which the worker owns the run.
type heldClaim struct {
	route      store.Route
	workflowID string
	partition  int
	lease      *lease.Lease    // lease of the partition
	session    store.SessionID // session under which the run was claimed or created
	fence      store.Fence
	recoveries int
	group      string    // failure group that the store has recorded for the run; empty if there is none
	leftQueue  bool      // whether the run was claimed without permits, only to end it
	attempted  bool      // whether an attempt was begun under this claim
	waited     time.Time // when the run began to wait for its permits; zero if it did not wait, or if the wait is in the log
	since      time.Time // when the run was claimed
	claimSeq   uint64    // sequence number of the claim, compared when inputOwned is handled
	releaseDelayed
}

// alive reports whether this worker is certain to own the run.
func (c *heldClaim) alive() bool { return c.lease.Alive(c.session) }

// logEnd is the end of the durable log, as confirmed to the worker.
type logEnd struct {
	n     uint64 // number of frames
	seq   uint64
	last  event.CommitID
	size  logSize
	bytes int // size of the log at the claim; 0 if the store does not report it
}

// logSize is the size of a log in bytes.
type logSize struct {
	bytes   int
	limited int // the size at which the log reached its bound; 0 if it did not
}

// add adds a frame to the size.
func (s *logSize) add(frame int, events []event.Event) {
	s.bytes += frame
	for i := range events {
		if e := &events[i]; e.Type == event.CancelRequested && e.Failure != nil && s.limited == 0 {
			s.limited = s.bytes
		}
	}
}

// decode decodes the frames of a log and checks that they end where the claim reports.
func (l *logEnd) decode(run event.RunID, frames [][]byte) ([]event.Event, error) {
	var events []event.Event
	var prev event.CommitID
	for i, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, fmt.Errorf("frame %d of the log of run %s: %w", i+1, run, err)
		}
		if f.Prev != prev {
			return nil, fmt.Errorf("frame %d of the log of run %s does not continue the frame before it: %w", i+1, run, event.ErrCorrupt)
		}
		prev = f.CommitID
		events = append(events, f.Events...)
		l.size.add(len(b), f.Events)
	}
	if last := uint64(len(events)); uint64(len(frames)) != l.n || last != l.seq || prev != l.last {
		return nil, fmt.Errorf("log of run %s ends with frame %d (%s) and event %d, its metadata has %d (%s) and %d: %w",
			run, len(frames), prev, last, l.n, l.last, l.seq, event.ErrCorrupt)
	}
	return events, nil
}

// itemsIn returns the IDs of the items that are in a log. If a run has applied more items than one
// commit may consume, only the last of several commits consumes them. A worker that continues such
// a log finds the items in the inbox as well and must not apply them again.
func itemsIn(events []event.Event) map[event.ItemID]bool {
	known := map[event.ItemID]bool{}
	for i := range events {
		if item := events[i].Item; item != "" {
			known[item] = true
		}
	}
	return known
}
