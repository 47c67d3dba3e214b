package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Kept describes the part of a log that a new run takes over.
type Kept struct {
	Cut   uint64 // events with smaller numbers are taken over unchanged
	Until uint64 // outcomes with smaller numbers are taken over
	// Failed is the key of the operation whose failure caused the run to fail. It is empty if the
	// operation is unknown or the run did not fail.
	Failed string
	Next   event.RunID // ID of the new run
	// Seed is the seed of the new run's random numbers after the unchanged part. It is Next for new
	// random numbers, or [Seed] of the log to continue with those of the old run.
	Seed event.RunID
	Now  time.Time
	// Due is when the code of the new run continues. If it is zero, the code continues at once.
	Due time.Time
}

// Keep returns the part of a log that a new run takes over, renumbered, and the number of events
// that are unchanged. These are the events with numbers below Cut. A RunPaused event follows them,
// and the last event ends the pause at Now. The outcomes of the unchanged operations with numbers
// below Until, and the messages received until then, are between these two events. So the code of
// the new run observes them when it has reached the end of the unchanged part.
//
// The events between also contain steps, children and sends that were requested from Cut on and
// completed before Until. They were requested by branches that a failure elsewhere did not stop, or
// they follow an operation that only the old run can have. They are not executed again: if the code
// of the new run requests an operation with the same key, name and contents, it gets their results
// (see [Run.takeOver]). The same holds for recorded values and for sleeps that ended before Cut,
// and for recorded values of branches that had no part in the failure. Such a branch must request
// the same operations as before. Therefore it observes the times and, by Seed, the random numbers
// of the old run.
//
// Attempts of steps without a kept outcome do not count. Such a step begins again, even if its
// attempt is pending for the holder of a hook token, because the token belongs to the old run.
// Children, sends and hooks also belong to the old run. So the unchanged part ends before the first
// of them that has not ended. The contents of streams stay with the old run, and the streams of the
// new run begin empty. But a stream that the old code has closed is closed for the new run.
func Keep(log []event.Event, part Kept) (events []event.Event, kept int) {
	k := keeper{cut: part.Cut, until: max(part.Cut, part.Until), ends: map[uint64]*event.Event{}, keys: map[string]uint64{}, over: map[uint64]bool{}}
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
	k.findOver(log, part)
	for i := range log {
		if e := &log[i]; e.Seq < k.cut {
			events = append(events, *e)
		}
	}
	kept = len(events)
	events = append(events, event.Event{Type: event.RunPaused, Time: events[kept-1].Time, Next: part.Next})
	build, copied := "", ""
	for i := range log {
		e := &log[i]
		build = cmp.Or(e.Build, build)
		switch {
		case e.Seq < k.cut:
			copied = build
		case k.carries(e):
			events = append(events, *e)
			if build != copied { // the event that names the build may not be taken over
				events[len(events)-1].Build, copied = build, build
			}
		}
	}
	events = renumber(events)
	events = append(events, forgetAttempts(events, part.Now)...)
	begins := event.Event{Type: event.RunResumed, Time: part.Now, Next: part.Seed}
	if !part.Due.IsZero() {
		begins.Type, begins.Due = event.RunDelayed, part.Due
	}
	return renumber(append(events, begins)), kept
}

// Seed returns the seed of the random numbers that the code of a run uses at the end of its log.
func Seed(run event.RunID, log []event.Event) event.RunID {
	seed := run
	if s := log[0].Spec; s != nil && s.Seed != "" {
		seed = s.Seed
	}
	for i := range log {
		if e := &log[i]; (e.Type == event.RunResumed || e.Type == event.RunDelayed) && e.Next != "" {
			seed = e.Next
		}
	}
	return seed
}

// forgetAttempts returns the events that make steps begin again whose attempts are in progress at
// the end of events.
func forgetAttempts(events []event.Event, now time.Time) (again []event.Event) {
	var f event.LogState
	for i := range events {
		if f.Apply(&events[i]) != nil {
			return nil // the replay will return the error
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
	ends       map[uint64]*event.Event // events that end operations, by the number of the creating event
	keys       map[string]uint64       // numbers of creating events, by the key of the operation
	over       map[uint64]bool         // whether a creating event or recorded value from the cut on is taken over, by its number
}

// known reports whether the new run takes over the operation with the given creating event.
func (k *keeper) known(ref uint64) bool { return ref != 0 && ref < k.cut || k.over[ref] }

// settled reports whether the new run takes over the outcome of an operation.
func (k *keeper) settled(ref uint64) bool {
	end := k.ends[ref]
	return end != nil && (end.Seq < k.cut || k.carries(end))
}

// carries reports whether an event from the cut on is taken over.
func (k *keeper) carries(e *event.Event) bool {
	if e.Seq >= k.until {
		return false
	}
	switch e.Type {
	case event.MessageReceived:
		return e.Name != event.NoticeTopic // notices belong to the old run
	case event.StepCompleted, event.ChildStarted, event.ChildCompleted, event.SendCompleted, event.SendFailed:
		return k.known(e.Ref)
	case event.StepStarted, event.StepRetrying, event.StepHookCreated, event.StepPending:
		return k.known(e.Ref) && k.settled(e.Ref)
	case event.StepCreated, event.ChildCreated, event.MessageSent, event.ValueRecorded, event.WaitCreated:
		return k.over[e.Seq]
	case event.WaitCompleted: // timers that are not taken over here and have become due are due at once in the new run
		return k.over[e.Ref]
	case event.StreamClosed: // only if a step has closed the stream and has completed
		ref := k.keys[e.Key]
		return e.Attempt > 0 && k.known(ref) && k.settled(ref)
	}
	return false
}

// retreat moves the cut before the first unfinished operation through which other runs or senders
// refer to the old run. It also moves the cut before a part that the old run has itself taken over
// from behind a cut. Such a part is taken over completely or not at all. A move may remove the end
// of another operation. So retreat repeats until the cut does not change.
func (k *keeper) retreat(log []event.Event) {
	for first := uint64(0); first != k.cut; {
		first = k.cut
		pause := uint64(0)
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
			case event.RunPaused, event.RunResumed:
				if pause = 0; e.Type == event.RunPaused && e.Next != "" {
					pause = e.Seq
				}
			}
		}
		if pause != 0 {
			k.cut = min(k.cut, pause)
		}
	}
}

// findOver determines which of the operations requested from the cut on are taken over.
func (k *keeper) findOver(log []event.Event, part Kept) {
	begun := map[string]bool{} // branches that have requested an operation before the cut
	for i := range log {
		e := &log[i]
		switch {
		case e.Seq >= k.until:
			return
		case e.Seq < k.cut:
			if e.Key != "" {
				begun[branchOf(e.Key)] = true
			}
			continue
		}
		switch e.Type {
		case event.StepCreated, event.ChildCreated, event.MessageSent:
			if end := k.ends[e.Ref]; end != nil && end.Seq < k.until && e.Name != event.NoticeTopic {
				k.over[e.Seq] = end.Type == event.StepCompleted || end.Type == event.ChildCompleted || end.Type == event.SendCompleted
			}
		case event.WaitCreated:
			if end := k.ends[e.Ref]; e.Wait == event.WaitSleep && end != nil {
				k.over[e.Seq] = end.Outcome == event.OutcomeDue && end.Seq < part.Cut
			}
		case event.ValueRecorded:
			k.over[e.Seq] = e.Seq < part.Cut || part.Failed != "" && apart(branchOf(e.Key), part.Failed, begun)
		}
	}
}

// branchOf returns the path of the branch that has requested the operation with the given key.
func branchOf(key string) string {
	key, _, _ = strings.Cut(key, "[") // the user may have chosen the part in brackets
	return key[:max(strings.LastIndexByte(key, '/'), 0)]
}

// apart reports whether a branch had no part in the failure of an operation. A branch had a part if
// it has requested the operation or has opened a branch that has a part. It also had a part if it
// was opened after the cut by the branch that has requested the operation. In a branch with a part,
// a recorded value is identified only by its position, so the same key may denote another value in
// the new run.
func apart(branch, failed string, begun map[string]bool) bool {
	return !strings.HasPrefix(failed, branch+"/") && (begun[branch] || !strings.HasPrefix(branch, branchOf(failed)+"/"))
}

// renumber sets the numbers of events to their positions and adapts their references.
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
