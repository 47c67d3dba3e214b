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

// ViewKeeper is a store that keeps views of its list of runs: names for filters, which all who look at the store have in common. They are
// no part of any run, and a worker never looks at them.
type ViewKeeper interface {
	// SaveView keeps a view with the time by the store's clock, or replaces the one of its name. When it returns nil the view is
	// as durable as a commit. The error is an *InvalidError for what View.Check refuses, and ErrViewsFull if there are
	// MaxViews of other names.
	SaveView(ctx context.Context, v View) error
	// DeleteView removes a view; ErrViewNotFound: there is none of that name.
	DeleteView(ctx context.Context, name string) error
	// Views returns all views, by name. One that cannot be read is left out.
	Views(ctx context.Context) ([]View, error)
}

// View is a name for a filter.
type View struct {
	Name string `json:"-"`
	// Filter is a line as people type it, so that its times can be relative. A store does not read it.
	Filter string    `json:"f"`
	By     string    `json:"b,omitempty"` // who has saved it; empty: it is not known. Kept up to MaxJournalText bytes
	At     time.Time `json:"t"`           // when, to the millisecond
}

// The limits of views.
const (
	MaxViews      = 100
	MaxViewName   = 40      // in characters
	MaxViewFilter = 1 << 10 // in bytes
)

// Check returns an *InvalidError for a name or a filter that is empty, too long, begins or ends with a space, or holds control characters.
func (v *View) Check() error {
	if n := utf8.RuneCountInString(v.Name); n > MaxViewName {
		return &InvalidError{What: "name of a view", Value: string([]rune(v.Name)[:MaxViewName]), Reason: fmt.Sprintf("… has %d characters, the limit is %d", n, MaxViewName)}
	}
	if err := checkLine("name of a view", v.Name, utf8.UTFMax*MaxViewName); err != nil {
		return err
	}
	return checkLine("filter of a view", v.Filter, MaxViewFilter)
}

// checkLine refuses what does not stand on one line as it is.
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

// Pack returns what stores keep of a view under its name, with the time at which it is saved.
func (v *View) Pack(now time.Time) ([]byte, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	kept := *v
	kept.By, kept.At = KeptText(v.By, MaxJournalText), now.UTC().Truncate(time.Millisecond)
	return json.Marshal(&kept)
}

// UnpackView returns the view that was kept under a name, or an error if it is none that was packed.
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

// UnpackViews returns those of the views that are kept which can be read, by name.
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
