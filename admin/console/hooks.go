package console

import (
	"net/url"

	"github.com/flowgen/flowgen/admin"
)

// hooksView lists open hooks.
type hooksView struct {
	Hooks    []admin.Hook
	Workflow string // of which alone; empty: of all
	Older    string
	Resume   bool // the reader may send payloads
	Command  string
}

func hooksPage(q *request) (*view, error) {
	h := &hooksView{Workflow: oneLine(q.query.Get("workflow")), Resume: q.who.Role.Allows(admin.RoleOperator), Command: q.h.command("hooks")}
	page, err := q.service.Hooks(q.ctx(), admin.HookFilter{Workflow: h.Workflow, Cursor: q.query.Get("cursor")})
	if err != nil {
		return nil, err
	}
	if h.Workflow != "" {
		h.Command += " --workflow " + shell(h.Workflow)
	}
	h.Hooks, h.Older = page.Hooks, nextPage(q, page.Cursor)
	return &view{name: "hooks", Title: "Hooks", Nav: "hooks", Live: true, Data: h}, nil
}

// hookForm asks for the payload of a hook, by fields if it describes them.
func hookForm(q *request) (*ask, admin.Hook, error) {
	token := q.query.Get("token")
	h, err := q.service.Hook(q.ctx(), token)
	if err != nil {
		return nil, h, err
	}
	a := &ask{
		Title: "Send to " + cut(60, firstOf(h.Title, h.Name)), Will: firstOf(cut(500, h.Description), "The run that has opened the hook takes what is sent. Once it is sent it is durable."), Button: "Send",
		Command: q.h.command("hooks resume", shell(token)), Back: link(q.h.cfg.Prefix, "hooks"), Fields: formOf(h.Form),
	}
	if a.Fields == nil {
		a.Fields = []field{{Name: "payload", Label: "Payload, as JSON", Kind: "json", Required: true, Flag: "input"}}
	}
	a.Fields = append(a.Fields, whyField())
	return a, h, nil
}

func hookPage(q *request) (*view, error) {
	a, _, err := hookForm(q)
	if err != nil {
		return nil, err
	}
	return q.asking("hooks", a), nil
}

func resumeHook(q *request) (string, *view, error) {
	a, h, err := hookForm(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered("hooks", a, func(form url.Values) (string, error) {
		m, err := hookPayload(a.Fields[:len(a.Fields)-1], form)
		if err != nil {
			return "", err
		}
		sent, err := q.service.ResumeHook(q.ctx(), h.Token, m)
		return link(q.h.cfg.Prefix, "runs", sent.Run, "talk") + "?did=sent", err
	})
}

// hookPayload returns what was typed, and marks what is no JSON.
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
		return admin.Message{}, &admin.InputError{What: "the payload cannot be read", Fix: "mend what is marked"}
	}
	return admin.Message{Payload: payload, Reason: because(form), Key: form.Get("key")}, nil
}
