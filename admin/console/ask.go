package console

import (
	"net/url"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// ask is a form that says what will happen, and asks for what that takes.
type ask struct {
	Title, Will string
	Final       bool   // it cannot be undone
	Danger      bool   // it ends or removes something
	Action      string // the address that takes the form
	Button      string
	Fields      []field
	Key         string // forms of the same key act once
	Command     string // of flowctl, without what the fields add
	Back        string
	Problem     *admin.Problem
}

// field is something that a form asks for.
type field struct {
	Name, Label, Hint string
	Kind              string // text, number, check, select, json, hidden
	Value             string
	Options           []string
	Required          bool
	Marked            bool   // it must be there, and may be an empty text
	Optional          bool   // it is left out if nothing is typed
	Flag              string // of flowctl; - : an argument without a name; empty: none
	Problem           string
}

// whyField asks for a reason that only the journal has a place for.
func whyField() field { return field{Name: "reason", Label: whyInJournal, Flag: "reason"} }

// because returns the reason that a form has.
func because(form url.Values) string { return strings.TrimSpace(form.Get("reason")) }

// asking returns the view of a form, whose fields have what was typed before.
func (q *request) asking(nav string, a *ask) *view {
	a.Action = q.h.cfg.Prefix + strings.TrimPrefix(q.r.URL.RequestURI(), "/")
	if a.Key == "" {
		a.Key = newKey()
	}
	for i := range a.Fields {
		f := &a.Fields[i]
		if typed, ok := q.r.PostForm[f.Name]; ok {
			f.Value = strings.Join(typed, " ")
		} else if q.r.PostForm != nil && f.Kind == "check" {
			f.Value = ""
		}
	}
	v := &view{name: "ask", Title: a.Title, Nav: nav, Data: a}
	if a.Problem != nil {
		v.Status = a.Problem.Status
	}
	return v
}

// answered does what a form asks for, once for its key. If that fails the form is shown again, with what was typed.
func (q *request) answered(nav string, a *ask, do func(form url.Values) (to string, err error)) (string, *view, error) {
	form := q.r.PostForm
	act := func() (string, *view, error) {
		to, err := do(form)
		return to, nil, err
	}
	to, _, err := q.h.once.do(q.who.Name, form.Get("key"), q.r.URL.RequestURI()+"\x00"+form.Encode(), act)
	if err == nil {
		return to, nil, nil
	}
	a.Problem = admin.ProblemOf(err)
	return "", q.asking(nav, a), nil
}

// notices say what has become of a form, by what stands in the address then.
var notices = map[string]string{
	"schedule-pause": "The schedule is paused: its ticks pass until it is resumed.", "schedule-resume": "The schedule goes on.",
	"schedule-trigger": "A run is started as by a tick of now.", "schedule-backfill": "The ticks of that time are started by a worker.",
	"schedule-delete": "The schedule is deleted. The runs that it has started go on.",
	"pool-set":        "The limit holds as it was set now, for all workers.", "pool-reset": "The limit holds as the code declares it.",
	"pool-pause": "Nothing more begins under this limit until it is resumed.", "pool-resume": "The limit lets work begin again.",
	"bulk-start": "The bulk action is durable: it goes on without this page.", "bulk-stop": "It was asked to stop: it ends with the runs that it has begun with.",
	"view-save":   "The view is saved: all who open the console of this store find it.",
	"view-delete": "The view is deleted, for all.",
	"sent":        "The message is durable: the run takes it when its code asks for it.",
}
