package worker

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
)

// portionOfStart returns how many of the first events a creation can hold. A creation has no
// effects on others and ends nothing.
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

// portion returns how many of the unsaved events go into one commit. This is all of them, unless
// code requests very many operations, or writes very much to streams, without waiting. Every prefix
// of a log is a valid log, so events may be cut anywhere, except that the end of a run stays
// together with its cause.
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
	case chunks > commitChunks || bytes+events[cause].Size() > endingBytes: // no commit can hold that
		return n
	case cause == 0:
		return len(events)
	}
	return cause
}

// fitting returns how many events fit into one commit.
func fitting(events []event.Event) int {
	chunks, bytes := 0, 0
	for i := range events {
		e := &events[i]
		if e.Type == event.StreamWritten {
			chunks++
		}
		bytes += e.Size()
		if e.Type.Entity() == event.EntityChild || e.Type.Entity() == event.EntitySend {
			bytes += len(e.Payload) // it goes into the outbox as well
		}
		if i > 0 && (chunks > commitChunks || bytes > commitBytes) {
			return i
		}
	}
	return len(events)
}

// causes reports whether an event comes from outside of the run's code and may cause the run to
// end.
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
