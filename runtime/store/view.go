package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ViewSpace is the space of the entries for views of the list of runs. A view is a named filter
// that all users of a store share. The key of an entry is the name of the view.
const ViewSpace = "views"

// SaveView stores a view with the current time of the clock of the store. It replaces a view with
// the same name. If it returns nil, the view is as durable as a commit. It returns an *InvalidError
// if View.Check refuses the view, and ErrViewsFull if there are MaxViews other views.
func SaveView(ctx context.Context, s Entries, v View) error {
	packed, err := v.pack(s.Clock().Now())
	if err == nil {
		err = s.WriteEntry(ctx, EntryWrite{Entry: Entry{ViewSpace, v.Name, packed}, Limit: MaxViews})
	}
	if errors.Is(err, ErrEntriesFull) {
		err = ErrViewsFull
	}
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return nil
}

// DeleteView removes a view. It returns ErrViewNotFound if there is no view with this name.
func DeleteView(ctx context.Context, s Entries, name string) error {
	err := s.WriteEntry(ctx, EntryWrite{Entry: Entry{Space: ViewSpace, Key: name}})
	if errors.Is(err, ErrEntryNotFound) {
		err = ErrViewNotFound
	}
	if err != nil {
		return fmt.Errorf("delete view: %w", err)
	}
	return nil
}

// Views returns all views, ordered by name. It omits views that cannot be decoded.
func Views(ctx context.Context, s Entries) ([]View, error) {
	all := []View{}
	err := eachEntry(ctx, s, EntryQuery{Space: ViewSpace, Limit: MaxViews}, func(e *Entry) bool {
		if v, err := unpackView(e.Key, e.Value); err == nil {
			all = append(all, v)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	return all, nil
}

// View is a named filter of the list of runs.
type View struct {
	Name string `json:"-"`
	// Filter is the filter in the form that the user has entered. Its times may be relative. The
	// store does not interpret it.
	Filter string    `json:"f"`
	By     string    `json:"b,omitempty"` // user who saved the view, cut to MaxJournalText bytes; empty if unknown
	At     time.Time `json:"t"`           // time at which the view was saved, in whole milliseconds
}

// Limits of views.
const (
	MaxViews      = 100
	MaxViewName   = 40      // in characters
	MaxViewFilter = 1 << 10 // in bytes
)

// Check returns an *InvalidError if the name or the filter is empty or too long, begins or ends
// with a space, or contains control characters.
func (v *View) Check() error {
	if n := utf8.RuneCountInString(v.Name); n > MaxViewName {
		return &InvalidError{What: "name of a view", Value: string([]rune(v.Name)[:MaxViewName]), Reason: fmt.Sprintf("… has %d characters, the limit is %d", n, MaxViewName)}
	}
	if err := checkLine("name of a view", v.Name, utf8.UTFMax*MaxViewName); err != nil {
		return err
	}
	return checkLine("filter of a view", v.Filter, MaxViewFilter)
}

// checkLine returns an *InvalidError if text cannot be shown unchanged on one line.
func checkLine(what, text string, limit int) error {
	if err := CheckText(what, text, limit); err != nil {
		return err
	}
	switch {
	case text == "":
		return &InvalidError{What: what, Reason: "is empty"}
	case strings.TrimSpace(text) != text:
		return &InvalidError{What: what, Value: text, Reason: "begins or ends with a space"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return &InvalidError{What: what, Value: text, Reason: "holds a control character"}
	}
	return nil
}

// pack encodes the value of the entry of a view that is saved at the time now. The value does not
// contain the name, which is the key.
func (v *View) pack(now time.Time) ([]byte, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	kept := *v
	kept.By, kept.At = KeptText(v.By, MaxJournalText), now.UTC().Truncate(time.Millisecond)
	return json.Marshal(&kept)
}

// unpackView decodes the view with the given name. It returns an error if body is not the result of
// pack.
func unpackView(name string, body []byte) (View, error) {
	var v View
	err := json.Unmarshal(body, &v)
	if v.Name = name; err == nil {
		err = v.Check()
	}
	if err != nil {
		return View{}, fmt.Errorf("read view %.60q: %w", name, err)
	}
	return v, nil
}
