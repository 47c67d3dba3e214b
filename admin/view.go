package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Viewing is the part of a [Service] that is about shared views: names for filters of the list of runs, which all who look at the store have.
type Viewing interface {
	// Views returns all of them, by name: at most 100.
	Views(ctx context.Context) (ViewList, error)
	// SaveView keeps a filter under a name, or replaces what that name stands for. When it returns nil the view is durable.
	SaveView(ctx context.Context, name string, v NewView) (ViewActed, error)
	// DeleteView removes a view. One that is not there is not found.
	DeleteView(ctx context.Context, name string, why Because) (ViewActed, error)
}

// View is a name for a filter.
type View struct {
	Name   string    `json:"name"`
	Filter string    `json:"filter"`       // as it is typed: see [ParseFilter]
	By     string    `json:"by,omitempty"` // who has saved it
	At     time.Time `json:"at"`           // when
}

// ViewList has all views, by name.
type ViewList struct {
	Views []View `json:"views"`
}

// NewView says what a view stands for.
type NewView struct {
	// Filter is a line for [ParseFilter], of up to 1,024 bytes. Its times may be relative, as since:24h: then they are so whenever somebody looks.
	Filter string `json:"filter"`
	Reason string `json:"reason,omitempty"` // kept in the journal; refused where there is no journal
}

// ViewActed says that a view was saved or deleted.
type ViewActed struct {
	Name string `json:"name"`
	Verb string `json:"verb"` // save or delete
}

// MaxViewName bounds the name of a view, in characters.
const MaxViewName = store.MaxViewName

const verbSave = "save"

// check returns an *InputError if there can be no such view.
func (n *NewView) check(name string) error {
	v := store.View{Name: name, Filter: n.Filter}
	if err := v.Check(); err != nil {
		return &InputError{What: err.Error(), Fix: fmt.Sprintf("give a name of up to %d characters and a filter of up to %d bytes, each on one line", store.MaxViewName, store.MaxViewFilter)}
	}
	if name == "/" { // which no path of the API can say
		return &InputError{What: "a view cannot be called /", Fix: "give it another name"}
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

// Views is part of Service.
func (d *Direct) Views(ctx context.Context) (ViewList, error) {
	kept, err := d.client.Views(ctx)
	if err != nil {
		return ViewList{}, err
	}
	list := ViewList{Views: make([]View, len(kept))}
	for i, v := range kept {
		list.Views[i] = View{Name: v.Name, Filter: v.Filter, By: v.By, At: utc(v.At)}
	}
	return list, nil
}

// SaveView is part of Service.
func (d *Direct) SaveView(ctx context.Context, name string, v NewView) (ViewActed, error) {
	if err := v.check(name); err != nil {
		return ViewActed{}, err
	}
	return ViewActed{Name: name, Verb: verbSave}, d.client.SaveView(ctx, name, v.Filter)
}

// DeleteView is part of Service.
func (d *Direct) DeleteView(ctx context.Context, name string, why Because) (ViewActed, error) {
	if name == "" {
		return ViewActed{}, &InputError{What: "the name of the view is empty", Fix: "say which view: flowctl views lists those that there are"}
	}
	if err := checkReason(verbDelete, why.Reason, false); err != nil {
		return ViewActed{}, err
	}
	return ViewActed{Name: name, Verb: verbDelete}, d.client.DeleteView(ctx, name)
}
