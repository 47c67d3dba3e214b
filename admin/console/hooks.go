package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// hooksView is the list of open hooks.
type hooksView struct {
	Hooks    []hookRow
	Workflow string // selects the hooks of runs of this workflow; empty selects all
	Tag      string // selects the hooks of runs with this tag, as name=value
	Columns  []string
	Older    string
	Resume   bool // whether the reader may send payloads
	Command  string
	Problem  *admin.Problem
}

// hookRow is a hook in a list.
type hookRow struct {
	admin.Hook
	Link string // URL of the form that sends to the hook; empty if the reader may not send
}

func hooksPage(q *request) (*view, error) {
	h := &hooksView{
		Workflow: oneLine(q.query.Get("workflow")), Tag: oneLine(q.query.Get("tag")), Resume: q.who.Role.Allows(admin.RoleOperator), Command: q.h.command("hooks"),
	}
	v := &view{name: "hooks", Title: "Hooks", Nav: "inbox", Live: true, Data: h}
	f := admin.HookFilter{Workflow: h.Workflow, Cursor: q.query.Get("cursor")}
	if h.Workflow != "" {
		h.Command += " --workflow " + shell(h.Workflow)
	}
	if h.Tag != "" {
		name, value, ok := strings.Cut(h.Tag, "=")
		if !ok || name == "" {
			h.Problem = admin.ProblemOf(&admin.InputError{What: "the tag has no name and value", Fix: "write it as region=eu"})
			v.Status, v.Live = h.Problem.Status, false
			return v, nil
		}
		f.Tags = map[string]string{name: value}
		h.Command += " --tag " + shell(h.Tag)
	}
	page, err := q.service.Hooks(q.ctx(), f)
	if err != nil {
		return nil, err
	}
	var tags []map[string]string
	for i := range page.Hooks {
		h.Hooks = append(h.Hooks, hookRow{page.Hooks[i], q.hookLink(&page.Hooks[i])})
		tags = append(tags, page.Hooks[i].Tags)
	}
	h.Columns, h.Older = tagColumns(tags), nextPage(q, page.Cursor)
	return v, nil
}

// maxTagColumns is the maximum number of tags that have a column of their own in a list.
const maxTagColumns = 2

// tagColumns returns the most frequent tag names of the runs of a list.
func tagColumns(all []map[string]string) []string {
	count := map[string]int{}
	for _, tags := range all {
		for name := range tags {
			count[name]++
		}
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	names = names[:min(len(names), maxTagColumns)]
	slices.Sort(names)
	return names
}

// hookLink returns the URL of the form that sends to a hook. The URL identifies the hook by its run
// and its ID. It must not contain the token, because browsers and proxies record URLs, and the
// token is sufficient to send to the hook.
func (q *request) hookLink(h *admin.Hook) string {
	if h.Token == "" || h.ID == "" {
		return ""
	}
	return link(q.h.cfg.Prefix, "inbox", "resume") + "?run=" + queryEscape(h.Run) + "&id=" + queryEscape(h.ID)
}

// hookButton is a link from the page of a run to the form of an open hook.
type hookButton struct{ Title, Link string }

// maxHookButtons is the maximum number of hooks of a run that have a button.
const maxHookButtons = 3

func (q *request) hookButtons(r *admin.Run) (all []hookButton) {
	if !r.EndedAt.IsZero() || r.Damaged != "" || !q.who.Role.Allows(admin.RoleOperator) {
		return nil
	}
	page, err := q.service.Hooks(q.ctx(), admin.HookFilter{Run: r.ID})
	if err != nil {
		return nil // the page of the hooks shows the error
	}
	for i := range page.Hooks {
		if at := q.hookLink(&page.Hooks[i]); at != "" && len(all) < maxHookButtons {
			all = append(all, hookButton{"Send to " + firstOf(page.Hooks[i].Title, page.Hooks[i].Name), at})
		}
	}
	return all
}

// namedHook returns the hook that the URL of a form or the token in the form identifies. The hook
// may be closed.
func (q *request) namedHook() (h admin.Hook, err error) {
	if token := q.r.PostForm.Get("token"); token != "" {
		return q.service.Hook(q.ctx(), token)
	}
	run, id := q.query.Get("run"), q.query.Get("id")
	if run == "" || id == "" {
		return h, &admin.InputError{What: "it is not said which hook", Fix: "take it from the list of hooks"}
	}
	page, err := q.service.Hooks(q.ctx(), admin.HookFilter{Run: run})
	if err != nil {
		return h, err
	}
	i := slices.IndexFunc(page.Hooks, func(h admin.Hook) bool { return h.ID == id })
	if i < 0 || page.Hooks[i].Token == "" {
		return h, admin.NewProblem(admin.CodeNotFound, "the run has no open hook of this id for you", "look at the list of hooks: it may be closed by now")
	}
	return page.Hooks[i], nil
}

// hookForm returns the form for the payload of a hook. The form has fields if the hook describes
// its payload.
func hookForm(q *request) (*ask, admin.Hook, error) {
	if err := q.who.Need(admin.RoleOperator, "to resume hooks"); err != nil {
		return nil, admin.Hook{}, err
	}
	h, err := q.namedHook()
	if err != nil {
		return nil, h, err
	}
	token := h.Token
	a := &ask{
		Title: "Send to " + cut(60, firstOf(h.Title, h.Name)), Will: firstOf(cut(500, h.Description), "The run that has opened the hook receives the payload. Once it is sent it is durable."), Button: "Send",
		Command: q.h.command("hooks resume", shell(token)), Back: link(q.h.cfg.Prefix, "inbox"), Fields: formOf(h.Form),
	}
	if a.Fields == nil {
		a.Fields = []field{{Name: "payload", Label: "Payload, as JSON", Kind: "json", Required: true, Flag: "input"}}
	}
	a.Fields = append(a.Fields, whyField(), field{Name: "token", Kind: "hidden", Value: token})
	return a, h, nil
}

func hookPage(q *request) (*view, error) {
	a, _, err := hookForm(q)
	if err != nil {
		return nil, err
	}
	return q.asking("inbox", a), nil
}

func resumeHook(q *request) (string, *view, error) {
	a, h, err := hookForm(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered("inbox", a, func(form url.Values) (string, error) {
		m, err := hookPayload(a.Fields[:len(a.Fields)-2], form)
		if err != nil {
			return "", err
		}
		sent, err := q.service.ResumeHook(q.ctx(), h.Token, m)
		return link(q.h.cfg.Prefix, "runs", sent.Run, "talk") + "?did=sent", err
	})
}

// hookPayload returns the payload from a form. If the payload is invalid JSON, it marks the field
// and returns an error.
func hookPayload(fields []field, form url.Values) (admin.Message, error) {
	if form.Has("payload") {
		return messageOf(form)
	}
	for i := range fields {
		fields[i].Value = form.Get(fields[i].Name)
	}
	payload, faults := typedInput(fields)
	if len(faults) > 0 {
		blame(fields, faults)
		return admin.Message{}, &admin.InputError{What: "the payload cannot be read", Fix: "correct the marked fields"}
	}
	return admin.Message{Payload: payload, Reason: because(form), Key: form.Get("key")}, nil
}
