package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// Limits of the messages of a run that a page shows. The log contains all messages.
const (
	maxMessages = 20
	maxValues   = 20
	maxStreams  = 8
	maxChunks   = 20
	askPatience = 30 * time.Second
)

// talkView contains the messages, values and requests between a run and its clients.
type talkView struct {
	Waits    []string // topics that the run waits for
	Inbox    []spoken // messages that the run has not received yet
	Left     int      // number of further messages
	Messages []spoken // received messages, the newest first
	Values   []spoken // published values, sorted by name
	Asks     []spoken
	Hooks    []spoken
	Sends    []spoken
	Streams  []streamView
	More     bool // whether there are more entries than the page shows
	Send     string
	Ask      string // URLs of the forms; empty if the reader may not use them
	Err      *admin.Problem
}

// spoken is a message, a value, an ask or a hook.
type spoken struct {
	Seq     uint64
	Time    time.Time
	Name    string
	Key     string
	State   string
	Note    string
	Run     string
	Payload *payloadView
	Line    string // beginning of the payload
	Link    string
}

// streamView is the end of a stream.
type streamView struct {
	Name   string
	Chunks []chunkView
	First  uint64 // index of the first chunk that is shown
	Last   uint64
	Ended  bool
}

type chunkView struct {
	Index   uint64
	Text    string
	Step    string
	Attempt int
}

func talkTab(q *request, v *runView) (any, error) {
	t := &talkView{}
	var messages, values []uint64
	var streams []string
	q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, err error) {
		t.Err = admin.ProblemOf(err)
		messages, t.More = s.at(maxMessages, "message_received", "hook_received", "input_received")
		_, values = s.newest(maxValues, "value_set")
		streams, _ = s.newest(maxStreams, "stream_written")
		t.operations(q, v.ID, s.ops)
	})
	if v.EndedAt.IsZero() {
		if err := t.inbox(q, v.ID); err != nil {
			return nil, err
		}
	}
	for _, name := range streams {
		if stream := q.stream(v.ID, name); stream != nil {
			t.Streams = append(t.Streams, *stream)
		}
	}
	t.Messages, t.Values = q.spoken(v.ID, messages), q.spoken(v.ID, values)
	if v.EndedAt.IsZero() && q.who.Role.Allows(admin.RoleOperator) {
		t.Send, t.Ask = link(q.h.cfg.Prefix, "runs", v.ID, "send"), link(q.h.cfg.Prefix, "runs", v.ID, "ask")
		if len(t.Waits) > 0 {
			t.Send += "?topic=" + queryEscape(t.Waits[0])
		}
	}
	return t, nil
}

// inbox adds the messages that the run has not received yet.
func (t *talkView) inbox(q *request, run string) error {
	in, err := q.service.Inbox(q.ctx(), run)
	if err != nil {
		return err
	}
	for i := range in.Items[:min(len(in.Items), maxMessages)] {
		m := &in.Items[i]
		t.Inbox = append(t.Inbox, spoken{Seq: uint64(i) + 1, Name: firstOf(m.Name, word(m.Type)), Key: m.Key, State: m.Type, Note: m.Reason, Line: lineOfPayload(payloadOf(m.Payload))})
	}
	t.Left = in.Total - len(t.Inbox)
	return nil
}

// lineOfPayload returns the beginning of a payload.
func lineOfPayload(p *payloadView) string {
	switch {
	case p == nil:
		return ""
	case p.Sealed != "":
		return p.Sealed
	case p.Tree != nil && len(p.Tree.Parts) == 0:
		return cut(300, p.Tree.Text)
	}
	return cut(300, p.Text)
}

// stream returns the end of a stream. It returns nil if the reader may not read the stream or if
// the stream does not exist.
func (q *request) stream(run, name string) *streamView {
	page, err := q.service.Stream(q.ctx(), run, name, 0, 1)
	if err == nil && page.Last > maxChunks {
		page, err = q.service.Stream(q.ctx(), run, name, max(page.First, page.Last-maxChunks+1), maxChunks)
	} else if err == nil {
		page, err = q.service.Stream(q.ctx(), run, name, 0, maxChunks)
	}
	if err != nil {
		return nil
	}
	s := &streamView{Name: name, Last: page.Last, Ended: page.Ended}
	for i := range page.Chunks {
		c := &page.Chunks[i]
		if i == 0 {
			s.First = c.Index
		}
		s.Chunks = append(s.Chunks, chunkView{Index: c.Index, Text: cut(300, beginning(c.Value, 4*300)), Step: c.Step, Attempt: c.Attempt})
	}
	return s
}

// spoken reads the given events of a log one by one, because there may be many other events between
// them.
func (q *request) spoken(run string, events []uint64) []spoken {
	var all []spoken
	for _, n := range events {
		page, err := q.service.Events(q.ctx(), run, n, 1)
		if err != nil || len(page.Events) == 0 {
			continue // the page of the log shows the error
		}
		e := &page.Events[0]
		all = append(all, spoken{Seq: n, Time: e.Time, Name: firstOf(e.Name, word(e.Type)), Key: e.Key, State: e.Type, Payload: payloadOf(e.Payload), Link: q.eventLink(run, n)})
	}
	return all
}

func (q *request) eventLink(run string, n uint64) string {
	return link(q.h.cfg.Prefix, "runs", run, "event", strconv.FormatUint(n, 10))
}

// operations adds the asks, hooks and messages of a run, the newest first.
func (t *talkView) operations(q *request, run string, ops []*operation) {
	for _, o := range slices.Backward(ops) {
		if o.kind == "wait" && o.state == stateOpen && o.name != "" && len(t.Waits) < maxMessages && !contains(t.Waits, o.name) {
			t.Waits = append(t.Waits, o.name)
		}
		to := map[string]*[]spoken{"ask": &t.Asks, "hook": &t.Hooks, "send": &t.Sends}[o.kind]
		if to == nil {
			continue
		}
		if len(*to) == maxMessages {
			t.More = true
			continue
		}
		*to = append(*to, spoken{Seq: o.seq, Time: time.UnixMilli(o.begin).UTC(), Name: o.name, Key: o.key, State: o.state, Note: o.note.text, Run: o.note.next, Link: q.eventLink(run, o.seq)})
	}
}

// known returns names for the suggestions of a form. They are the names of the events of some
// types.
func (q *request) known(run string, kinds ...string) []string {
	r, err := q.service.Run(q.ctx(), run)
	if err != nil {
		return nil // the error is shown after the form is submitted
	}
	var names map[string]bool
	q.h.logs.with(q.ctx(), q, r.ID, r.Events, func(s *skeleton, _ error) {
		names = s.named(100, kinds...)
	})
	return sortedKeys(names)
}

func sortedKeys(m map[string]bool) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func sendForm(q *request) *ask {
	run := q.path("id")
	return &ask{
		Title: "Send a message", Will: "The run receives it when its code waits for a message of this topic. Once it is sent it is durable.", Button: "Send",
		Fields: []field{
			{Name: "topic", Label: "Topic", Value: q.query.Get("topic"), Required: true, Flag: "-", Options: q.known(run, "message_received", "wait_created")},
			{Name: "payload", Label: "Message, as JSON", Kind: "json", Required: true, Flag: "-"}, whyField(),
		},
		Command: q.h.command("send", run), Back: link(q.h.cfg.Prefix, "runs", run, "talk"),
	}
}

func sendPage(q *request) (*view, error) {
	if err := q.mayAct(); err != nil {
		return nil, err
	}
	return q.asking("runs", sendForm(q)), nil
}

// mayAct returns an error unless the reader may act on the run of the page. A form is shown only if
// it would not be refused.
func (q *request) mayAct() error {
	err := q.who.Need(admin.RoleOperator, "to act on runs")
	if err == nil {
		_, err = q.service.Run(q.ctx(), q.path("id"))
	}
	return err
}

func send(q *request) (string, *view, error) {
	return q.answered("runs", sendForm(q), func(form url.Values) (string, error) {
		m, err := messageOf(form)
		if err != nil {
			return "", err
		}
		sent, err := q.service.Send(q.ctx(), q.path("id"), strings.TrimSpace(form.Get("topic")), m)
		return link(q.h.cfg.Prefix, "runs", sent.Run, "talk") + "?did=sent", err
	})
}

// messageOf returns the message in a form. The key of the form becomes the key of the message, so
// that a form that is submitted twice sends the message once.
func messageOf(form url.Values) (admin.Message, error) {
	payload := strings.TrimSpace(form.Get("payload"))
	if !json.Valid([]byte(payload)) {
		return admin.Message{}, &admin.InputError{What: "what was typed is not JSON", Fix: `write text with quotes, as "yes"; numbers, true and {"approved":true} as they are`}
	}
	return admin.Message{Payload: admin.Payload(payload), Reason: because(form), Key: form.Get("key")}, nil
}

func askForm(q *request) *ask {
	run := q.path("id")
	return &ask{
		Title: "Ask the run", Will: "Its code answers, or refuses. The question is durable once it is accepted; the answer appears here.", Button: "Ask",
		Fields: []field{
			{Name: "name", Label: "Question", Value: q.query.Get("name"), Required: true, Flag: "-", Options: q.known(run, "ask_received", "ask_accepted")},
			{Name: "payload", Label: "Payload of the question, as JSON", Kind: "json", Required: true, Value: "null", Flag: "-"}, whyField(),
		},
		Command: q.h.command("ask", run), Back: link(q.h.cfg.Prefix, "runs", run, "talk"),
	}
}

func askRunPage(q *request) (*view, error) {
	if err := q.mayAct(); err != nil {
		return nil, err
	}
	return q.asking("runs", askForm(q)), nil
}

// answerView is the answer of a run to an ask.
type answerView struct {
	Run, Name string
	Payload   *payloadView
	Back      string
}

func askRun(q *request) (string, *view, error) {
	form, a := q.r.PostForm, askForm(q)
	m, err := messageOf(form)
	if err == nil {
		ctx, cancel := context.WithTimeout(q.ctx(), askPatience)
		defer cancel()
		name := strings.TrimSpace(form.Get("name"))
		var got admin.Answer
		if got, err = q.service.Ask(ctx, q.path("id"), name, m); err == nil {
			answer := &answerView{Run: got.Run, Name: name, Payload: payloadOf(got.Payload), Back: a.Back}
			return "", &view{name: "answer", Title: "Answer", Nav: "runs", Data: answer}, nil
		}
		if ctx.Err() != nil && q.ctx().Err() == nil {
			err = admin.NewProblem(admin.CodeTimeout, fmt.Sprintf("no answer within %v, but the question may have been accepted", askPatience), "send the form again: it is the same question")
			a.Key = form.Get("key")
		}
	}
	a.Problem = admin.ProblemOf(err)
	return "", q.asking("runs", a), nil
}

// auditView contains the actions of operators on a run, from the journal and from the log of the
// run.
type auditView struct {
	Entries []admin.JournalEntry
	Hidden  *admin.Problem // set if the reader may not read the journal
	Older   string
	Rows    []eventRow
}

// controls lists the types of events that operators cause.
var controls = []string{"run_created", "cancel_requested", "run_paused", "run_resumed", "run_released", "run_stepped", "run_cancelled"}

func auditTab(q *request, v *runView) (any, error) {
	a := &auditView{}
	page, err := q.service.Journal(q.ctx(), admin.JournalFilter{Target: v.ID, Limit: runsPerPage, Cursor: q.query.Get("cursor")})
	if p := admin.ProblemOf(err); p != nil {
		if p.Code != admin.CodeForbidden && p.Code != admin.CodeUnsupported {
			return nil, err
		}
		a.Hidden = p
	}
	a.Entries, a.Older = page.Entries, nextPage(q, page.Cursor)
	var events []uint64
	q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, _ error) { events, _ = s.at(runsPerPage, controls...) })
	for _, n := range events {
		page, err := q.service.Events(q.ctx(), v.ID, n, 1)
		if err != nil || len(page.Events) == 0 {
			continue // the page of the log shows the error
		}
		e := &page.Events[0]
		a.Rows = append(a.Rows, eventRow{Seq: n, Time: e.Time, Type: e.Type, Detail: strings.TrimSpace(cut(200, e.Reason) + "  " + by(e)), Link: q.eventLink(v.ID, n)})
	}
	return a, nil
}

func by(e *admin.Event) string {
	if e.By == "" {
		return ""
	}
	return "by " + cut(60, e.By)
}
