package conform_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/hooks"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

var (
	called = workflow.NewHook[int]("called")
	noted  = workflow.NewHook[int]("noted")
	calls  = shim.NewWorkflow[workflow.None, int]("conform.calls", "", shim.WorkflowPolicy{})
	opened = workflow.NewValue[string]("opened")
)

// The test proves that routes without a role, which are logins of browsers and hooks, conform to
// the document as well.
func TestOPS3_LoginsAndHooksAreAsTheDocumentSays(t *testing.T) {
	st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	shim.BindWorkflow(w, calls, answersCalls)
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	t.Cleanup(func() { <-done; _ = client.Close(); _ = st.Close() })
	entry, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleOperator, Expires: time.Now().Add(time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(t, api.OpenAPI())
	mux := http.NewServeMux()
	mux.Handle(api.Prefix, api.New(admin.New(client), api.Config{Auth: tokens, Session: session}))
	mux.Handle(hooks.Prefix, hooks.New(client, hooks.Config{}))
	server := httptest.NewServer(c.around(mux))
	t.Cleanup(server.Close)
	run, err := calls.Start(t.Context(), client, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	both, err := opened.Wait(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	answering, noting, _ := strings.Cut(both, " ")
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/v1/login", `{"token":"` + secret + `"}`, 200}, {"/v1/login", `{"token":"fg_wrong"}`, 401}, {"/v1/login", `{}`, 400}, {"/v1/login", `{"name":"ada"}`, 400}, {"/v1/logout", "", 204},
		{"/hooks/" + answering, "17", 200}, {"/hooks/" + noting, "13", 202}, {"/hooks/" + noting, `"text"`, 422}, {"/hooks/" + noting, "{", 400}, {"/hooks/nothing", "1", 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if tt.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != tt.status {
			t.Errorf("POST %s %s: got %d %s, %v; want %d", tt.path, tt.body, answer.StatusCode, text, err, tt.status)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		t.Error(f)
	}
	if c.requests != 10 || c.refused != 6 {
		t.Errorf("%d requests, %d refused: the checker has not seen all", c.requests, c.refused)
	}
}

// answersCalls opens two hooks. It responds to the calls of one of them.
func answersCalls(ctx workflow.Context, _ workflow.None) (int, error) {
	hook, err := called.Open(ctx, workflow.RespondWith(30*time.Second))
	if err != nil {
		return 0, err
	}
	note, err := noted.Open(ctx)
	if err != nil {
		return 0, err
	}
	opened.Set(ctx, hook.Token()+" "+note.Token())
	for {
		n, err := hook.Receive(ctx)
		if err == nil {
			err = hook.Answer(ctx, map[string]int{"twice": 2 * n})
		}
		if err != nil {
			return 0, err
		}
	}
}
