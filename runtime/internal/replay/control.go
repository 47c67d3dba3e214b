package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// control determines how far the code of a run may go by itself.
type control struct {
	paused bool
	late   []event.Event // events that happened while the run is paused, in order

	gated   bool     // each operation needs a RunStepped
	allowed int      // number of operations that are allowed now
	gate    notifier // notifies the branches that wait to begin an operation

	halted *Branch     // branch that has requested an operation beyond the kept part of the log
	keeps  event.RunID // the run that has taken over an older log, between the pause after the kept part and its end; otherwise empty
	past   bool        // the code sees, or will see once it continues, the times of an older run, whose random numbers it continues with
}

// steer handles an event that controls how far the code may go. It reports whether the event is of
// this kind and has no other effect.
func (r *Run) steer(e *event.Event) bool {
	c := &r.control
	switch e.Type {
	case event.RunPaused:
		c.paused, c.allowed, c.keeps = true, 0, e.Next
	case event.RunDelayed, event.RunResumed:
		r.ownWork(e)
		if c.keeps = ""; r.state.StandsStill() {
			break // it is not due yet, even if a pause has ended
		}
		c.gated = false
		r.proceed()
	case event.RunStepped:
		c.gated, c.allowed = true, c.allowed+1
		r.proceed()
	case event.CancelRequested: // a run that is ending must clean up
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

// ownWork handles the event that ends the part taken over from an older run.
func (r *Run) ownWork(e *event.Event) {
	if e.Next == "" {
		return
	}
	// A run that continues with the random numbers of the older run sees its times. A fork has its
	// own numbers.
	c := &r.control
	if c.past = c.keeps != "" && e.Next != c.keeps; !c.past {
		r.reseed(e.Next)
	}
}

// proceed applies, in order, the events that happened while the run was paused, and releases the
// branches that wait at the gate.
func (r *Run) proceed() {
	c := &r.control
	c.paused, c.keeps = false, ""
	c.gate.tell()
	if !c.past {
		r.now = r.latest
	}
	if b := c.halted; b != nil {
		c.halted = nil
		r.resume(b)
	}
	r.drain()
	for len(c.late) > 0 && r.err == nil && !r.ended {
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

// keepForLater keeps an event until the run is resumed. A terminal event, which ends the run from
// outside, is not kept.
func (r *Run) keepForLater(e *event.Event) bool {
	if !r.control.paused || e.Type.Terminal() {
		return false
	}
	r.control.late = append(r.control.late, *e)
	return true
}

// consume applies an event to the code.
func (r *Run) consume(e *event.Event) {
	if !r.control.past {
		r.now = r.latest
	}
	if !r.dispatch(e) {
		r.err = fmt.Errorf("replay run %s: event %d (%s, key %q, of event %d) is consumed by nothing in this release", r.id, e.Seq, e.Type, e.Key, e.Ref)
	}
	r.drain()
}

// Gate is the first call of each durable operation under a scope that counts as a step in debug
// mode. In debug mode it waits for a RunStepped, which admits one operation. Conditions that held
// before it may no longer hold after it.
func (b *Branch) Gate(s *Scope) {
	b.enter()
	b.heed(s)
	c := &b.run.control
	for c.gated && c.allowed == 0 {
		b.wait("a command to do one step", "", &c.gate)
	}
	if c.gated {
		c.allowed--
	}
}

// Stepping reports whether the code needs a RunStepped for each operation.
func (r *Run) Stepping() bool { return r.control.gated }

// AtGate reports whether a branch waits for a RunStepped.
func (r *Run) AtGate() bool { return r.control.gate.subs.list.n > 0 }

// notifier wakes all its subscribers, in the order in which they subscribed.
type notifier struct{ subs subscribers }

func (l *notifier) subscribe(s *subscription) { l.subs.subscribe(s) }

func (l *notifier) tell() {
	for told := true; told; {
		_, told = l.subs.tell(nil)
	}
}
