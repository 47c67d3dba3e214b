package runloop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// advance does all work that is possible at this time: it fires timers, starts steps, and commits
// new events.
func (s *State) advance() {
	looked := s.moment.Now // user code may change the moment, but what becomes due meanwhile is not handled
	if s.phase == phaseWaiting {
		s.awaitTurn()
	}
	if s.phase != phaseLive {
		return
	}
	if !s.leaving() {
		s.proceed()
	}
	// Without a live lease the run commits nothing new. A run that must leave may commit, because
	// the fence rejects the commit if the claim is lost.
	if s.inflight == nil && (s.moment.Alive || s.moment.Stage >= Stopping) {
		s.commitNext()
	}
	if s.phase == phaseLive {
		s.wakeNext(looked)
	}
}

// awaitTurn begins the code of a quarantined run after the store has recorded whether a death of the
// worker counts for the run.
func (s *State) awaitTurn() {
	if s.inflight != nil || !s.moment.Alive {
		return
	}
	switch mine, begins := s.takeTurn(); {
	case begins:
		s.phase = phaseLoading
		s.readLog()
	case mine:
		c := s.newCommit(0)
		c.Req.Exempt = store.ExemptOff
		s.send(c)
	}
}

// proceed does the work that does not require a commit.
func (s *State) proceed() {
	s.resume()
	if len(s.pending) > 0 {
		s.block(s.applyPending())
	}
	if s.run != nil {
		s.move()
	}
	if s.mustRead && !s.reading && len(s.pending) == 0 && s.blocked == nil && !s.consumesUnseen() {
		s.reread()
		s.act(Action{Op: Read, Inbox: true, Claim: s.claim})
	}
}

// move fires timers, starts steps, and adds the new events to the draft.
func (s *State) move() {
	if s.goesOn() {
		s.limitLog()
	}
	taken := s.caughtUp || !s.hasUnread()
	if s.goesOn() && s.leftQueue && taken {
		s.endLeftQueue()
	}
	if s.goesOn() {
		s.noteWait(taken)
		s.begin(taken)
		s.fireDue()
		s.timeOutPending()
		if taken || !s.leftQueue && s.inboxLets() { // An unread item that was accepted before the claim may pause or cancel the run.
			s.block(s.startSteps())
		}
	}
	for cancels := s.run.Cancels(); len(cancels) > 0; cancels = s.run.Cancels() { // applying a cancel may cause further cancels
		for _, op := range cancels {
			s.cancel(op)
		}
	}
	if err := s.run.Err(); err != nil {
		s.giveBackItems()
		s.unstart(s.drafted())
		s.block(err)
		return
	}
	s.addEvents()
	s.coverTaken()
	if s.run.Ended() {
		s.blocked = nil // an operation in flight has ended the run
	}
	s.release(s.seq)
}

// timeOutPending times out attempts that are finished by outside callers. An item accepted before
// the timeout must take precedence, so the inbox is read again first.
func (s *State) timeOutPending() {
	due := s.overdue()
	switch {
	case due.IsZero() || s.hasUnread():
	case s.readUntil.Before(due):
		s.mustRead = true
	default:
		s.timeOut(s.readUntil)
	}
}

// noteWait records in the log that the run has waited for permits. If the run keeps its permits
// until its end, its only wait was before it began.
func (s *State) noteWait(taken bool) {
	if s.waited.IsZero() || !taken {
		return
	}
	if f := s.run.State(); f.Run == event.StatePending || !f.Spec.Whole {
		s.apply(event.Event{Type: event.ResourceWait, Uses: f.Spec.Uses, From: s.waited})
	}
	s.waited = time.Time{}
}

// commitNext sends the next commit. It creates the run if the run does not exist, and gives the run
// back if the run has nothing to do on this worker.
func (s *State) commitNext() {
	c, err := s.nextCommit()
	switch {
	case err == nil && c != nil:
		s.send(c)
	case err == nil:
	default:
		// An event of the engine cannot be encoded. This is a defect of the engine and not a state
		// of the run. Nothing was written.
		s.log(slog.LevelError, "encode commit failed", "run", s.id, "error", err)
		if s.isNew {
			s.lose(nil)
		} else {
			s.lose(&s.fence)
		}
	}
}

func (s *State) send(c *Commit) {
	s.inflight = c
	s.consumes(c)
	s.act(Action{Op: Send, Claim: s.claim, Commit: c})
}

// wakeNext makes the caller post Due at the next due time of the run. Everything that was due at the
// time looked is done.
func (s *State) wakeNext(looked time.Time) {
	switch {
	case s.run == nil:
	case s.leaving() || s.run.Ended(): // the store wakes a run that leaves
		s.wakeAt(time.Time{}, looked)
	default:
		due := s.run.State().Due()
		if leaves := s.releaseDelayed.until; !leaves.IsZero() && (due.IsZero() || leaves.Before(due)) {
			due = leaves
		}
		s.wakeAt(due, looked)
	}
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
	switch late := tooLate(f, now); {
	case late != nil:
		s.end(event.Event{Type: event.RunFailed, Failure: late})
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

// tooLate returns the failure of a run that was not released or not begun in time. It returns nil
// if there is time left. The worker that would begin the run evaluates the start deadline under its
// fence and by the store's clock. So if one worker has begun the run, no worker fails it for being
// late.
func tooLate(f *event.LogState, now time.Time) *event.Failure {
	switch by := f.StartBy(); {
	case f.Held() && !now.Before(f.Due()):
		return &event.Failure{Code: event.CodeNotReleased, Message: fmt.Sprintf("it was held, and not released within %v", f.Spec.Hold)}
	case !by.IsZero() && !now.Before(by):
		return &event.Failure{Code: event.CodeNotStarted, Message: fmt.Sprintf("no worker began it within %v", f.Spec.StartWithin)}
	}
	return nil
}

// OutOfTime returns the failure of a run that must fail before its code begins, because a deadline
// has passed. It returns nil if no deadline has passed.
func OutOfTime(f *event.LogState, now time.Time) *event.Failure {
	if late := tooLate(f, now); late != nil {
		return late
	}
	if f.Spec.Timeout > 0 && !now.Before(f.CreatedAt.Add(f.Spec.Timeout)) {
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
func (s *State) limitLog() {
	f := s.run.State()
	events, bytes := s.MaxLogEvents, s.MaxLogBytes
	switch {
	case f.Limit == nil && (f.Seq >= uint64(events) || s.logBytes >= bytes):
		s.apply(event.Event{Type: event.CancelRequested, By: s.Worker, Failure: &event.Failure{
			Code: event.CodeLogLimit, Message: fmt.Sprintf("its log has %d events and %d bytes, the limit is %d events and %d bytes "+
				"(MaxLogEvents and MaxLogBytes of worker.Config): let its code continue as new before that, with workflow.ContinueAsNew", f.Seq, s.logBytes, events, bytes),
		}})
	case f.Limit != nil && (f.Seq >= f.Limited+uint64(events/5) || s.limited > 0 && s.logBytes >= s.limited+bytes/5):
		failure := *f.Limit
		failure.Message += fmt.Sprintf("; its cancellation was requested at event %d, and it had not ended at event %d: it was ended without its code, and no further compensations were executed", f.Limited, f.Seq)
		s.end(event.Event{Type: event.RunFailed, Failure: &failure})
	}
}
