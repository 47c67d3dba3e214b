package worker

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// A log that only grows costs more with each replay, and fills the store in the end. So it
// has a cap. A run that reaches it is asked to end, by an event of its log: its code sees
// a cancel, cleans up and undoes what it did, and the run fails. Only a run that has not
// ended a fifth of the cap later is ended without its code. Both are counted from that
// event, so a run that was longer already, under an older configuration, has the same room.

// longLog is the length, in events, of which a log warns first.
const longLog = 10_000

// limitLog ends a run whose log has become too long.
func (t *runLoop) limitLog() {
	f := t.run.Fold()
	events, bytes := t.cfg.MaxLogEvents, t.cfg.MaxLogBytes
	switch {
	case f.Limit == nil && (f.Seq >= uint64(events) || t.size.bytes >= bytes):
		t.apply(event.Event{Type: event.CancelRequested, By: t.cfg.Name, Failure: &event.Failure{
			Code: event.CodeLogLimit, Message: fmt.Sprintf("its log has %d events and %d bytes, and may have %d events and %d bytes "+
				"(MaxLogEvents and MaxLogBytes of worker.Config): let its code continue as new before that, with workflow.ContinueAsNew", f.Seq, t.size.bytes, events, bytes),
		}})
	case f.Limit != nil && (f.Seq >= f.Limited+uint64(events/5) || t.size.limited > 0 && t.size.bytes >= t.size.limited+bytes/5):
		failure := *f.Limit
		failure.Message += fmt.Sprintf("; it was asked to end at event %d, and had not at event %d: it was ended without its code, and nothing more of it was undone", f.Limited, f.Seq)
		t.end(event.Event{Type: event.RunFailed, Failure: &failure})
	}
}

// warnOfLength says that a log has got long, once at that length and at each doubling.
func (t *runLoop) warnOfLength(before, after uint64) {
	reached := uint64(0)
	for n := uint64(longLog); n <= after; n *= 2 {
		if before < n {
			reached = n
		}
	}
	if reached > 0 {
		t.log.Warn("log of a run is long: continue as new before it reaches its limit", "run", t.id, "workflow", t.route.Workflow,
			"events", after, "bytes", t.size.bytes, "limit", t.cfg.MaxLogEvents)
	}
}
