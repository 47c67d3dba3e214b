package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// TestOPS3_TheJournalHasWhatRoutesRefuse proves that the journal records requests that a route
// refuses before it reads their bodies, with the targets of the requests.
func TestOPS3_TheJournalHasWhatRoutesRefuse(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "eve", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)}, admin.Token{Name: "ada", Role: admin.RoleOperator, Expires: time.Now().Add(time.Hour)})
	s := serve(t, api.Config{Auth: tokens})
	changing := 0
	for _, r := range route.All {
		if r.Method != http.MethodPost {
			continue
		}
		changing++
		at, body := example(s, r)
		s.wants(r.Name, s.ask(r.Method, at, body, "Authorization: Bearer "+secrets[0]), 403, admin.CodeForbidden)
		var page admin.JournalPage
		g := s.ask("GET", "/v1/journal?limit=1&principal=eve", "", "Authorization: Bearer "+secrets[1])
		if err := json.Unmarshal([]byte(g.body), &page); err != nil || len(page.Entries) != 1 {
			t.Fatalf("%s: the journal is %d %s", r.Name, g.status, g.body)
		}
		e := page.Entries[0]
		parts := strings.Split(strings.Trim(at, "/"), "/")
		action := map[*route.Route]string{route.Start: "start", route.Send: "send", route.Ask: "ask", route.PutSchedule: "put", route.ResumeHook: "resume-hook", route.SaveView: "save-view", route.DeleteView: "delete-view"}[r]
		if action == "" {
			action = parts[len(parts)-1]
		}
		if r == route.ResumeHook { // the journal does not contain the secret part of the token
			parts[2], _, _ = strings.Cut(parts[2], ".")
		}
		if e.Face != admin.FaceAPI || e.Outcome != admin.CodeForbidden || e.Action != action || len(parts) > 2 && r != route.Preview && r != route.Ramp && !strings.HasSuffix(e.Target, parts[2]) {
			t.Errorf("%s %s: the journal has %+v, want action %q", r.Name, at, e, action)
		}
	}
	if changing < 7 {
		t.Errorf("%d routes change something: that is too few to say something", changing)
	}
}

// TestOPS3_RefusalsHaveTheirShare proves that refused requests count for the rate limit, so that
// they cannot fill the journal.
func TestOPS3_RefusalsHaveTheirShare(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "eve", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	now := time.Now()
	s := serve(t, api.Config{Auth: tokens, Mutations: 3, Now: func() time.Time { return now }})
	at := "/v1/runs/" + s.run + "/cancel"
	for range 3 {
		s.wants("within the share", s.ask("POST", at, "", "Authorization: Bearer "+secrets[0]), 403, admin.CodeForbidden)
	}
	g := s.ask("POST", at, "", "Authorization: Bearer "+secrets[0])
	if s.wants("beyond the share", g, 429, admin.CodeBusy); g.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", g.header)
	}
	page, err := s.direct.Journal(t.Context(), admin.JournalFilter{Principals: []string{"eve"}})
	if err != nil || len(page.Entries) != 3 {
		t.Errorf("the journal has %+v, %v; want the 3 refusals", page, err)
	}
}
