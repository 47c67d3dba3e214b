package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// HookFilter selects open hooks.
type HookFilter struct {
	// Run is the run that has opened them; empty: any run that has not ended. No store keeps hooks of all runs: then
	// what is new in the logs of these runs is read, some for each page.
	Run string `json:"run,omitempty"`
	// Workflow is that of the run, if Run is empty; empty: any.
	Workflow string `json:"workflow,omitempty"`
	// Tags are those of the run, if Run is empty: all of them.
	Tags map[string]string `json:"tags,omitempty"`
	// Cursor is where the page begins, from the page before; Limit how many runs are looked at for it, if Run is empty; 0: 20, at most 100.
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// Hook is a hook as it is now.
type Hook struct {
	Name        string            `json:"name"`
	Token       string            `json:"token,omitempty"` // empty: not for the role of who asks
	Run         string            `json:"run"`
	Closed      bool              `json:"closed,omitempty"` // nothing is accepted any more
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Form        Payload           `json:"form,omitempty"` // describes the payload, mostly as a JSON Schema
	Answerers   []string          `json:"answerers,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	RespondMs   int64             `json:"respondMs,omitempty"` // how long a request waits for an answer; 0: it does not
	Request     bool              `json:"request,omitempty"`   // it takes requests as they are: {"query":…,"header":…,"body":"…"}
	Attempt     int               `json:"attempt,omitempty"`   // of the step that has opened it; 0: the workflow has
	Due         time.Time         `json:"due,omitzero"`        // when that attempt times out
	ID          string            `json:"id,omitempty"`        // of a list: of the hook, or of the step that has opened it
	Opened      time.Time         `json:"opened,omitzero"`     // of a list
	Tags        map[string]string `json:"tags,omitempty"`      // of a list of several runs: those of the run
}

// HookPage is a part of the open hooks.
type HookPage struct {
	Hooks  []Hook `json:"hooks"`
	Cursor string `json:"cursor,omitempty"` // of the next page; empty: there is none
}

// Hooks returns a page of open hooks.
// Who may not act sees no tokens: a token is enough to act.
func (s *Service) Hooks(ctx context.Context, f HookFilter) (HookPage, error) {
	var page HookPage
	err := s.who.Need(RoleViewer, "to see hooks")
	switch {
	case err != nil:
		return page, err
	case f.Run == "" && s.who.Owner != "":
		page, err = hooksOfRuns(ctx, f, s.Runs, func(ctx context.Context, run string) ([]Hook, error) {
			of, err := s.hooks(ctx, HookFilter{Run: run})
			return of.Hooks, err
		})
	default:
		if f.Run != "" {
			if f.Run, err = s.own(ctx, f.Run); err != nil {
				return page, err
			}
		}
		page, err = s.hooks(ctx, f)
	}
	for i := range page.Hooks {
		s.hideToken(&page.Hooks[i])
	}
	return page, err
}

// hooks is [Service.Hooks] without the limits of the principal.
func (s *Service) hooks(ctx context.Context, f HookFilter) (HookPage, error) {
	page := HookPage{Hooks: []Hook{}}
	const most = 100
	if f.Limit < 0 || f.Limit > most {
		return page, &InputError{What: fmt.Sprintf("a page of the hooks of %d runs", f.Limit), Fix: fmt.Sprintf("ask for 1 to %d, and for the next page by its cursor", most)}
	}
	if f.Run != "" {
		if f.Workflow != "" || len(f.Tags) > 0 || f.Cursor != "" || f.Limit != 0 {
			return page, &InputError{What: "the hooks of one run are one page", Fix: "leave out workflow, tags, cursor and limit, or the run"}
		}
		found, err := s.hooksOf(ctx, f.Run)
		return HookPage{Hooks: append(page.Hooks, found...)}, err
	}
	return hooksOfRuns(ctx, f, s.runs, s.hooksOf)
}

// hooksOf returns the open hooks of a run.
func (s *Service) hooksOf(ctx context.Context, run string) ([]Hook, error) {
	h, _, err := s.find(ctx, run)
	if err != nil {
		return nil, err
	}
	all, err := h.Hooks(ctx)
	found := make([]Hook, len(all))
	for i := range all {
		found[i] = hookOf(&all[i])
	}
	return found, err
}

// openStatuses are those of runs that may have open hooks.
var openStatuses = []string{
	string(workflow.StatusPending), string(workflow.StatusRunning), string(workflow.StatusSleeping), string(workflow.StatusWaiting), string(workflow.StatusPaused),
	string(workflow.StatusBlocked),
}

// hooksOfRuns returns the hooks of a page of runs that have not ended.
func hooksOfRuns(ctx context.Context, f HookFilter, runs func(context.Context, Filter) (RunPage, error), hooks func(context.Context, string) ([]Hook, error)) (HookPage, error) {
	page := HookPage{Hooks: []Hook{}}
	open, err := runs(ctx, Filter{
		Workflow: f.Workflow, Tags: f.Tags, Cursor: f.Cursor, Limit: cmp.Or(f.Limit, 20), Children: true, Statuses: openStatuses,
	})
	if err != nil {
		return page, err
	}
	page.Cursor = open.Cursor
	for i := range open.Runs {
		found, err := hooks(ctx, open.Runs[i].ID)
		switch p := ProblemOf(err); {
		case p == nil:
		case p.Code == CodeNotFound: // it was deleted meanwhile
		case p.Unreadable(): // its page says so: the others must be found all the same
		default:
			return page, err
		}
		for k := range found {
			found[k].Tags = open.Runs[i].Tags
		}
		page.Hooks = append(page.Hooks, found...)
	}
	return page, nil
}

func hookOf(i *workflow.HookInfo) Hook {
	return Hook{
		Name: i.Hook, Token: i.Token, Run: string(i.Run), Closed: i.Closed, Title: i.Meta.Title, Description: i.Meta.Description, Form: i.Meta.Form,
		Answerers: i.Meta.Answerers, Labels: i.Meta.Labels, RespondMs: i.Respond.Milliseconds(), Request: i.Request, Attempt: i.Attempt, Due: utc(i.Due), ID: i.ID, Opened: utc(i.OpenedAt),
	}
}

// Hook returns what a hook says of itself, also one that is closed, until its run is deleted.
// A hook of another owner's run looks like one that is not there.
func (s *Service) Hook(ctx context.Context, token string) (Hook, error) {
	if err := s.who.Need(RoleViewer, "to see hooks"); err != nil {
		return Hook{}, err
	}
	h, err := s.hook(ctx, token)
	if err == nil && s.who.Owner != "" {
		_, err = s.visible(ctx, h.Run)
	}
	if s.who.Owner != "" && ProblemOf(err) != nil && ProblemOf(err).Code == CodeNotFound {
		err = NewProblem(CodeNotFound, "there is no hook with this token", "list the hooks of your runs")
	}
	if err != nil {
		return Hook{}, err
	}
	s.hideToken(&h)
	return h, nil
}

// hook is [Service.Hook] without the limits of the principal.
func (s *Service) hook(ctx context.Context, token string) (Hook, error) {
	info, err := s.client.Hook(ctx, token)
	if err != nil {
		return Hook{}, err
	}
	return hookOf(&info), nil
}

// ResumeHook puts a payload into the run that has opened a hook. When it returns nil the payload is durable. It does not wait
// for an answer.
func (s *Service) ResumeHook(ctx context.Context, token string, m Message) (Sent, error) {
	e := s.entry(JournalEntry{Action: "resume-hook", Target: HookTarget(token), Reason: m.Reason, Key: m.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Sent, error) { return s.resumeHook(ctx, token, m.left(&e)) },
		func(got Sent, e *JournalEntry) { e.Run = got.Run })
}

// resumeHook is [Service.ResumeHook] without the journal.
func (s *Service) resumeHook(ctx context.Context, token string, m Message) (Sent, error) {
	if err := s.who.Need(RoleOperator, "to resume hooks"); err != nil {
		return Sent{}, err
	}
	if s.who.Owner != "" {
		if _, err := s.Hook(ctx, token); err != nil {
			return Sent{}, err
		}
	}
	if !json.Valid(m.Payload) {
		return Sent{}, &InputError{What: "the payload is no JSON", Fix: `give JSON as the type of the hook has it, such as true or {"approved":true}`}
	}
	if err := checkReason("a payload of a hook", m.Reason, false); err != nil {
		return Sent{}, err
	}
	info, err := s.client.Hook(ctx, token)
	if err == nil {
		err = s.client.SendToHook(ctx, token, m.Payload, m.options()...)
	}
	return Sent{Run: string(info.Run)}, err
}

// HookTarget names a hook in the journal, without what makes its token a secret.
func HookTarget(token string) string {
	if run, _, made := strings.Cut(token, "."); made && strings.HasPrefix(run, event.PrefixRun+"_") {
		token = run
	}
	return "hook:" + token
}

func (s *Service) hideToken(h *Hook) {
	if !s.who.Role.Allows(RoleOperator) {
		h.Token = ""
	}
}

// maxInbox bounds how many items of an inbox are told.
const maxInbox = 100

// Inbox has what was sent to a run that it has not taken yet.
type Inbox struct {
	Run   string      `json:"run"`
	Items []InboxItem `json:"items"` // those that it takes first, up to 100, in this order
	Total int         `json:"total"` // how many there are
}

// InboxItem is something that was sent to a run: a message, a request to cancel, the result of a child.
type InboxItem struct {
	Type    string   `json:"type"`           // of the event that it will be, as message_received
	Name    string   `json:"name,omitempty"` // such as a topic or a question
	Key     string   `json:"key,omitempty"`  // of what it is an answer to
	Payload Payload  `json:"payload,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	By      string   `json:"by,omitempty"`
}

// Inbox returns what was sent to a run that it has not taken yet, such as messages to one that is paused, blocked, or not served.
func (s *Service) Inbox(ctx context.Context, ref string) (Inbox, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Inbox{}, err
	}
	in, err := s.inbox(ctx, ref)
	veil(s.who, &in)
	if !s.who.Role.Allows(RolePayloads) {
		for i := range in.Items {
			in.Items[i].Payload, in.Items[i].Failure = nil, withoutData(in.Items[i].Failure)
		}
	}
	return in, err
}

// inbox is [Service.Inbox] without the limits of the principal.
func (s *Service) inbox(ctx context.Context, ref string) (Inbox, error) {
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Inbox{}, err
	}
	got := Inbox{Run: string(info.ID), Items: []InboxItem{}}
	all, err := h.Inbox(ctx)
	if err != nil {
		return got, err
	}
	got.Total = len(all)
	for i := range all[:min(len(all), maxInbox)] {
		e := eventOf(&all[i])
		got.Items = append(got.Items, InboxItem{Type: e.Type, Name: e.Name, Key: e.Key, Payload: e.Payload, Failure: e.Failure, Reason: e.Reason, By: e.By})
	}
	return got, nil
}
