package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ViewKeeper is a store that keeps views of its list of runs: named filters that all users of the
// store share. Views belong to no run, and workers do not read them.
type ViewKeeper interface {
	// SaveView stores a view with the time of the store's clock, replacing a view of the same name.
	// When it returns nil, the view is as durable as a commit. It returns an *InvalidError if
	// View.Check refuses the view, and ErrViewsFull if there are MaxViews views with other names.
	SaveView(ctx context.Context, v View) error
	// DeleteView removes a view. It returns ErrViewNotFound if there is none of that name.
	DeleteView(ctx context.Context, name string) error
	// Views returns all views, ordered by name. It leaves out views that cannot be read.
	Views(ctx context.Context) ([]View, error)
}

// View is a named filter.
type View struct {
	Name string `json:"-"`
	// Filter is the filter as the user typed it, so its times may be relative. The store does not
	// interpret it.
	Filter string    `json:"f"`
	By     string    `json:"b,omitempty"` // the user that saved it, cut to MaxJournalText bytes; empty if not known
	At     time.Time `json:"t"`           // when it was saved, to the millisecond
}

// The limits of views.
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

// checkLine returns an *InvalidError for a text that cannot be shown unchanged on one line.
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

// Pack returns the encoding under which stores keep the view, with now as the time at which it is
// saved. It does not contain the name.
func (v *View) Pack(now time.Time) ([]byte, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	kept := *v
	kept.By, kept.At = KeptText(v.By, MaxJournalText), now.UTC().Truncate(time.Millisecond)
	return json.Marshal(&kept)
}

// UnpackView decodes the view that is stored under a name. It returns an error if body was not
// written by Pack.
func UnpackView(name string, body []byte) (View, error) {
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

// UnpackViews returns the stored views that can be read, ordered by name.
func UnpackViews[Body ~string | ~[]byte](kept map[string]Body) []View {
	all := []View{}
	for name, body := range kept {
		if v, err := UnpackView(name, []byte(body)); err == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
