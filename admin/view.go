package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// View is a named filter.
type View struct {
	Name   string    `json:"name"`
	Filter string    `json:"filter"`       // filter in the syntax of [ParseFilter]
	By     string    `json:"by,omitempty"` // name of the principal that saved the view
	At     time.Time `json:"at"`           // time at which the view was saved
}

// ViewList contains all views, sorted by name.
type ViewList struct {
	Views []View `json:"views"`
}

// NewView describes a view to save.
type NewView struct {
	// Filter is a line for [ParseFilter] of up to 1,024 bytes. Its times may be relative, such as
	// since:24h. They are evaluated each time the view is used.
	Filter string `json:"filter"`
	Reason string `json:"reason,omitempty"` // recorded in the journal; refused if the service has no journal
}

// ViewActed reports that a view was saved or deleted.
type ViewActed struct {
	Name string `json:"name"`
	Verb string `json:"verb"` // save or delete
}

// MaxViewName is the maximum length of the name of a view in characters.
const MaxViewName = store.MaxViewName

const verbSave = "save"

// check validates a view and its name. Errors are of type *InputError.
func (n *NewView) check(name string) error {
	v := store.View{Name: name, Filter: n.Filter}
	if err := v.Check(); err != nil {
		return &InputError{What: err.Error(), Fix: fmt.Sprintf("give a name of up to %d characters and a filter of up to %d bytes, each on one line", store.MaxViewName, store.MaxViewFilter)}
	}
	if name == "/" { // a name that consists of a slash cannot be part of a path of the API
		return &InputError{What: "a view cannot be named /", Fix: "give it another name"}
	}
	f, err := ParseFilter(n.Filter, time.Now())
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return err
	}
	return checkReason(verbSave, n.Reason, false)
}

// Views returns all shared views, sorted by name. There are at most 100. A principal with an owner
// is refused, because the filters may contain workflows, IDs and tags of other owners.
func (s *Service) Views(ctx context.Context) (ViewList, error) {
	if err := s.all(RoleViewer, "see shared views", ownRuns); err != nil {
		return ViewList{}, err
	}
	kept, err := s.ops.Views(ctx)
	if err != nil {
		return ViewList{}, err
	}
	list := ViewList{Views: make([]View, len(kept))}
	for i, v := range kept {
		list.Views[i] = View{Name: v.Name, Filter: v.Filter, By: v.By, At: utc(v.At)}
	}
	return list, nil
}

// SaveView saves a filter under a name, or replaces the filter of an existing view. When it returns
// nil, the view is durable.
func (s *Service) SaveView(ctx context.Context, name string, v NewView) (ViewActed, error) {
	e := s.entry(JournalEntry{Action: "save-view", Target: "view:" + name, Detail: v.Filter, Reason: v.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (ViewActed, error) {
		v.Reason = left(&e, v.Reason, false)
		return s.saveView(ctx, name, v)
	}, func(ViewActed, *JournalEntry) {})
}

// saveView is like [Service.SaveView], but does not write the journal.
func (s *Service) saveView(ctx context.Context, name string, v NewView) (ViewActed, error) {
	if err := s.all(RoleOperator, "save shared views", ownRuns); err != nil {
		return ViewActed{}, err
	}
	if err := v.check(name); err != nil {
		return ViewActed{}, err
	}
	return ViewActed{Name: name, Verb: verbSave}, s.ops.SaveView(ctx, name, v.Filter)
}

// DeleteView deletes a view. It reports an unknown name as not found.
func (s *Service) DeleteView(ctx context.Context, name string, why Because) (ViewActed, error) {
	e := s.entry(JournalEntry{Action: "delete-view", Target: "view:" + name, Reason: why.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (ViewActed, error) {
		return s.deleteView(ctx, name, Because{left(&e, why.Reason, false)})
	}, func(ViewActed, *JournalEntry) {})
}

// deleteView is like [Service.DeleteView], but does not write the journal.
func (s *Service) deleteView(ctx context.Context, name string, why Because) (ViewActed, error) {
	if err := s.all(RoleOperator, "delete shared views", ownRuns); err != nil {
		return ViewActed{}, err
	}
	if name == "" {
		return ViewActed{}, &InputError{What: "the name of the view is empty", Fix: "name the view: flowctl views lists the existing ones"}
	}
	if err := checkReason(verbDelete, why.Reason, false); err != nil {
		return ViewActed{}, err
	}
	return ViewActed{Name: name, Verb: verbDelete}, s.ops.DeleteView(ctx, name)
}
