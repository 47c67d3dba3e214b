package console

import (
	"net/url"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// journalView is a page of the journal.
type journalView struct {
	Entries                               []admin.JournalEntry
	Principal, Action, Target, Out, Since string // conditions as typed
	Outcomes                              []string
	Partial                               bool
	Older                                 string
	Problem                               *admin.Problem
	Command                               string
}

// outcomeChoices are the outcomes that the form of the journal offers.
var outcomeChoices = []string{admin.OutcomeDone, admin.OutcomeUnknown, admin.CodeForbidden, admin.CodeInput, admin.CodeRefused, admin.CodeNotFound}

func journalPage(q *request) (*view, error) {
	given := func(name string) string { return oneLine(q.query.Get(name)) }
	j := &journalView{Principal: given("principal"), Action: given("action"), Target: given("target"), Out: given("outcome"), Since: given("since"), Outcomes: outcomeChoices}
	v := &view{name: "journal", Title: "Journal", Nav: "journal", Live: true, Data: j}
	f, err := j.filter(q)
	if err == nil {
		var page admin.JournalPage
		page, err = q.service.Journal(q.ctx(), f)
		j.Entries, j.Partial, j.Older = page.Entries, page.Partial, nextPage(q, page.Cursor)
	}
	if p := admin.ProblemOf(err); p != nil {
		if p.Code != admin.CodeInput {
			return nil, err
		}
		j.Problem, v.Status, v.Live = p, p.Status, false
	}
	return v, nil
}

func (j *journalView) filter(q *request) (admin.JournalFilter, error) {
	f := admin.JournalFilter{Target: j.Target, Cursor: q.query.Get("cursor"), Limit: runsPerPage}
	words := []string{"journal"}
	one := func(flag, value string, to *[]string) {
		if value == "" {
			return
		}
		words = append(words, "--"+flag, shell(value))
		if to != nil {
			*to = []string{value}
		}
	}
	one("principal", j.Principal, &f.Principals)
	one("action", j.Action, &f.Actions)
	one("target", j.Target, nil)
	one("outcome", j.Out, &f.Outcomes)
	one("since", j.Since, nil)
	j.Command = q.h.command(words...)
	if j.Since == "" {
		return f, nil
	}
	var err error
	f.Since, err = admin.ParseTime("since", j.Since, q.now)
	return f, err
}

// oneLine trims a text and replaces each sequence of white space with a space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// targetOf returns the URL of the target of an entry. It returns the empty string if the target has
// no page.
func targetOf(prefix string, e *admin.JournalEntry) string {
	name, _ := strings.CutPrefix(e.Target, "schedule:")
	switch {
	case strings.HasPrefix(e.Target, "bulk-"):
		return link(prefix, "bulk", e.Target)
	case e.Run != "":
		return link(prefix, "runs", e.Run)
	case name != e.Target:
		return link(prefix, "schedules", name)
	case strings.HasPrefix(e.Target, "wrun_"):
		return link(prefix, "runs", e.Target)
	case strings.HasPrefix(e.Target, "pool:"):
		return link(prefix, "queues")
	case strings.HasPrefix(e.Target, "id:"):
		return link(prefix, "runs") + "?" + url.Values{"q": {quote(e.Target)}}.Encode()
	}
	return ""
}
