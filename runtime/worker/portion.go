package worker

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
)

// portionOfStart returns how many of the first events a creation can hold: it does
// nothing for others, and ends nothing.
func (d *draft) portionOfStart() int {
	n := fitting(d.unsaved)
	for i := range d.unsaved[:n] {
		e := &d.unsaved[i]
		sends, err := effects.Sends(d.in.id, d.run.State(), e)
		if published, wrong := publications(d.route.Workflow, d.unsaved[i:i+1]); err != nil || wrong != nil || len(sends)+len(published) > 0 {
			return i
		}
		if e.Type.Terminal() || len(effects.Publications(d.run.State(), e)) > 0 {
			return i
		}
	}
	return n
}

// portion returns how many of the events, which are not saved, go into one commit: all, but
// for code that asks for very much, or writes very much to streams, without waiting for
// anything. Every beginning of a log is a log, so that they may be cut anywhere; but what
// ends a run stays together with what caused it.
func portion(events []event.Event) int {
	n := fitting(events)
	if n == len(events) || !events[len(events)-1].Type.Terminal() {
		return n
	}
	cause, chunks, bytes := len(events)-1, 0, 0
	for cause >= 0 && !causes(events[cause].Type) {
		if bytes += events[cause].Size(); events[cause].Type == event.StreamWritten {
			chunks++
		}
		cause--
	}
	switch {
	case n <= cause, cause < 0:
		return n
	case chunks > commitChunks || bytes+events[cause].Size() > endingBytes: // that goes into no commit
		return n
	case cause == 0:
		return len(events)
	}
	return cause
}

// fitting returns how many events fit.
func fitting(events []event.Event) int {
	chunks, bytes := 0, 0
	for i := range events {
		e := &events[i]
		if e.Type == event.StreamWritten {
			chunks++
		}
		bytes += e.Size()
		if e.Type.Entity() == event.EntityChild || e.Type.Entity() == event.EntitySend {
			bytes += len(e.Payload) // goes into the outbox, too
		}
		if i > 0 && (chunks > commitChunks || bytes > commitBytes) {
			return i
		}
	}
	return len(events)
}

// causes reports whether an event comes from outside of the code of a run, which may end
// because of it.
func causes(t event.Type) bool {
	switch t {
	case event.StepCompleted, event.StepFailed, event.WaitCompleted,
		event.MessageReceived, event.HookReceived, event.AskReceived, event.AskAccepted,
		event.ChildStarted, event.ChildCompleted, event.ChildFailed, event.ChildCanceled,
		event.SendCompleted, event.SendFailed, event.CancelRequested:
		return true
	}
	return false
}
