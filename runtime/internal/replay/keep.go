package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Keep returns the part of a log that the new run next takes over, numbered anew, and how
// many of its events are as they were. That are those before the event number cut;
// what has come of their operations until the event number until, and the messages
// of that time, come after them, between a pause and the end of that, now. The
// code of the new run then sees them when it has come to where the kept part ends.
//
// Attempts of steps of which no outcome is kept do not count: such a step begins
// again, also one that is left to whoever has the token of its hook, which is the old run's. So do children, sends and hooks: the old run's belong to that, so the part
// that is kept ends in front of the first of them that has not ended. What was
// written to streams stays with the old run: those of the new one begin empty, but
// what the old code has closed is closed for the code of the new run, too.
func Keep(log []event.Event, cut, until uint64, next event.RunID, now time.Time) (events []event.Event, kept int) {
	k := keeper{cut: cut, until: max(cut, until), ends: map[uint64]*event.Event{}, keys: map[string]uint64{}}
	var states event.LogState
	for i := range log {
		e := &log[i]
		if e.Type.Creates() {
			k.keys[e.Key] = e.Seq
		}
		if states.Apply(e) == nil && e.Ref != 0 && states.StateOf(e.Ref).Terminal() {
			k.ends[e.Ref] = e
		}
	}
	k.retreat(log)
	for i := range log {
		if e := &log[i]; e.Seq < k.cut {
			events = append(events, *e)
		}
	}
	kept = len(events)
	events = append(events, event.Event{Type: event.RunPaused, Time: events[kept-1].Time, Next: next})
	for i := range log {
		if e := &log[i]; e.Seq >= k.cut && k.carries(e) {
			events = append(events, *e)
		}
	}
	events = renumber(events)
	events = append(events, forgetAttempts(events, now)...)
	return renumber(append(events, event.Event{Type: event.RunResumed, Time: now, Next: next})), kept
}

// forgetAttempts returns what lets the steps begin again that are under way where
// the events end.
func forgetAttempts(events []event.Event, now time.Time) (again []event.Event) {
	var f event.LogState
	for i := range events {
		if f.Apply(&events[i]) != nil {
			return nil // the replay will say what is wrong
		}
	}
	f.Opens(func(o *event.Open) bool {
		if o.State == event.StateRunning || o.Entity == event.EntityStep && o.State == event.StateWaiting {
			again = append(again, event.Event{Type: event.StepRetrying, Ref: o.Ref, Since: o.Since, Time: now, Due: now})
		}
		return true
	})
	slices.SortFunc(again, func(a, b event.Event) int { return cmp.Compare(a.Ref, b.Ref) })
	return again
}

type keeper struct {
	cut, until uint64
	ends       map[uint64]*event.Event // of operations, by what created them
	keys       map[string]uint64       // what created the operation with a key
}

// settled reports whether the outcome of an operation is kept.
func (k *keeper) settled(ref uint64) bool {
	end := k.ends[ref]
	return end != nil && (end.Seq < k.cut || k.carries(end))
}

// carries reports whether an event after the kept part is copied.
func (k *keeper) carries(e *event.Event) bool {
	if e.Seq >= k.until {
		return false
	}
	switch e.Type {
	case event.MessageReceived:
		return e.Name != event.NoticeTopic // they are about the old run
	case event.StepCompleted, event.ChildStarted, event.ChildCompleted, event.SendCompleted, event.SendFailed:
		return e.Ref < k.cut
	case event.StepStarted, event.StepRetrying, event.StepHookCreated, event.StepPending:
		return e.Ref < k.cut && k.settled(e.Ref)
	case event.StreamClosed: // by a step that has completed
		ref := k.keys[e.Key]
		return e.Attempt > 0 && ref != 0 && ref < k.cut && k.settled(ref)
	}
	return false
}

// retreat moves the cut in front of the first operation that others know the old
// run by and that has not ended. Moving it may undo the end of another one.
func (k *keeper) retreat(log []event.Event) {
	for first := uint64(0); first != k.cut; {
		first = k.cut
		for i := range log {
			e := &log[i]
			if e.Seq >= k.cut {
				break
			}
			switch e.Type {
			case event.ChildCreated, event.MessageSent, event.HookCreated:
				if !k.settled(e.Ref) {
					k.cut = e.Seq
				}
			}
		}
	}
}

// renumber gives events new numbers, and their references with them.
func renumber(events []event.Event) []event.Event {
	events = slices.Clip(events)
	seq := make(map[uint64]uint64, len(events))
	for i := range events {
		e := &events[i]
		if e.Seq != 0 {
			seq[e.Seq] = uint64(i + 1)
		}
		e.Seq = uint64(i + 1)
		if e.Ref != 0 {
			e.Ref = seq[e.Ref]
		}
	}
	return events
}

// halt makes code wait that asks for more than what was kept of an older run's log
// (see [Keep]), until the events that stand behind it were read.
func (r *Run) halt() {
	for r.current != nil && len(r.feed) > 0 && r.boundary(&r.feed[0]) {
		b := r.current
		r.control.halted = b
		b.suspend()
	}
}

// boundary reports whether the event stands behind what was kept.
func (r *Run) boundary(e *event.Event) bool {
	return e.Type == event.RunPaused && e.Next != ""
}

func (r *Run) kept() int {
	if r.state.Spec == nil {
		return 0
	}
	return r.state.Spec.Kept
}

// TimeLimitKey is the key of the wait that limits the whole run, in a workflow of
// this name.
func TimeLimitKey(name string) string { return name + "/timeout#1" }
