package runloop

import (
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
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
		s.act(Action{Op: Read, Claim: s.claim})
	case mine:
		c := s.newCommit(0)
		c.Req.Exempt = store.ExemptOff
		s.send(c)
	}
}

// proceed does the work that does not require a commit.
func (s *State) proceed() {
	s.resume()
	if len(s.inbox.pending) > 0 {
		s.block(s.applyPending())
	}
	if s.run != nil {
		s.move()
	}
	if s.inbox.wanted && !s.inbox.loading && len(s.inbox.pending) == 0 && s.blocked == nil {
		s.reread()
		s.act(Action{Op: Read, Inbox: true, Claim: s.claim})
	}
}

// move fires timers, starts steps, and adds the new events to the draft.
func (s *State) move() {
	if s.goesOn() {
		s.limitLog(s.size)
	}
	taken := s.inbox.caughtUp || !s.inbox.hasUnread()
	if s.goesOn() && s.leftQueue && taken {
		s.endLeftQueue()
	}
	if s.goesOn() {
		s.noteWait(taken)
		s.begin(taken)
		s.fireDue()
		s.timeOutPending()
		if taken || !s.leftQueue && s.inbox.lets() { // An unread item that was accepted before the claim may pause or cancel the run.
			s.block(s.startSteps())
		}
	}
	for cancels := s.run.Cancels(); len(cancels) > 0; cancels = s.run.Cancels() { // applying a cancel may cause further cancels
		for _, op := range cancels {
			s.cancel(op)
		}
	}
	if err := s.run.Err(); err != nil {
		s.inbox.giveBack()
		s.unstart(s.drafted())
		s.block(err)
		return
	}
	s.draft.add(s.run.Take())
	s.inbox.keep()
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
	case due.IsZero() || s.inbox.hasUnread():
	case s.inbox.seen.Before(due):
		s.inbox.wanted = true
	default:
		s.timeOut(s.inbox.seen)
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

// send sends a commit of the run.
func (s *State) send(c *Commit) {
	s.inflight = c
	s.act(Action{Op: Send, Claim: s.claim, Commit: c})
}

// wakeNext makes the caller post Due at the next due time of the run. Everything that was due at the
// time looked is done.
func (s *State) wakeNext(looked time.Time) {
	switch {
	case s.run == nil:
	case s.leaving(): // the store wakes the run
		s.wakeAt(time.Time{}, looked)
	case s.run.Ended():
		s.wakeAt(time.Time{}, looked)
	default:
		due := s.run.State().Due()
		if leaves := s.releaseDelayed.until; !leaves.IsZero() && (due.IsZero() || leaves.Before(due)) {
			due = leaves
		}
		s.wakeAt(due, looked)
	}
}
