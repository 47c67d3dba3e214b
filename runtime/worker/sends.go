package worker

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/parcel"
	"github.com/flowgen/flowgen/runtime/store"
)

// sends returns the records for the outbox that follow from events: they are written
// by the commit that holds their cause.
func (t *task) sends(events []event.Event) ([]store.Send, error) {
	var all []store.Send
	for i := range events {
		records, err := parcel.Sends(t.id, t.run.Fold(), &events[i])
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// continuation returns the run that this one continues as. Its first frame holds
// what this run was given and its code has not taken.
func (t *task) continuation(last *event.Event) (*store.Create, error) {
	fold := t.run.Fold()
	spec := *fold.Spec
	spec.ContinuedOf, spec.RerunOf, spec.Seed, spec.Kept, spec.Hold, spec.StartAt = t.id, "", "", 0, 0, time.Time{}
	events := []event.Event{{Type: event.RunCreated, Spec: &spec, Payload: last.Payload}}
	if spec.Debug && !t.run.Stepping() {
		events = append(events, event.Event{Type: event.RunResumed})
	}
	for _, name := range t.run.ClosedStreams() { // they are those of the chain
		events = append(events, event.Event{Type: event.StreamClosed, Name: name})
	}
	t.run.Unread(func(e *event.Event) bool {
		switch e.Type {
		case event.MessageReceived, event.AskReceived, event.AskAccepted: // hooks end with the run
			events = append(events, event.Event{Type: e.Type, Name: e.Name, Item: e.Item, Payload: e.Payload})
		}
		return true
	})
	// A run that is asked to end before it has started ends at once: that comes last,
	// and counts once.
	var cancel []event.Event
	if fold.CancelRequested {
		cancel = append(cancel, event.Event{Type: event.CancelRequested, Reason: fold.CancelReason, Item: fold.CancelItem})
	}
	for _, e := range t.carried {
		if e.Type == event.CancelRequested {
			cancel = append(cancel, e)
		} else {
			events = append(events, e)
		}
	}
	events = append(events, cancel[:min(len(cancel), 1)]...)
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), last.Time
	}
	c := &store.Create{
		Run: last.Next, WorkflowID: spec.WorkflowID, Class: t.class, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, Retention: spec.Retention, CID: event.NewCID(), Seq: uint64(len(events)),
	}
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CID: c.CID, Time: last.Time, Events: events})
	return c, err
}
