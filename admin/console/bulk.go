package console

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// bulkList is the list of bulk actions.
type bulkList struct {
	Bulks   []bulkView
	Older   string
	Command string
}

// bulkView is a bulk action.
type bulkView struct {
	admin.Bulk
	Line    string // filter of the action as typed
	Share   string // percentage of the runs that the action has processed
	Seen    int
	Is      verb
	Stop    bool // whether the action can be stopped and the reader may do so
	Ends    string
	Fast    string // runs per second; empty if no run was processed yet
	Command string
}

func (q *request) bulkView(b *admin.Bulk) bulkView {
	v := bulkView{Bulk: *b, Line: lineOf(b.Filter), Is: verbs[b.Action.Verb], Seen: b.Done + b.Failed + b.Refused + b.Skipped, Command: q.h.command("bulk show", b.ID)}
	v.Stop = b.Ended.IsZero() && q.who.Role.Allows(admin.RoleOperator)
	v.Share = percent(100 * float64(v.Seen) / float64(max(b.Total, v.Seen, 1)))
	if b.Speed > 0 {
		v.Fast = strconv.FormatFloat(b.Speed, 'f', -1, 64)
	}
	if b.Speed > 0 && b.Ended.IsZero() {
		v.Ends = "about " + took(time.Duration(math.Ceil(float64(b.Left)/b.Speed))*time.Second)
	}
	return v
}

func bulksPage(q *request) (*view, error) {
	page, err := q.service.Bulks(q.ctx(), admin.BulkFilter{Cursor: q.query.Get("cursor")})
	if err != nil {
		return nil, err
	}
	l := &bulkList{Older: nextPage(q, page.Cursor), Command: q.h.command("bulk")}
	for i := range page.Bulks {
		l.Bulks = append(l.Bulks, q.bulkView(&page.Bulks[i]))
	}
	return &view{name: "bulks", Title: "Bulk actions", Nav: "bulk", Live: true, Data: l}, nil
}

func bulkPage(q *request) (*view, error) {
	b, err := q.service.Bulk(q.ctx(), q.path("id"))
	if err != nil {
		return nil, err
	}
	v := q.bulkView(&b)
	return &view{name: "bulk", Title: v.Is.Name + " " + number(b.Total) + " runs", Nav: "bulk", Live: b.Ended.IsZero(), Data: &v}, nil
}

// previewView shows the effect that a bulk action would have, and the form that starts it.
type previewView struct {
	Line     string
	Verb     string
	Is       verb
	Verbs    []string // actions that the reader may use
	Reason   string
	Why      string // label of the field for the reason; empty if the form has no such field
	All      bool   // whether the filter may select all runs
	Rate     string
	Failures string
	Preview  *admin.BulkPreview // nil if no action has been chosen yet
	Fit      int
	Key      string
	Problem  *admin.Problem
	Command  string
}

// bulkVerbs returns the bulk actions that a principal may use.
func bulkVerbs(who admin.Principal) []string {
	return slices.DeleteFunc(slices.Clone(admin.Actions()), func(name string) bool {
		role := admin.RoleOperator
		if name == "delete" {
			role = admin.RoleAdmin
		}
		return name == "fork" || name == "step" || !who.Role.Allows(role)
	})
}

func newBulkPage(q *request) (*view, error) {
	if err := q.who.Need(admin.RoleOperator, "to act on runs"); err != nil {
		return nil, err
	}
	return q.preview(q.query, nil), nil
}

// preview returns a view of the effect that an action would have. before is the error of the
// request to start the action, or nil.
func (q *request) preview(given url.Values, before error) *view {
	p := &previewView{Line: oneLine(given.Get("q")), Verb: given.Get("verb"), Reason: strings.TrimSpace(given.Get("reason")), All: given.Get("all") != "", Key: newKey(), Verbs: bulkVerbs(q.who), Rate: given.Get("rate"), Failures: given.Get("maxFailures")}
	p.Is, p.Why = verbs[p.Verb], whyAsked(p.Verb)
	v := &view{name: "bulknew", Title: "Act on many runs", Nav: "bulk", Data: p}
	err := before
	r, wrong := p.request(q)
	if wrong == nil {
		p.Command = strings.TrimSpace(q.h.command(p.Verb, bulkFlags(&r)))
		var got admin.BulkPreview
		if got, wrong = q.service.Preview(q.ctx(), r); wrong == nil {
			p.Preview, p.Fit = &got, got.Count-got.Refused
		}
	}
	if p.Verb == "" {
		wrong = nil // the reader has not chosen an action yet
	}
	if err == nil {
		err = wrong
	}
	if err != nil {
		p.Problem = admin.ProblemOf(err)
		v.Status = p.Problem.Status
	}
	return v
}

func (p *previewView) request(q *request) (admin.BulkRequest, error) {
	f, err := admin.ParseFilter(p.Line, q.now)
	f.Oldest = false // a bulk action ignores the order
	r := admin.BulkRequest{Filter: f, All: p.All, Action: admin.Action{Verb: p.Verb, Reason: p.Reason}}
	if err == nil && !contains(p.Verbs, p.Verb) {
		err = &admin.InputError{What: fmt.Sprintf("there is no action %.40q for many runs", p.Verb), Fix: "use one of " + strings.Join(p.Verbs, ", ")}
	}
	return r, err
}

// bulkFlags formats the filter and the action as flags of flowctl.
func bulkFlags(r *admin.BulkRequest) string {
	s := flags(r.Filter)
	if r.All {
		s += " --all"
	}
	if r.Action.Reason != "" {
		s += " --reason " + shell(r.Action.Reason)
	}
	return strings.TrimSpace(s)
}

// newBulk starts a bulk action. The reader must confirm the action by typing the number of runs.
func newBulk(q *request) (string, *view, error) {
	form := q.r.PostForm
	rate, err := whole(form.Get("rate"), "the rate")
	most, err2 := whole(form.Get("maxFailures"), "the number of failures")
	typed, expected := digits(form.Get("count")), form.Get("expect")
	switch {
	case err != nil:
	case err2 != nil:
		err = err2
	case expected == "" || typed != expected:
		err = &admin.InputError{What: fmt.Sprintf("%.20q was typed, which is not the number of matching runs", form.Get("count")), Fix: "read the preview, and type its number of runs"}
	}
	if err == nil {
		b := admin.NewBulk{Token: form.Get("token"), Rate: rate, MaxFailures: most, Key: form.Get("key")}
		var got admin.Bulk
		if got, err = q.service.StartBulk(q.ctx(), b); err == nil {
			return link(q.h.cfg.Prefix, "bulk", got.ID) + "?did=bulk-start", nil, nil
		}
	}
	return "", q.preview(form, err), nil
}

// digits removes separators between the digits of a number.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" ,.'\u00a0", r) {
			return -1
		}
		return r
	}, s)
}

// whole parses an optional number. It returns 0 for an empty text.
func whole(s, what string) (int, error) {
	if s = digits(s); s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, &admin.InputError{What: what + " is not a whole number", Fix: "write it as 100, or leave it out"}
	}
	return int(n), nil
}

// stopForm returns the form that stops a bulk action.
func stopForm(q *request) *ask {
	id := q.path("id")
	return &ask{
		Title: "Stop", Will: "It acts on no more runs than those that it has begun. Completed actions are not undone.", Danger: true, Button: "Stop it", Fields: []field{whyField()},
		Command: q.h.command("bulk stop", id), Back: link(q.h.cfg.Prefix, "bulk", id),
	}
}

func stopPage(q *request) (*view, error) {
	_, err := q.service.Bulk(q.ctx(), q.path("id"))
	return q.asking("bulk", stopForm(q)), err
}

func stopBulk(q *request) (string, *view, error) {
	return q.answered("bulk", stopForm(q), func(form url.Values) (string, error) {
		b, err := q.service.StopBulk(q.ctx(), q.path("id"), admin.Because{Reason: because(form)})
		return link(q.h.cfg.Prefix, "bulk", b.ID) + "?did=bulk-stop", err
	})
}
