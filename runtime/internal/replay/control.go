package replay

import "github.com/flowgen/flowgen/runtime/event"

// control is the state of pauses, debug mode, and the part of a log that was taken over from an
// older run.
type control struct {
	paused bool
	late   []event.Event // events that occurred while the run was paused, in order

	gated   bool        // debug mode: each operation needs a RunStepped event
	allowed int         // number of operations that may begin
	gate    subscribers // notified when operations may begin

	halted *Branch     // branch that has requested an operation after the kept part of the log
	keeps  event.RunID // the new run, while the events between the pause after the kept part and its end are read; otherwise empty
	past   bool        // whether the code continues with the random numbers of an older run and therefore sees its times
}

// steer handles an event that only controls how far the code may go. It reports false for other
// events and for a cancel, which has further effects.
func (r *Run) steer(e *event.Event) bool {
	c := &r.control
	switch e.Type {
	case event.RunPaused:
		c.paused, c.allowed, c.keeps = true, 0, e.Next
	case event.RunDelayed, event.RunResumed:
		r.ownWork(e)
		if c.keeps = ""; r.state.StandsStill() {
			break // the run is not due, even if its pause has ended
		}
		c.gated = false
		r.proceed()
	case event.RunStepped:
		c.gated, c.allowed = true, c.allowed+1
		r.proceed()
	case event.CancelRequested: // a paused run must continue to clean up
		if c.paused {
			r.proceed()
		}
		return false
	case event.RunReleased:
	default:
		return false
	}
	return true
}

// ownWork handles the event after which the run executes its own work instead of repeating an older
// run.
func (r *Run) ownWork(e *event.Event) {
	if e.Next == "" {
		return
	}
	// If a run continues with the random numbers of the older run, it also sees the times of that
	// run. A fork has its own random numbers.
	c := &r.control
	if c.past = c.keeps != "" && e.Next != c.keeps; !c.past {
		r.reseed(e.Next)
	}
}

// proceed ends a pause. It releases the branches that wait at the gate, and applies the events that
// occurred during the pause in order.
func (r *Run) proceed() {
	c := &r.control
	c.paused, c.keeps = false, ""
	c.gate.notifyAll(nil)
	if !c.past {
		r.now = r.latest
	}
	if b := c.halted; b != nil {
		c.halted = nil
		r.resume(b)
	}
	r.drain()
	for len(c.late) > 0 && c.halted == nil && r.err == nil && !r.ended {
		e := c.late[0]
		c.late = c.late[1:]
		if c.past && e.Time.After(r.now) {
			r.now = e.Time
		}
		r.consume(&e)
	}
	if len(c.late) == 0 {
		c.late = nil
	}
	c.past = false
}

// keepForLater keeps an event until the run is resumed. It reports false if the event must be
// applied at once: the run is not paused, or the event ends the run. A cancel ends a pause, but the
// code may reach the end of the kept part before the cancel takes effect.
func (r *Run) keepForLater(e *event.Event) bool {
	if !r.control.paused && r.control.halted == nil || e.Type.Terminal() {
		return false
	}
	r.control.late = append(r.control.late, *e)
	return true
}

// Stepping reports whether the run is in debug mode, in which each operation needs a RunStepped
// event.
func (r *Run) Stepping() bool { return r.control.gated }

// AtGate reports whether a branch waits for a RunStepped event.
func (r *Run) AtGate() bool { return r.control.gate.list.n > 0 }

// halt suspends code that requests more operations than the unchanged part of an older run's log
// contains (see [Keep]). The code continues when the events behind that part were read.
func (r *Run) halt() {
	for r.current != nil && len(r.feed) > 0 && r.feed[0].Type == event.RunPaused && r.feed[0].Next != "" {
		b := r.current
		r.control.halted = b
		b.suspend()
	}
}

// carried is an operation or a recorded value that was taken over from behind the unchanged part of
// an older log. Its events are in the log of this run, between the pause and its end. It has no
// effect until the code requests it.
type carried struct {
	created event.Event
	end     *event.Event // event that ended the operation; nil if it has not taken effect
}

// carry stores a carried operation until the code requests it.
func (r *Run) carry(e *event.Event) {
	c := &carried{created: *e}
	if r.carried == nil {
		r.carried, r.carriedRefs = map[string]*carried{}, map[uint64]*carried{}
	}
	r.carried[e.Key], r.carriedRefs[e.Seq] = c, c
}

// carriedEnd stores the outcome of a carried operation. It reports false if the event does not
// belong to a carried operation.
func (r *Run) carriedEnd(e *event.Event) bool {
	c := r.carriedRefs[e.Ref]
	if c == nil {
		return false
	}
	if e.Type != event.ChildStarted {
		end := *e
		c.end = &end
	}
	return true
}
