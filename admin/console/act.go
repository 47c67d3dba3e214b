package console

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// verb contains the texts that describe an action.
type verb struct {
	Name  string // label of the button
	Will  string // effect on a run
	Final bool   // whether the action cannot be undone
	Makes bool   // whether the action creates a run
}

// verbs contains the texts for all actions. The keys are the names in flowctl and in the API.
var verbs = map[string]verb{
	"cancel":     {Name: "Cancel", Will: "Cancellation is requested: its code cleans up and executes its compensations. It ends as cancelled."},
	"terminate":  {Name: "Terminate", Will: "It ends without its code: nothing is cleaned up or undone. Use it for runs that cannot continue, such as blocked ones.", Final: true},
	"pause":      {Name: "Pause", Will: "It pauses at its next suspension point. Steps in progress end first; timers continue."},
	"resume":     {Name: "Resume", Will: "It continues from where it was paused."},
	"step":       {Name: "Step", Will: "It executes one durable operation, and pauses again."},
	"release":    {Name: "Release", Will: "It was started on hold, and begins now."},
	"retry":      {Name: "Retry", Will: "A new run continues where this one has failed: completed operations are taken over, and not repeated.", Makes: true},
	"resume-new": {Name: "Resume new", Will: "A new run continues where this one was cancelled: completed operations are taken over, and not repeated.", Makes: true},
	"restart":    {Name: "Restart", Will: "A new run begins from the start, with the same input. All operations are executed again.", Makes: true},
	"fork":       {Name: "Fork", Will: "A new run takes over the operations before the step, and executes the step and everything after it again.", Makes: true},
	"delete":     {Name: "Delete", Will: "Its data is removed: its log, its messages, its streams.", Final: true},
}

// actView is the form of an action.
type actView struct {
	Verb     string
	Is       verb
	Runs     []actRun
	Fit      int
	Step     string
	Why      string // label of the field for the reason; empty if the form has no such field
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

// outcome is the result of an action on one run.
type outcome struct {
	Run, New, Problem, Fix string
}

// maxChosen is the maximum number of runs per form.
const maxChosen = 100

func actLink(q *request, verb, run string) string {
	return link(q.h.cfg.Prefix, "act", verb) + "?run=" + queryEscape(run)
}

// The labels of the field for the reason. The label depends on where the reason is recorded.
const (
	whyInJournal = "Why? The reason is stored in the journal."
	whyInLog     = "Why? The reason is stored in the log of the run, and in the journal."
)

func whyAsked(verb string) string {
	if admin.TakesReason(verb) {
		return whyInLog
	}
	return whyInJournal
}

func queryEscape(s string) string { return url.QueryEscape(s) }

// chosen returns the action and the runs of a form.
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

// act executes the action of a form.
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

// ask is a form that describes the effect of an action and asks for the required input.
type ask struct {
	Title, Will string
	Final       bool   // whether the action cannot be undone
	Danger      bool   // whether the action ends or removes something
	Action      string // URL to which the form is submitted
	Button      string
	Fields      []field
	Key         string // forms with the same key are executed once
	Command     string // flowctl command without the flags of the fields
	Back        string
	Problem     *admin.Problem
}

// field is an input field of a form.
type field struct {
	Name, Label, Hint string
	Kind              string // text, number, check, select, json or hidden
	Value             string
	Options           []string
	Required          bool
	Marked            bool   // whether the field is required but may contain an empty text
	Optional          bool   // whether the field is omitted if it is empty
	Flag              string // flag of flowctl; "-" for an argument without a name; empty for none
	Problem           string
}

// whyField returns a field for a reason that is recorded only in the journal.
func whyField() field { return field{Name: "reason", Label: whyInJournal, Flag: "reason"} }

// because returns the reason that a form contains.
func because(form url.Values) string { return strings.TrimSpace(form.Get("reason")) }

// asking returns the view of a form, filled with the input of the preceding request.
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

// answered executes a form once per key. If the execution fails, answered returns the form with its
// input.
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

// notices contains the messages to show after a form was executed. The key is the query parameter
// of the redirect.
var notices = map[string]string{
	"schedule-pause": "The schedule is paused: its ticks are skipped until it is resumed.", "schedule-resume": "The schedule continues.",
	"schedule-trigger": "A run is started, as by a tick.", "schedule-backfill": "The ticks of that time are started by a worker.",
	"schedule-delete": "The schedule is deleted. The runs that it has started continue.",
	"deploy-ramp":     "New runs of pinned workflows are distributed as set.", "deploy-retire": "The build is retired.", "deploy-unretire": "The build is in use again.",
	"pool-set": "The limit applies as set, for all workers.", "pool-reset": "The limit applies as the code declares it.",
	"pool-pause": "Nothing more begins under this limit until it is resumed.", "pool-resume": "Work can begin under the limit again.",
	"bulk-start": "The bulk action is durable: it continues without this page.", "bulk-stop": "Its stop was requested: it ends after the runs that it has begun.",
	"view-save":   "The view is saved: all users of the console of this store see it.",
	"view-delete": "The view is deleted for all users.",
	"sent":        "The message is durable: the run receives it when its code waits for it.",
}

// once ensures that a form that is submitted twice is executed once. For some actions the store
// records a key. once handles the others, which would create another run each time. It keeps a
// digest and the result of each form, for a limited number of forms per principal. It drops forms
// that were refused, because these changed nothing.
type once struct {
	now func() time.Time

	mu   sync.Mutex
	done map[formID]*sent
}

// formID identifies a form of a principal.
type formID struct {
	who string
	sum [sha256.Size]byte
}

// sent is a submitted form.
type sent struct {
	at   time.Time
	once sync.Once
	to   string
	view *view
	err  error
}

const (
	sentKept = 10 * time.Minute // time for which a form is kept
	sentMost = 100              // number of forms that are kept per principal
)

func newOnce(now func() time.Time) *once { return &once{now: now, done: map[formID]*sent{}} }

// do executes act on behalf of who and returns its result. If a form with the same key and contents
// was submitted before, it returns the result of that form instead. A form without a key is always
// executed.
func (o *once) do(who, key, about string, act func() (string, *view, error)) (string, *view, error) {
	if key == "" {
		return act()
	}
	id := formID{who, sha256.Sum256([]byte(key + "\x00" + about))}
	s := o.form(id)
	s.once.Do(func() { s.to, s.view, s.err = act() })
	if p := admin.ProblemOf(s.err); p != nil && p.Status < http.StatusInternalServerError { // only these errors prove that nothing was changed
		o.mu.Lock()
		if o.done[id] == s {
			delete(o.done, id)
		}
		o.mu.Unlock()
	}
	return s.to, s.view, s.err
}

// form returns the entry of a form and creates it if necessary.
func (o *once) form(id formID) *sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.done[id]; s != nil {
		return s
	}
	now := o.now()
	var oldest formID
	mine := 0
	for k, s := range o.done {
		switch {
		case now.Sub(s.at) > sentKept:
			delete(o.done, k)
		case k.who == id.who:
			if mine++; mine == 1 || s.at.Before(o.done[oldest].at) {
				oldest = k
			}
		}
	}
	if mine >= sentMost {
		delete(o.done, oldest)
	}
	s := &sent{at: now}
	o.done[id] = s
	return s
}

// newKey returns a key for a form.
func newKey() string { return rand.Text() }
