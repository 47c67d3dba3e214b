package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	flowevent "github.com/flowgen/flowgen/runtime/event"
)

// eventsPerPage is the number of rows on a page of a log. With this number, a page has fewer than
// 1,500 DOM nodes.
const eventsPerPage = 190

// eventsView is a page of a log.
type eventsView struct {
	Rows        []eventRow
	Older, Next string
	Last        string
	From        uint64
	Err         *admin.Problem
}

type eventRow struct {
	Seq    uint64
	Time   time.Time
	After  string // time since the preceding event
	Type   string
	What   string
	Detail string
	Bad    bool
	Link   string
	ref    uint64 // number of the first event of the operation
}

func eventsTab(q *request, v *runView) (any, error) {
	from := seqOf(q.query.Get("from"))
	if from == 0 || from > v.Events {
		from = 1
	}
	page := &eventsView{From: from}
	var before time.Time
	err := events(q.ctx(), q.service, v.ID, from, min(from+eventsPerPage-1, v.Events), func(e *admin.Event) {
		r := eventRow{
			Seq: e.Seq, Time: e.Time, Type: e.Type, What: visible(cut(120, firstOf(e.Key, e.Name))), Detail: detail(q.now, e), Bad: e.Failure != nil, ref: e.Ref,
			Link: link(q.h.cfg.Prefix, "runs", v.ID, "event", strconv.FormatUint(e.Seq, 10)),
		}
		if !before.IsZero() {
			r.After = "+" + took(e.Time.Sub(before))
		}
		before = e.Time
		page.Rows = append(page.Rows, r)
	})
	page.Err = admin.ProblemOf(err)
	q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, _ error) { // only the first event of an operation contains its name
		for i := range page.Rows {
			r := &page.Rows[i]
			if o := s.operation(r.ref); o != nil && r.What == "" {
				r.What = visible(cut(120, firstOf(o.key, o.name)))
			}
		}
	})
	at := func(from uint64) string {
		return link(q.h.cfg.Prefix, "runs", v.ID, "events") + "?from=" + strconv.FormatUint(from, 10)
	}
	if from > 1 {
		page.Older = at(max(from, eventsPerPage+1) - eventsPerPage)
	}
	if from+eventsPerPage <= v.Events {
		page.Next = at(from + eventsPerPage)
		page.Last = at(v.Events - min(v.Events-1, eventsPerPage-1))
	}
	return page, nil
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// events calls f for the events from number from to number to. It holds only one event at a time in
// memory, because events may be large.
func events(ctx context.Context, s Service, run string, from, to uint64, f func(e *admin.Event)) error {
	if from > to {
		return nil
	}
	for e, err := range s.Follow(ctx, run, admin.EventFilter{From: from}) {
		if err != nil {
			return err
		}
		f(&e)
		if e.Seq >= to {
			break
		}
	}
	return ctx.Err()
}

// detail returns one line that describes the contents of an event, except its operation.
func detail(now time.Time, e *admin.Event) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, cut(110, s))
		}
	}
	if e.Failure != nil {
		add(e.Failure.Message)
	} else {
		add(beginning(e.Payload, 500))
	}
	for _, f := range admin.EventFields {
		if f.Line != nil && f.Name != "name" && f.Name != "key" {
			add(f.Line(e, func(t time.Time) string { return ago(now, t) }))
		}
	}
	return strings.Join(parts, "  ")
}

// fact is a field of an event as its page shows it.
type fact struct {
	admin.EventField

	Text string
}

// facts returns the fields of an event.
func facts(e admin.Event) (all []fact) {
	for _, f := range admin.EventFields {
		one := fact{EventField: f}
		switch v := f.Value(&e).(type) {
		case time.Time:
			if !v.IsZero() {
				one.Text = instant(v)
			}
		case int:
			if v != 0 {
				one.Text = number(v)
			}
		case string:
			one.Text = cut(1000, v)
		}
		if one.Text != "" {
			all = append(all, one)
		}
	}
	return all
}

// eventView is an event with all of its fields.
type eventView struct {
	admin.Event
	Payload *payloadView
	Failure *admin.Failure
	Raw     string // URL of the unformatted payload
	Before  string
	After   string
}

func eventTab(q *request, v *runView) (any, error) {
	n := seqOf(q.path("seq"))
	if n == 0 || n > v.Events {
		return nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("the log has no event %.20q", q.path("seq")), fmt.Sprintf("it has those from 1 to %d", v.Events))
	}
	var got *eventView
	at := func(n uint64) string {
		return link(q.h.cfg.Prefix, "runs", v.ID, "event", strconv.FormatUint(n, 10))
	}
	err := events(q.ctx(), q.service, v.ID, n, n, func(e *admin.Event) {
		got = &eventView{Event: *e, Payload: payloadOf(e.Payload), Failure: e.Failure, Raw: link(q.h.cfg.Prefix, "runs", v.ID, "payload", strconv.FormatUint(n, 10))}
	})
	if err != nil {
		return nil, err
	}
	if n > 1 {
		got.Before = at(n - 1)
	}
	if n < v.Events {
		got.After = at(n + 1)
	}
	return got, nil
}

// payloadFile sends the payload of an event as a download, so that browsers do not display it.
func payloadFile(q *request, w http.ResponseWriter) error {
	if err := q.who.Need(admin.RolePayloads, "to save payloads"); err != nil {
		return err
	}
	n := seqOf(q.path("seq"))
	page, err := q.service.Events(q.ctx(), q.path("id"), max(n, 1), 1)
	if err != nil {
		return err
	}
	if n == 0 || len(page.Events) == 0 || len(page.Events[0].Payload) == 0 {
		return admin.NewProblem(admin.CodeNotFound, "there is no payload", "look at the event")
	}
	payload := page.Events[0].Payload
	if m := markOf(string(payload)); m != nil {
		payload = flowevent.Shown(m.Data)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fmt.Sprintf("event-%d.json", n)))
	_, _ = w.Write(payload) // an error means that the reader has disconnected
	return nil
}

// operationView is an operation of a run with its events.
type operationView struct {
	operation
	Kind, Name, Key string
	Args, Result    *payloadView
	Failure         *admin.Failure
	Attempts        []attemptView // set only if an attempt has failed
	Events          []eventRow
	Fork            string // URL of the action fork; empty if the run cannot be forked from this operation
	Run             string
	Close           string
}

// operationOf returns an operation of a run with its events.
func operationOf(q *request, v *runView, one *operation) *operationView {
	o := &operationView{operation: *one, Kind: one.kind, Name: one.name, Key: one.key, Run: one.note.next, Close: changed(q, "op", "")}
	if o.kind == "step" && contains(v.Actions, "fork") {
		o.Fork = actLink(q, "fork", v.ID) + "&step=" + queryEscape(o.key)
	}
	o.read(q, v)
	return o
}

// operationEvents is the maximum number of events that are read for an operation.
const operationEvents = 2000

// read adds the events of the operation that are close to its first event in the log.
func (o *operationView) read(q *request, v *runView) {
	var failures []*admin.Failure
	_ = events(q.ctx(), q.service, v.ID, o.seq, min(o.seq+operationEvents, v.Events), func(e *admin.Event) {
		if e.Ref != o.seq || len(o.Events) >= 50 {
			return
		}
		if e.Creates {
			o.Args = payloadOf(e.Payload)
		} else if len(e.Payload) > 0 {
			o.Result = payloadOf(e.Payload)
		}
		if o.Failure = e.Failure; e.Failure != nil {
			failures = append(failures, e.Failure)
		}
		o.Events = append(o.Events, eventRow{Seq: e.Seq, Time: e.Time, Type: e.Type, Detail: detail(q.now, e), Bad: e.Failure != nil, Link: link(q.h.cfg.Prefix, "runs", v.ID, "event", strconv.FormatUint(e.Seq, 10))})
	})
	if o.kind == "step" && len(failures) > 1 {
		o.Attempts = attemptsOf(failures)
	}
}
