package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// verb says to people what an action does.
type verb struct {
	Name  string // on a button
	Will  string // what will happen to a run
	Final bool   // it cannot be undone
	Makes bool   // it makes a new run
}

// verbs are the actions as people see them. Their names are those of flowctl and of the API.
var verbs = map[string]verb{
	"cancel":     {Name: "Cancel", Will: "Its code is asked to end, cleans up and undoes what it has registered for that. It ends as cancelled."},
	"terminate":  {Name: "Terminate", Will: "It ends without its code: nothing is cleaned up or undone. Use it for runs that cannot go on, such as blocked ones.", Final: true},
	"pause":      {Name: "Pause", Will: "It stands still from its next suspension point on. Steps that are under way end first; timers go on."},
	"resume":     {Name: "Resume", Will: "It goes on from where it stands still."},
	"step":       {Name: "Step", Will: "It does one durable operation, and stands still again."},
	"release":    {Name: "Release", Will: "It was started on hold, and begins now."},
	"retry":      {Name: "Retry", Will: "A new run goes on where this one has failed: what is done already is taken over, and not done again.", Makes: true},
	"resume-new": {Name: "Resume new", Will: "A new run goes on where this one was cancelled: what is done already is taken over, and not done again.", Makes: true},
	"restart":    {Name: "Restart", Will: "A new run begins from the start, with the same input. What this one has done is done again.", Makes: true},
	"fork":       {Name: "Fork", Will: "A new run takes over what this one did before the step, and does the step and all after it again.", Makes: true},
	"delete":     {Name: "Delete", Will: "What is stored of it is removed: its log, its messages, its streams.", Final: true},
}

// actView is the form of an action.
type actView struct {
	Verb     string
	Is       verb
	Runs     []actRun
	Fit      int
	Step     string
	Why      string // a reason is asked for
	Key      string
	Command  string
	Back     string
	Outcomes []outcome
}

// actRun is a run in the form of an action.
type actRun struct {
	admin.Run
	Fits    bool
	Problem string
}

// outcome says how an action on one run has ended.
type outcome struct {
	Run, New, Problem, Fix string
}

// maxChosen bounds how many runs a form acts on.
const maxChosen = 100

func actLink(q *request, verb, run string) string {
	return link(q.h.cfg.Prefix, "act", verb) + "?run=" + queryEscape(run)
}

// The questions for a reason, by where it is kept.
const (
	whyInJournal = "Why? It is kept in the journal."
	whyInLog     = "Why? It is kept in the log of the run, and in the journal."
)

func whyAsked(verb string) string {
	if admin.TakesReason(verb) {
		return whyInLog
	}
	return whyInJournal
}

func queryEscape(s string) string { return url.QueryEscape(s) }

// chosen returns the verb and the runs that a form is about.
func chosen(q *request, given url.Values) (string, []string, error) {
	name := q.path("verb")
	runs := slices.Compact(slices.Sorted(slices.Values(given["run"])))
	switch {
	case !contains(admin.Actions(), name):
		return "", nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("there is no action %.40q", name), "use one of "+strings.Join(admin.Actions(), ", "))
	case len(runs) == 0:
		return "", nil, &admin.InputError{What: "no run is chosen", Fix: "choose runs in the list, by their boxes or with the key x"}
	case len(runs) > maxChosen:
		return "", nil, &admin.InputError{What: fmt.Sprintf("%d runs are chosen", len(runs)), Fix: fmt.Sprintf("choose up to %d, or act on all of a filter", maxChosen)}
	}
	return name, runs, nil
}

func actPage(q *request) (*view, error) {
	name, runs, err := chosen(q, q.query)
	if err != nil {
		return nil, err
	}
	a := &actView{Verb: name, Is: verbs[name], Step: q.query.Get("step"), Why: whyAsked(name), Key: newKey(), Back: q.h.cfg.Prefix + "runs"}
	for _, ref := range runs {
		r, err := q.service.Run(q.ctx(), ref)
		one := actRun{Run: r, Fits: err == nil && contains(r.Actions, name)}
		switch {
		case err != nil && len(runs) == 1:
			return nil, err
		case err != nil:
			one.ID, one.Problem = ref, err.Error()
		case !one.Fits:
			one.Problem = fmt.Sprintf("it is %s: %s does not apply, or is not allowed", r.Status, name)
		default:
			a.Fit++
		}
		a.Runs = append(a.Runs, one)
	}
	a.Command = q.h.command(name, strings.Join(runs, " "))
	if a.Step != "" {
		a.Command += " --step " + shell(a.Step)
	}
	if len(runs) == 1 {
		a.Back = link(q.h.cfg.Prefix, "runs", runs[0])
	}
	return &view{name: "act", Title: a.Is.Name, Nav: "runs", Data: a}, nil
}

// act does what a form says.
func act(q *request) (string, *view, error) {
	form := q.r.PostForm
	name, runs, err := chosen(q, form)
	if err != nil {
		return "", nil, err
	}
	do := func() (string, *view, error) { return q.act(name, runs, form) }
	return q.h.once.do(q.who.Name, form.Get("key"), strings.Join(append([]string{name}, runs...), "\x00"), do)
}

func (q *request) act(name string, runs []string, form url.Values) (string, *view, error) {
	a := admin.Action{Verb: name, Step: form.Get("step"), Reason: strings.TrimSpace(form.Get("reason")), Key: form.Get("key")}
	done := &actView{Verb: name, Is: verbs[name], Back: q.h.cfg.Prefix + "runs"}
	refused := 0
	for _, ref := range runs {
		acted, err := q.service.Act(q.ctx(), ref, a)
		o := outcome{Run: ref, New: acted.New}
		if err != nil {
			if len(runs) == 1 {
				return "", nil, err
			}
			refused++
			p := admin.ProblemOf(err)
			o.Problem, o.Fix = p.Detail, p.Fix
		}
		done.Outcomes = append(done.Outcomes, o)
	}
	if len(runs) > 1 {
		v := &view{name: "acted", Title: done.Is.Name, Nav: "runs", Data: done}
		if refused > 0 {
			v.Status = http.StatusMultiStatus
		}
		return "", v, nil
	}
	o := done.Outcomes[0]
	switch {
	case o.New != "":
		return link(q.h.cfg.Prefix, "runs", o.New) + "?" + url.Values{"did": {name}, "of": {o.Run}}.Encode(), nil, nil
	case name == "delete":
		return q.h.cfg.Prefix + "runs", nil, nil
	}
	return link(q.h.cfg.Prefix, "runs", o.Run) + "?did=" + name, nil, nil
}
