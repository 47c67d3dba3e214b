package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// EventFilter selects events of a log. The zero value selects all.
type EventFilter struct {
	From  uint64   `json:"from,omitempty"`  // number of the first event, which may be in the future; 0 means 1
	Types []string `json:"types,omitempty"` // any of these, such as step_completed
	// Name selects the events of operations with this name, such as a step or a topic.
	Name string `json:"name,omitempty"`
	// Key selects the events of operations with this key or a key below it: fulfil/go#2 is a branch
	// with all operations in it.
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
		return nil, &InputError{What: fmt.Sprintf("%q is no id of an entity", f.Entity), Fix: "take it from the entities of the run, as step_ and 26 characters"}
	}
	return all, nil
}

// Follow returns an iterator over the events of a run that the filter selects. It waits for further
// events until the run has ended. During an outage of the store it retries.
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

// follow is [Service.Follow] without the check of the principal's rights.
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

// about decides which events belong to the operations that a filter selects. An event may refer to
// its operation only by Ref. Then the first event of the operation decides, which is read once if
// it was not among the preceding events.
type about struct {
	h     *workflow.Handle
	run   workflow.RunID
	f     *EventFilter
	known map[uint64]bool // by Ref
}

// means reports whether an event is selected.
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

// itself reports whether an event is selected by its own fields.
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

// News is an update of a topic of a live connection. Exactly one field besides Topic is set.
type News struct {
	Topic string `json:"topic"`           // as requested
	Event *Event `json:"event,omitempty"` // of a run
	Lag   *Lag   `json:"lag,omitempty"`   // of a run whose log cannot be continued at the requested event
	// Page is the present state of a list. It is sent first and after each change; intermediate
	// states are omitted.
	Page *RunPage `json:"page,omitempty"`
	// Problem is the reason why a run has no further updates, or why a list could not be read.
	// Lists are read again.
	Problem *Problem `json:"problem,omitempty"`
	Ended   bool     `json:"ended,omitempty"` // the run has ended: no further updates follow
}
