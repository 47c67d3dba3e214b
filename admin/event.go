package admin

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Event is one record of a log. JSON omits fields without a value.
type Event struct {
	Seq  uint64    `json:"seq"` // starts at 1 and has no gaps
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	// Ref is the Seq of the first event of the operation that this event belongs to.
	Ref     uint64    `json:"ref,omitempty"`
	Name    string    `json:"name,omitempty"`
	Key     string    `json:"key,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Due     time.Time `json:"due,omitzero"`
	Payload Payload   `json:"payload,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Next    string    `json:"next,omitempty"`
	By      string    `json:"by,omitempty"` // the worker that recorded the event, or the principal that requested it
	Build   string    `json:"build,omitempty"`
	// Attributes are those of the run if the event is its first one, and otherwise those that the
	// sender of an item has set. Without [RolePayloads], only the keys build and principal are
	// present.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Creates reports whether an operation begins with this event. Ends reports whether the run
	// ends with this event.
	Creates bool `json:"creates,omitempty"`
	Ends    bool `json:"ends,omitempty"`
}

// EventPage is a page of a log.
type EventPage struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next,omitempty"` // number of the first event of the next page; 0 if no event follows at present
}

// EventField is a field of events in output for people. The command and the console draw events
// from [EventFields], so that a field of [Event] appears in both after it is added there.
type EventField struct {
	Name  string // name of the JSON field
	Title string
	Kind  ColumnKind
	Value func(e *Event) any // returns a string, an int or a time.Time; zero values are omitted
	// Line returns the text of the field in a one-line description of the event. The function at
	// formats times. If Line is nil, the description omits the field.
	Line func(e *Event, at func(time.Time) string) string
}

// EventFields are the fields of events, except payloads and the fields that every event has, such
// as its time.
var EventFields = []EventField{
	{Name: "name", Title: "Name", Kind: KindCode, Value: func(e *Event) any { return e.Name }, Line: func(e *Event, _ func(time.Time) string) string { return e.Name }},
	{Name: "key", Title: "Key", Kind: KindCode, Value: func(e *Event) any { return e.Key }, Line: func(e *Event, _ func(time.Time) string) string { return e.Key }},
	{Name: "attempt", Title: "Attempt", Kind: KindNumber, Value: func(e *Event) any { return e.Attempt }, Line: func(e *Event, _ func(time.Time) string) string {
		if e.Attempt < 2 {
			return ""
		}
		return fmt.Sprint("attempt ", e.Attempt)
	}},
	{Name: "reason", Title: "Reason", Value: func(e *Event) any { return e.Reason }, Line: func(e *Event, _ func(time.Time) string) string { return e.Reason }},
	{Name: "next", Title: "Run", Kind: KindCode, Value: func(e *Event) any { return e.Next }},
	{Name: "by", Title: "By", Kind: KindCode, Value: func(e *Event) any { return e.By }, Line: func(e *Event, _ func(time.Time) string) string {
		if e.By == "" {
			return ""
		}
		return "by " + e.By
	}},
	{Name: "build", Title: "Build", Kind: KindCode, Value: func(e *Event) any { return e.Build }, Line: func(e *Event, _ func(time.Time) string) string {
		if e.Build == "" {
			return ""
		}
		return "build " + e.Build
	}},
	{Name: "attributes", Title: "Attributes", Kind: KindCode, Value: func(e *Event) any { return tagList(e.Attributes) }},
	{Name: "due", Title: "Due", Kind: KindTime, Value: func(e *Event) any { return e.Due }, Line: func(e *Event, at func(time.Time) string) string {
		if e.Due.IsZero() {
			return ""
		}
		return "due " + at(e.Due)
	}},
}

func eventOf(e *event.Event) Event {
	attributes := e.Attributes
	if e.Spec != nil && e.Type == event.RunCreated {
		attributes = e.Spec.Origin()
	}
	attributes = shownAttributes(attributes)
	return Event{
		Seq: e.Seq, Type: e.Type.String(), Time: e.Time.UTC(), Ref: e.Ref, Name: e.Name, Key: e.Key, Attempt: e.Attempt, Due: utc(e.Due), Payload: event.Shown(e.Payload),
		Failure: e.Failure.Shown(), Reason: event.ShownText(e.Reason), Next: string(e.Next), By: e.By, Build: e.Build, Attributes: attributes, Creates: e.Type.Creates(), Ends: e.Type.Terminal(),
	}
}

// shownAttributes returns attributes whose sealed values are in a form that can be shown.
func shownAttributes(attributes map[string]string) map[string]string {
	shown, cloned := attributes, false
	for key, value := range attributes {
		if event.IsSealed(value) {
			if !cloned {
				shown, cloned = maps.Clone(attributes), true
			}
			shown[key] = event.ShownText(value)
		}
	}
	return shown
}

// EventFilter selects events of a log. The zero value selects all events.
type EventFilter struct {
	From  uint64   `json:"from,omitempty"`  // number of the first event, which may not exist yet; 0 means 1
	Types []string `json:"types,omitempty"` // any of these types, such as step_completed
	// Name selects the events of operations with this name, for example of a step or a topic.
	Name string `json:"name,omitempty"`
	// Key selects the events of operations with this key or a key below it. For example,
	// fulfil/go#2 selects all operations in that branch.
	Key string `json:"key,omitempty"`
	// Entity selects the events of the [Entity] with this ID.
	Entity string `json:"entity,omitempty"`
}

// EventTypes returns the types of events.
func EventTypes() []string {
	var all []string
	for _, t := range event.Types() {
		all = append(all, t.String())
	}
	return all
}

// Check returns an *InputError if the filter is invalid.
func (f *EventFilter) Check() error {
	_, err := f.types()
	return err
}

// types validates the filter and returns its types.
func (f *EventFilter) types() ([]event.Type, error) {
	var all []event.Type
	for _, name := range f.Types {
		t, err := event.ParseType(name)
		if err != nil {
			return nil, checkOneOf("type of events", name, EventTypes())
		}
		all = append(all, t)
	}
	if prefix, rest, _ := strings.Cut(f.Entity, "_"); f.Entity != "" && (len(prefix) != 4 || len(rest) != 26) {
		return nil, &InputError{What: fmt.Sprintf("%q is not the id of an entity", f.Entity), Fix: "use an id from the entities of the run: step_ and 26 characters"}
	}
	return all, nil
}

// Follow returns an iterator over the events of a run that the filter selects. It waits for further
// events until the run has ended. During an outage of the store it retries its reads.
func (s *Service) Follow(ctx context.Context, ref string, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ref, err := s.own(ctx, ref)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for e, err := range s.follow(ctx, ref, f) {
			s.hideEvent(&e)
			if !yield(e, err) {
				return
			}
		}
	}
}

// follow is like [Service.Follow], but does not check the rights of the principal.
func (s *Service) follow(ctx context.Context, ref string, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		types, err := f.types()
		if err != nil {
			yield(Event{}, err)
			return
		}
		h, info, err := s.find(ctx, ref)
		if err != nil {
			yield(Event{}, err)
			return
		}
		about := &about{h: h, run: info.ID, f: &f, known: map[uint64]bool{}}
		for e, err := range h.Events(ctx, workflow.From(max(f.From, 1))) {
			meant := false
			if err == nil {
				meant, err = about.means(ctx, &e)
			}
			switch {
			case err != nil:
				yield(Event{}, fmt.Errorf("follow run %s: %w", ref, err))
				return
			case !meant || len(types) > 0 && !slices.Contains(types, e.Type):
			case !yield(eventOf(&e), nil):
				return
			}
		}
	}
}

// about decides which events belong to the operations that a filter selects. An event may identify
// its operation only by Ref. Then the first event of the operation decides. about reads that event
// once if it has not encountered it.
type about struct {
	h     *workflow.Handle
	run   workflow.RunID
	f     *EventFilter
	known map[uint64]bool // whether an operation is selected, by the Seq of its first event
}

// means reports whether the filter selects an event.
func (a *about) means(ctx context.Context, e *event.Event) (bool, error) {
	if a.f.Name == "" && a.f.Key == "" && a.f.Entity == "" {
		return true, nil
	}
	if e.Type.Creates() || e.Ref == 0 {
		meant := a.itself(e)
		if e.Type.Creates() {
			a.known[e.Seq] = meant
		}
		return meant, nil
	}
	if meant, ok := a.known[e.Ref]; ok {
		return meant, nil
	}
	for begun, err := range a.h.Events(ctx, workflow.From(e.Ref)) {
		if err != nil {
			return false, err
		}
		a.known[e.Ref] = a.itself(&begun)
		break
	}
	return a.known[e.Ref], nil
}

// itself reports whether the fields of the event, without those of its operation, select the event.
func (a *about) itself(e *event.Event) bool {
	f := a.f
	switch {
	case f.Name != "" && e.Name != f.Name:
	case f.Key != "" && e.Key != f.Key && !strings.HasPrefix(e.Key, f.Key+"/"):
	case f.Entity != "" && (!e.Type.Creates() || event.EntityID(a.run, e.Type.Entity(), e.Seq, e.Time) != f.Entity):
	default:
		return true
	}
	return false
}

// News is an update of a topic of a live connection. Exactly one of the fields after Topic is set.
type News struct {
	Topic string `json:"topic"`           // topic as in the request
	Event *Event `json:"event,omitempty"` // new event of a run
	Lag   *Lag   `json:"lag,omitempty"`   // position to continue from, for a run whose log cannot be continued at the requested event
	// Page is the present state of a list. It is sent first and after each change. Intermediate
	// states may be omitted.
	Page *RunPage `json:"page,omitempty"`
	// Problem is the reason why a run has no further updates, or why a list could not be read. A
	// list is read again later.
	Problem *Problem `json:"problem,omitempty"`
	Ended   bool     `json:"ended,omitempty"` // whether the run has ended, so that no further updates follow
}
