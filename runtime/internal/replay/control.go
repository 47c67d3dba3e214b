package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// control is how far the code of a run may go by itself.
type control struct {
	paused bool
	late   []event.Event // what happened while the run is paused, in order

	gated   bool     // each operation needs a RunStepped
	allowed int      // operations that may be done
	gate    notifier // tells the branches that want to do one

	halted *Branch     // asked for something where the kept part of its log ends
	keeps  event.RunID // between the pause behind the kept part of a log and its end: the run that has taken it over; else empty
	past   bool        // the code sees, or will see once it goes on, the times of an older run, whose random numbers it goes on with
}

// steer takes an event that says how far the code may go, and reports whether the
// event is one of these and nothing more.
func (r *Run) steer(e *event.Event) bool {
	c := &r.control
	switch e.Type {
	case event.RunPaused:
		c.paused, c.allowed, c.keeps = true, 0, e.Next
	case event.RunDelayed, event.RunResumed:
		r.ownWork(e)
		if c.keeps = ""; r.state.StandsStill() {
			break // its time has not come, also if a pause is over
		}
		c.gated = false
		r.proceed()
	case event.RunStepped:
		c.gated, c.allowed = true, c.allowed+1
		r.proceed()
	case event.CancelRequested: // a run that ends must clean up
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

// ownWork takes the event that ends what the run has taken over of an older one.
func (r *Run) ownWork(e *event.Event) {
	if e.Next == "" {
		return
	}
	// A run that goes on with the random numbers of the older one sees the times of that. A fork has
	// numbers of its own.
	c := &r.control
	if c.past = c.keeps != "" && e.Next != c.keeps; !c.past {
		r.reseed(e.Next)
	}
}

// proceed lets come into effect, in order, what happened while the run was paused,
// and lets those pass that wait at the gate.
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

// keepForLater keeps an event for when the run is resumed. That a run was ended
// from outside is not kept.
func (r *Run) keepForLater(e *event.Event) bool {
	if !r.control.paused || e.Type.Terminal() {
		return false
	}
	r.control.late = append(r.control.late, *e)
	return true
}

// consume lets an event come into effect for the code.
func (r *Run) consume(e *event.Event) {
	if !r.control.past {
		r.now = r.latest
	}
	if !r.dispatch(e) {
		r.err = fmt.Errorf("replay run %s: event %d (%s, key %q, of event %d) is consumed by nothing in this release", r.id, e.Seq, e.Type, e.Key, e.Ref)
	}
	r.drain()
}

// Gate is the first thing that a durable operation of the code under a scope does which counts
// as one: in debug mode it waits there for a RunStepped, which lets one operation
// pass. What is true before it may not be true after it.
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

// AtGate reports whether some of the code waits for a RunStepped.
func (r *Run) AtGate() bool { return r.control.gate.subs.list.n > 0 }

// notifier wakes all its subscribers, in the order in which they came.
type notifier struct{ subs subscribers }

func (l *notifier) subscribe(s *subscription) { l.subs.subscribe(s) }

func (l *notifier) tell() {
	for told := true; told; {
		_, told = l.subs.tell(nil)
	}
}
