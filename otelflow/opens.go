package otelflow

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/runtime/event"
)

// opens contains the entities of a run that have not ended. It is the part of event.LogState that the
// metrics and spans need: following each event with it is several times cheaper.
type opens struct {
	seq uint64
	// A run that executes its steps in sequence has one open entity at a time.
	one open
	// of contains the others by the number of the event that has created them.
	of map[uint64]*open
}

// open is an entity that has not ended.
type open struct {
	ref        uint64
	entity     event.Entity
	state      event.State
	wait       event.WaitKind
	name, key  string
	due, since time.Time
	next       event.RunID
	attempt    int // steps: number of the last attempt

	// The attempt of a step that is running or waits for its outcome; zero if there is none.
	began  time.Time
	number int
	by     string
	span   trace.SpanID // zero until it is needed
}

// find returns the open entity to which the next event of the log refers, and its state after the
// event. o is nil if the event creates its entity or is about the run.
func (s *opens) find(e *event.Event) (o *open, next event.State, err error) {
	if e.Seq != s.seq+1 {
		return nil, 0, fmt.Errorf("event %d (%s) follows event %d: %w", e.Seq, e.Type, s.seq, event.ErrCorrupt)
	}
	switch entity := e.Type.Entity(); {
	case entity == event.EntityRun || entity == event.EntityNone:
		return nil, event.StateNone, nil
	case e.Type.Creates():
		next, err = event.Next(event.StateNone, e.Type)
		return nil, next, err
	default:
		if o = s.get(e.Ref); o == nil || o.entity != entity {
			return nil, 0, fmt.Errorf("event %d (%s) refers to event %d, which is no open %s: %w", e.Seq, e.Type, e.Ref, entity, event.ErrCorrupt)
		}
		next, err = event.Next(o.state, e.Type)
		return o, next, err
	}
}

// apply applies an event for which find has returned o and next.
func (s *opens) apply(e *event.Event, o *open, next event.State) {
	switch s.seq = e.Seq; {
	case next == event.StateNone:
	case o == nil:
		s.add(e, next)
	case next.Terminal():
		s.remove(o)
	default:
		o.follow(e, next)
	}
}

// get returns the open entity that an event has created, or nil.
func (s *opens) get(ref uint64) *open {
	if ref != 0 && s.one.ref == ref {
		return &s.one
	}
	return s.of[ref]
}

// all calls f for each open entity.
func (s *opens) all(f func(*open)) {
	if s.one.ref != 0 {
		f(&s.one)
	}
	for _, o := range s.of {
		f(o)
	}
}

func (s *opens) add(e *event.Event, state event.State) {
	o := &s.one
	if o.ref != 0 {
		o = new(open)
		if s.of == nil {
			s.of = map[uint64]*open{}
		}
		s.of[e.Seq] = o
	}
	*o = open{ref: e.Seq, entity: e.Type.Entity(), state: state, wait: e.Wait, name: e.Name, key: e.Key, due: e.Due, since: e.Time, next: e.Next}
}

func (s *opens) remove(o *open) {
	if o == &s.one {
		o.ref = 0
		return
	}
	delete(s.of, o.ref)
}

func (o *open) follow(e *event.Event, next event.State) {
	o.state, o.due = next, e.Due
	if e.Attempt > 0 || e.Type == event.StepRetrying {
		o.attempt = e.Attempt
	}
	switch e.Type {
	case event.StepStarted:
		o.began, o.number, o.by, o.span = e.Time, e.Attempt, e.By, trace.SpanID{}
	case event.StepRetrying:
		o.began = time.Time{}
	case event.StepHookCreated:
		o.due = time.Time{}
	}
}
