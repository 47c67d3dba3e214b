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
	// Run is the run that opened the hooks. If it is empty, the hooks of all open runs are
	// selected. Stores do not index hooks across runs. Therefore each page then reads the new parts
	// of the logs of a few runs.
	Run string `json:"run,omitempty"`
	// Workflow selects the hooks of runs of this workflow. It is used only if Run is empty. If both
	// are empty, the hooks of all workflows are selected.
	Workflow string `json:"workflow,omitempty"`
	// Tags selects the hooks of runs with all of these tags. It is used only if Run is empty.
	Tags map[string]string `json:"tags,omitempty"`
	// Cursor is the cursor of the previous page. Limit is the number of runs to read for a page if
	// Run is empty. 0 means 20, and the maximum is 100.
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// Hook is the state of a hook.
type Hook struct {
	Name        string            `json:"name"`
	Token       string            `json:"token,omitempty"` // empty if the caller's role does not allow reading it
	Run         string            `json:"run"`
	Closed      bool              `json:"closed,omitempty"` // whether the hook rejects further payloads
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Form        Payload           `json:"form,omitempty"` // description of the payload, usually a JSON Schema
	Answerers   []string          `json:"answerers,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	RespondMs   int64             `json:"respondMs,omitempty"` // time that a request waits for an answer; 0 means that it does not wait
	Request     bool              `json:"request,omitempty"`   // whether the hook accepts arbitrary HTTP requests; the payload is then {"query":…,"header":…,"body":"…"}
	Attempt     int               `json:"attempt,omitempty"`   // attempt of the step that opened the hook; 0 if the workflow opened it
	Due         time.Time         `json:"due,omitzero"`        // time at which that attempt times out
	ID          string            `json:"id,omitempty"`        // in lists only: ID of the entity, which is the hook or the step that opened it
	Event       uint64            `json:"event,omitempty"`     // in lists only: number of the event that opened the hook
	Opened      time.Time         `json:"opened,omitzero"`     // time at which the hook was opened; in lists only
	Tags        map[string]string `json:"tags,omitempty"`      // tags of the run; only in lists across runs
}

// HookPage is a page of open hooks.
type HookPage struct {
	Hooks  []Hook `json:"hooks"`
	Cursor string `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
}

// Hooks returns a page of open hooks. It omits the tokens for principals that may not resume hooks,
// because a token is sufficient to resume a hook.
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

// hooks is like [Service.Hooks], but does not check the rights of the principal.
func (s *Service) hooks(ctx context.Context, f HookFilter) (HookPage, error) {
	page := HookPage{Hooks: []Hook{}}
	const most = 100
	if f.Limit < 0 || f.Limit > most {
		return page, &InputError{What: fmt.Sprintf("a page of the hooks of %d runs", f.Limit), Fix: fmt.Sprintf("request 1 to %d, and the next page by its cursor", most)}
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

// openStatuses are the statuses of runs that may have open hooks.
var openStatuses = []string{
	string(workflow.StatusPending), string(workflow.StatusRunning), string(workflow.StatusSleeping), string(workflow.StatusWaiting), string(workflow.StatusPaused),
	string(workflow.StatusBlocked),
}

// hooksOfRuns returns the hooks of a page of open runs.
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
		case p.Code == CodeNotFound: // the run was deleted after it was listed
		case p.Unreadable(): // the page of the run reports the unreadable log; the hooks of other runs must still be listed
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
		Answerers: i.Meta.Answerers, Labels: i.Meta.Labels, RespondMs: i.Respond.Milliseconds(), Request: i.Request, Attempt: i.Attempt, Due: utc(i.Due), ID: i.ID, Event: i.Event, Opened: utc(i.OpenedAt),
	}
}

// Hook returns the description of a hook. A closed hook remains readable until its run is deleted.
// Hook reports a hook of another owner's run as not found.
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

// hook is like [Service.Hook], but does not check the rights of the principal.
func (s *Service) hook(ctx context.Context, token string) (Hook, error) {
	info, err := s.client.Hook(ctx, token)
	if err != nil {
		return Hook{}, err
	}
	return hookOf(&info), nil
}

// ResumeHook sends a payload to the run that opened a hook. When it returns nil, the payload is
// durable. It does not wait for an answer.
func (s *Service) ResumeHook(ctx context.Context, token string, m Message) (Sent, error) {
	e := s.entry(JournalEntry{Action: "resume-hook", Target: HookTarget(token), Reason: m.Reason, Key: m.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Sent, error) { return s.resumeHook(ctx, token, m.left(&e)) },
		func(got Sent, e *JournalEntry) { e.Run = got.Run })
}

// resumeHook is like [Service.ResumeHook], but does not write the journal.
func (s *Service) resumeHook(ctx context.Context, token string, m Message) (Sent, error) {
	if err := s.who.Need(RoleOperator, "to resume hooks"); err != nil {
		return Sent{}, err
	}
	if s.who.Owner != "" {
		if _, err := s.Hook(ctx, token); err != nil {
			return Sent{}, err
		}
	}
	if isSealed(m.Payload) {
		return Sent{}, sealedInput("payload")
	}
	if !json.Valid(m.Payload) {
		return Sent{}, &InputError{What: "the payload is not JSON", Fix: `give JSON as the type of the hook has it, such as true or {"approved":true}`}
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

// HookTarget returns the name of a hook in the journal. The name does not contain the secret part
// of the token.
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

// maxInbox is the maximum number of items that Inbox returns.
const maxInbox = 100

// Inbox contains the messages that were sent to a run and that the run has not received yet.
type Inbox struct {
	Run   string      `json:"run"`
	Items []InboxItem `json:"items"` // the first 100 items, in the order in which the run will receive them
	Total int         `json:"total"` // total number of items
}

// InboxItem is an item that was sent to a run. It is a message, a request to cancel, or the result
// of a child.
type InboxItem struct {
	ID      string   `json:"id"`
	Type    string   `json:"type"`           // type of the event that records its receipt, such as message_received
	Name    string   `json:"name,omitempty"` // for example, the name of a topic or an ask
	Key     string   `json:"key,omitempty"`  // key of the operation that it answers
	Payload Payload  `json:"payload,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	By      string   `json:"by,omitempty"`
}

// Inbox returns the items that were sent to a run and not received yet, for example because the run
// is paused, blocked, or on a queue that no worker serves.
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

// inbox is like [Service.Inbox], but does not check the rights of the principal.
func (s *Service) inbox(ctx context.Context, ref string) (Inbox, error) {
	_, info, err := s.find(ctx, ref)
	if err != nil {
		return Inbox{}, err
	}
	got := Inbox{Run: string(info.ID), Items: []InboxItem{}}
	all, err := s.ops.Inbox(ctx, info.ID)
	if err != nil {
		return got, err
	}
	got.Total = len(all)
	for i := range all[:min(len(all), maxInbox)] {
		e := eventOf(&all[i])
		got.Items = append(got.Items, InboxItem{ID: string(all[i].Item), Type: e.Type, Name: e.Name, Key: e.Key, Payload: e.Payload, Failure: e.Failure, Reason: e.Reason, By: e.By})
	}
	return got, nil
}
