package admintest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// visitor is the payload of the hook of a run.
type visitor struct {
	Name string `json:"name"`
}

var (
	visitors = workflow.NewHook[visitor]("visitors/β")
	requests = workflow.NewHook[workflow.HookRequest]("requests")
)

// hook receives payloads until a payload has an empty name. Its other hooks are closed or receive
// nothing.
func hook(ctx workflow.Context) error {
	first, err := visitors.Open(ctx, workflow.Describe(workflow.HookMeta{
		Title: "Visit \x1b[31m", Description: "at the door", Form: []byte(`{"type":"object"}`), Answerers: []string{"ada"}, Labels: map[string]string{"door": "1"},
	}))
	if err != nil {
		return err
	}
	closed, err := visitors.Open(ctx)
	if err != nil {
		return err
	}
	closed.Dispose(ctx)
	if _, err := requests.Open(ctx, workflow.RespondWith(time.Second), workflow.Token("requests/of/"+workflow.Info(ctx).WorkflowID)); err != nil {
		return err
	}
	for {
		v, err := first.Receive(ctx)
		if err != nil || v.Name == "" {
			return err
		}
		progress.Set(ctx, v.Name)
	}
}

// hooked starts a run with hooks, and waits until they are open.
func (s *Scene) hooked(id string) (run string, open []admin.Hook) {
	s.Helper()
	run = s.Start("hook", id)
	return run, s.opens(run)
}

// opens waits until the hooks of a run are open.
func (s *Scene) opens(run string) []admin.Hook {
	s.Helper()
	s.Until(run, "waiting")
	for s.ctx().Err() == nil { // the run may wait for a token first
		page, err := s.Direct.Hooks(s.ctx(), admin.HookFilter{Run: run})
		if err != nil {
			s.Fatal(err)
		}
		if len(page.Hooks) == 2 {
			return page.Hooks
		}
	}
	s.Fatal("the hooks were not opened")
	return nil
}

func resumesHooks(s *Scene) {
	run, open := s.hooked("resumes-hooks")
	page, err := s.Service.Hooks(s.ctx(), admin.HookFilter{Run: "id:resumes-hooks"})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "the hooks of a run", page.Hooks, open)
	h := page.Hooks[0]
	if h.Name != visitors.Name() || h.Run != run || h.Title != "Visit \x1b[31m" || string(h.Form) != `{"type":"object"}` || h.Labels["door"] != "1" || h.Opened.IsZero() || !strings.HasPrefix(h.ID, "hook_") || h.Event == 0 || h.Closed {
		s.Errorf("got %+v", h)
	}
	if r := page.Hooks[1]; r.Token != "requests/of/resumes-hooks" || !r.Request || r.RespondMs != 1000 {
		s.Errorf("got %+v", r)
	}
	one, err := s.Service.Hook(s.ctx(), h.Token)
	if err != nil {
		s.Fatal(err)
	}
	h.ID, h.Event, h.Opened = "", 0, time.Time{} // only lists contain these fields
	same(s, "one hook", one, h)
	for _, m := range []admin.Message{{Payload: admin.Payload(`{"name":"ada"}`), Key: "k"}, {Payload: admin.Payload(`{"name":"bob"}`), Key: "k"}, {Payload: admin.Payload(`{"name":"eve"}`)}} {
		if got, err := s.Service.ResumeHook(s.ctx(), h.Token, m); err != nil || got.Run != run {
			s.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := s.Service.ResumeHook(s.ctx(), page.Hooks[1].Token, admin.Message{Payload: admin.Payload(`{"body":"x"}`)}); err != nil {
		s.Error(err)
	}
	_, err = s.Service.ResumeHook(s.ctx(), h.Token, admin.Message{Payload: admin.Payload(`{"name":7}`)})
	problem(s, "another type", err, http.StatusBadRequest, admin.CodeInput)
	if _, err := s.Service.ResumeHook(s.ctx(), h.Token, admin.Message{Payload: admin.Payload(`{}`)}); err != nil {
		s.Error(err)
	}
	if r, err := s.Service.Wait(s.ctx(), run, time.Minute); err != nil || r.Status != "completed" {
		s.Errorf("got %+v, %v", r, err)
	}
	if v, err := s.Service.Value(s.ctx(), run, progress.Name()); err != nil || string(v.Value) != `"eve"` {
		s.Errorf("got %+v, %v", v, err)
	}
	events, err := log(s, s.Direct, run, 1)
	if err != nil {
		s.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Type == "hook_received" {
			n++
		}
	}
	if n != 4 {
		s.Errorf("the log has %d payloads, want 4: one of a key", n)
	}
	if one, err := s.Service.Hook(s.ctx(), h.Token); err != nil || !one.Closed || one.Title != h.Title {
		s.Errorf("after the end: got %+v, %v", one, err)
	}
	_, err = s.Service.ResumeHook(s.ctx(), h.Token, admin.Message{Payload: admin.Payload(`{}`)})
	problem(s, "a hook that is closed", err, http.StatusConflict, admin.CodeRefused)
	if page, err := s.Service.Hooks(s.ctx(), admin.HookFilter{Run: run}); err != nil || page.Hooks == nil || len(page.Hooks) != 0 {
		s.Errorf("the hooks of a run that has ended: got %+v, %v", page, err)
	}
}

func listsHooks(s *Scene) {
	want := map[string]bool{}
	for i := range 3 {
		run, _ := s.hooked(fmt.Sprint("lists-hooks-", i))
		want[run] = true
	}
	found := map[string]int{}
	f := admin.HookFilter{Workflow: Workflow, Limit: 2}
	for {
		page, err := s.Service.Hooks(s.ctx(), f)
		if err != nil {
			s.Fatal(err)
		}
		for i := range page.Hooks {
			if h := &page.Hooks[i]; want[h.Run] && slices.Contains([]string{visitors.Name(), requests.Name()}, h.Name) {
				found[h.Run]++
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	for run := range want {
		if found[run] != 2 {
			s.Errorf("run %s: the pages have %d hooks, want 2", run, found[run])
		}
	}
	if page, err := s.Service.Hooks(s.ctx(), admin.HookFilter{Workflow: "nobody's"}); err != nil || len(page.Hooks) != 0 || page.Cursor != "" {
		s.Errorf("of no workflow: got %+v, %v", page, err)
	}
}

func ownsHooks(s *Scene) {
	_, others := s.hooked("of-nobody")
	got, err := s.Direct.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("hook"), ID: "hooks-of-ada", Tags: map[string]string{"owner": "ada"}})
	if err != nil {
		s.Fatal(err)
	}
	own := s.opens(got.Run)
	as := func(role admin.Role, owner string) *admin.Service {
		return s.Direct.As(admin.Principal{Name: "ada", Role: role, Owner: owner})
	}
	ada, m := as(admin.RoleOperator, "ada"), admin.Message{Payload: admin.Payload(`{"name":"x"}`)}
	var all []string
	for f := (admin.HookFilter{}); ; {
		page, err := ada.Hooks(s.ctx(), f)
		if err != nil {
			s.Fatal(err)
		}
		for i := range page.Hooks {
			all = append(all, page.Hooks[i].Token)
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	if want := []string{own[0].Token, own[1].Token}; !slices.Equal(all, want) {
		s.Errorf("the hooks of ada's runs: got %v, want %v", all, want)
	}
	_, err = ada.Hooks(s.ctx(), admin.HookFilter{Run: "id:of-nobody"})
	problem(s, "the hooks of another's run", err, http.StatusNotFound, admin.CodeNotFound)
	_, unknown := ada.Hook(s.ctx(), "nobody")
	_, foreign := ada.Hook(s.ctx(), others[0].Token)
	problem(s, "another's hook", foreign, http.StatusNotFound, admin.CodeNotFound)
	if foreign == nil || unknown == nil || foreign.Error() != unknown.Error() {
		s.Errorf("another's hook is answered by %v, one that is not there by %v", foreign, unknown)
	}
	_, err = ada.ResumeHook(s.ctx(), others[0].Token, m)
	problem(s, "to resume another's hook", err, http.StatusNotFound, admin.CodeNotFound)
	if _, err := ada.ResumeHook(s.ctx(), own[0].Token, m); err != nil {
		s.Error(err)
	}
	_, err = as(admin.RolePayloads, "").ResumeHook(s.ctx(), own[0].Token, m)
	problem(s, "to resume without the role", err, http.StatusForbidden, admin.CodeForbidden)
	viewer := as(admin.RoleViewer, "")
	page, err := viewer.Hooks(s.ctx(), admin.HookFilter{Run: got.Run})
	if err != nil || len(page.Hooks) != 2 || page.Hooks[0].Token != "" || page.Hooks[1].Token != "" {
		s.Errorf("a viewer sees %+v, %v", page, err)
	}
	if h, err := viewer.Hook(s.ctx(), own[0].Token); err != nil || h.Token != "" {
		s.Errorf("a viewer sees %+v, %v", h, err)
	}
	if _, err := as("", "").Hooks(s.ctx(), admin.HookFilter{}); admin.ProblemOf(err) == nil {
		s.Error("somebody without a role sees hooks")
	}
}

func refusesHooks(s *Scene) {
	for what, f := range map[string]admin.HookFilter{
		"a run and a workflow": {Run: "id:x", Workflow: "x"}, "a run and a limit": {Run: "id:x", Limit: 1}, "too many": {Limit: 101}, "less than none": {Limit: -1}, "a cursor": {Cursor: "x"},
		"a workflow id": {Run: "x"},
	} {
		_, err := s.Service.Hooks(s.ctx(), f)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	_, err := s.Service.Hooks(s.ctx(), admin.HookFilter{Run: "id:nobody"})
	problem(s, "a run that is not there", err, http.StatusNotFound, admin.CodeNotFound)
	for what, token := range map[string]string{"a token": "nobody", "a path": "../../x", "dots": "..", "escapes": "\x1b[31m\u202e", "zero": "a\x00b"} {
		_, err := s.Service.Hook(s.ctx(), token)
		problem(s, what, err, http.StatusNotFound, admin.CodeNotFound)
		_, err = s.Service.ResumeHook(s.ctx(), token, admin.Message{Payload: admin.Payload(`1`)})
		problem(s, what, err, http.StatusNotFound, admin.CodeNotFound)
	}
	_, err = s.Service.Hook(s.ctx(), strings.Repeat("x", 300))
	problem(s, "what cannot be a token", err, http.StatusBadRequest, admin.CodeInput)
	_, err = s.Service.ResumeHook(s.ctx(), "nobody", admin.Message{})
	problem(s, "no payload", err, http.StatusBadRequest, admin.CodeInput)
}
