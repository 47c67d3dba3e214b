package runloop

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// consequence contains the effects of an event outside of the run: outbox records, chunks of the
// streams that the code writes, and other publications. The commit that contains the event writes it.
type consequence struct {
	seq    uint64 // sequence number of the event
	sends  []store.Send
	chunks []store.Publication
	values []store.Publication
}

// fold computes the consequences of the first n unsaved events, each once. It stops before the last
// event of a run, which is complete only when it is committed. The consequences are kept until they
// are durable, so a refused commit repeats them. They are computed for one commit at a time, because
// they contain payloads again.
func (s *State) fold(n int) error {
	for ; s.folded < n && !s.unsaved[s.folded].Type.Terminal(); s.folded++ {
		c, err := s.consequenceOf(&s.unsaved[s.folded])
		if err != nil {
			return err
		}
		if len(c.sends)+len(c.chunks)+len(c.values) > 0 {
			s.folds = append(s.folds, c)
		}
	}
	return nil
}

func (s *State) consequenceOf(e *event.Event) (c consequence, err error) {
	c.seq = e.Seq
	if c.sends, err = effects.Sends(s.id, s.run.State(), e); err != nil {
		return c, err
	}
	if c.chunks, err = s.chunks(e); err != nil {
		return c, err
	}
	c.values = effects.Publications(s.run.State(), e)
	return c, nil
}

// chunks returns the stream operations of an event.
func (s *State) chunks(e *event.Event) ([]store.Publication, error) {
	if e.Type != event.StreamWritten && e.Type != event.StreamClosed {
		return nil, nil
	}
	if s.remote() {
		return nil, nil // such a run writes to the streams of the run for which it executes a step
	}
	if e.Type == event.StreamClosed {
		return []store.Publication{{Stream: effects.UserStream(e.Name), Close: true}}, nil
	}
	batch, err := effects.DecodeBatch(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("publish to stream %s: %w", e.Name, err)
	}
	all := make([]store.Publication, 0, len(batch.Bodies))
	for _, body := range batch.Bodies {
		all = append(all, store.Publication{Stream: effects.UserStream(e.Name), Body: body, Keep: batch.Keep})
	}
	return all, nil
}

// consequences returns the consequences of the first n unsaved events. The slice is valid until the
// next call.
func (s *State) consequences(n int) ([]consequence, error) {
	if err := s.fold(n); err != nil {
		return nil, err
	}
	last := &s.unsaved[n-1]
	m := 0
	for m < len(s.folds) && s.folds[m].seq <= last.Seq {
		m++
	}
	all := append(s.memory.folds[:0], s.folds[:m]...)
	if last.Type.Terminal() {
		c, err := s.consequenceOf(last)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	s.memory.folds = all[:0]
	return all, nil
}

// continuation returns the run as which this run continues. The first frame of the new run contains
// the messages that the code of this run did not receive.
func (s *State) continuation(last *event.Event) (*store.Create, error) {
	state := s.run.State()
	spec := *state.Spec
	spec.ContinuedOf, spec.RerunOf, spec.Seed, spec.Kept, spec.Hold, spec.StartAt, spec.StartWithin = s.id, "", "", 0, 0, time.Time{}, 0
	spec.Collect, spec.Reruns, spec.Build = event.CollectNone, 0, s.Build
	if last.Spec != nil {
		spec.Queue = last.Spec.Queue
	}
	if pinned := spec.Pin != ""; s.Pin != nil {
		spec.Pin = s.Pin(last.Next, &spec, false, pinned || s.Code.Pinned(s.route.Workflow))
	} else {
		spec.Pin = ""
	}
	events := []event.Event{{Type: event.RunCreated, Spec: &spec, Payload: last.Payload}}
	if spec.Debug && !s.run.Stepping() {
		events = append(events, event.Event{Type: event.RunResumed})
	}
	for _, name := range s.run.ClosedStreams() { // streams belong to the whole chain of runs
		events = append(events, event.Event{Type: event.StreamClosed, Name: name})
	}
	s.run.Unread(func(e *event.Event) bool {
		switch e.Type {
		case event.MessageReceived, event.AskReceived, event.AskAccepted: // payloads of hooks are not carried over, because hooks end with the run
			events = append(events, event.Event{Type: e.Type, Name: e.Name, Item: e.Item, Payload: e.Payload, By: e.By, Attributes: e.Attributes})
		}
		return true
	})
	state.NoticesPending(func(item event.ItemID, value string) bool {
		events = append(events, event.CarriedNotice(item, value, s.id))
		return true
	})
	// A run that receives a cancel before it has started ends at once. So the cancel is the last
	// event, and only one cancel is kept.
	var cancel []event.Event
	if state.CancelRequested {
		cancel = append(cancel, event.Event{Type: event.CancelRequested, Reason: state.CancelReason, Item: state.CancelItem})
	}
	for _, e := range s.carried {
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
		Run: last.Next, WorkflowID: spec.WorkflowID, Route: store.Route{Workflow: s.route.Workflow, Queue: spec.RouteQueue()}, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, Retention: spec.Retention, CommitID: s.driver.CommitID(), Seq: uint64(len(events)),
	}
	permits.Take(c, &spec)
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: last.Time, Events: events})
	return c, err
}

// logged returns events as they are stored in the log: without the payloads that are stored in
// streams.
func logged(events []event.Event) []event.Event {
	published := func(e event.Event) bool { return e.Type == event.StreamWritten }
	if !slices.ContainsFunc(events, published) {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		if published(events[i]) {
			events[i].Payload = nil
		}
	}
	return events
}
