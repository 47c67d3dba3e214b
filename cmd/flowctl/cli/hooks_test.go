package cli_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

var (
	door   = shim.NewWorkflow[workflow.None, int]("shop.door", "", shim.WorkflowPolicy{})
	knocks = workflow.NewHook[int]("knocks")
)

// hookShop returns a shop with a run that has opened a hook. The title of the hook contains control
// characters.
func hookShop(t *testing.T) (s *shop, run string) {
	t.Helper()
	s = &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "shop.db")}
	st, err := sqlitestore.Open(strings.TrimPrefix(s.url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{})
	shim.BindWorkflow(w, door, func(ctx workflow.Context, _ workflow.None) (int, error) {
		hook, err := knocks.Open(ctx, workflow.Token("front/door"), workflow.RespondWith(10*time.Second), workflow.Describe(workflow.HookMeta{Title: "knock \x1b[31m\u202eknock"}))
		if err != nil {
			return 0, err
		}
		for sum := 0; ; {
			n, err := hook.Receive(ctx)
			if err != nil || n == 0 {
				return sum, err
			}
			sum += n
			if err := hook.Answer(ctx, sum); err != nil {
				return sum, err
			}
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done; client.Close(); _ = st.Close() })
	r, err := door.Start(ctx, client, workflow.None{}, workflow.WithID("door"))
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range r.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.WaitCreated { // The event is recorded after the token was granted.
			break
		}
	}
	return s, string(r.ID())
}

func TestOPS1_HooksAreListedAndResumed(t *testing.T) {
	s, run := hookShop(t)
	for _, args := range [][]string{{"hooks"}, {"hooks", "id:door"}, {"hooks", run}, {"hooks", "--workflow", "shop.door"}} {
		s.wants(0, []string{"knocks", "front/door", run}, nil, args...)
		if g := s.flowctl(args...); strings.ContainsAny(g.stdout, "\x1b\u202e") {
			t.Errorf("%v: a title reaches the terminal as it is: %q", args, g.stdout)
		}
	}
	var page admin.HookPage
	if g := s.flowctl("hooks", "id:door", "--json"); json.Unmarshal([]byte(g.stdout), &page) != nil || len(page.Hooks) != 1 || page.Hooks[0].RespondMs != 10_000 || page.Hooks[0].Run != run {
		t.Errorf("--json: got %+v", g)
	}
	if g := s.flowctl("hooks", "-o", "name"); g.stdout != "front/door\n" {
		t.Errorf("-o name: got %+v", g)
	}
	if g := s.flowctl("__complete", "hooks", "resume", ""); !strings.Contains(g.stdout, "front/door") {
		t.Errorf("completion: got %+v", g)
	}
	s.wants(0, []string{`"run"`, run}, nil, "hooks", "resume", "front/door", "-i", "3", "--key", "k", "--json")
	s.wants(0, nil, nil, "hooks", "resume", "front/door", "-i", "4", "--key", "k")
	s.wants(2, nil, []string{"want int"}, "hooks", "resume", "front/door", "-i", `"three"`)
	s.wants(2, nil, []string{"not JSON"}, "hooks", "resume", "front/door", "-i", "{")
	s.wants(2, nil, []string{"leave out workflow"}, "hooks", run, "--limit", "3")
	s.wants(3, nil, []string{"hook not found"}, "hooks", "resume", "back/door", "-i", "1")
	s.wants(3, nil, nil, "hooks", "id:nobody")
	s.wants(0, []string{"resume-hook", "hook:front/door"}, nil, "journal")
	s.wants(0, nil, nil, "hooks", "resume", "front/door", "-i", "0")
	s.wants(0, []string{"3"}, nil, "wait", run)
	s.wants(4, nil, []string{"hook is closed"}, "hooks", "resume", "front/door", "-i", "1")
	s.wants(0, nil, nil, "hooks", run)
}

// The test proves that the console has no page below /hooks/, because the endpoint of hooks serves
// all paths there.
func TestOPS2_ServeHasTheInboxOfHooksBesideTheirEndpoint(t *testing.T) {
	s, run := hookShop(t)
	at := s.serve("127.0.0.1:0").url
	var page admin.HookPage
	if g := s.flowctl("hooks", "--json"); json.Unmarshal([]byte(g.stdout), &page) != nil || len(page.Hooks) != 1 {
		t.Fatalf("hooks: %+v", g)
	}
	for _, path := range []string{"/inbox", "/inbox/resume?run=" + run + "&id=" + page.Hooks[0].ID} {
		got, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != http.StatusOK {
			t.Errorf("GET %s: got %d, want 200", path, got.StatusCode)
		}
	}
}

func TestOPS3_ServeHasTheEndpointOfHooks(t *testing.T) {
	s, _ := hookShop(t)
	at := s.serve("127.0.0.1:0").url
	for want, path := range map[int]string{http.StatusOK: "front%2Fdoor", http.StatusNotFound: "back%2Fdoor"} {
		got, err := http.Post(at+"/hooks/"+path, "application/json", strings.NewReader("7"))
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, got.StatusCode, want)
		}
	}
}
