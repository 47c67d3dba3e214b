package runloop

import "github.com/flowgen/flowgen/runtime/event"

// These constants bound one commit. The store can serve no other request while it writes a commit,
// and each store bounds the length of a frame.
const (
	commitChunks = 1000
	commitBytes  = 4 << 20
	// endingBytes bounds a commit that ends a run, including the cause of the end.
	endingBytes = 64 << 20
)

// portion returns how many of the unsaved events go into one commit. This is all of them, unless
// code requests very many operations or writes very much to streams without waiting. Every prefix
// of a log is a valid log, so events may be split at any event. The only exception is the end of a
// run, which stays together with its cause.
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
	case chunks > commitChunks || bytes+events[cause].Size() > endingBytes: // the end and its cause are too large for one commit
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
			bytes += len(e.Payload) // the payload is also part of an outbox record
		}
		if i > 0 && (chunks > commitChunks || bytes > commitBytes) {
			return i
		}
	}
	return len(events)
}

// causes reports whether an event of this type originates outside of the run's code and may cause
// the run to end.
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
