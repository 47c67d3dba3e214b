package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/internal/testutil/newertest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS1_ALogOfANewerReleaseIsNotCalledDamaged proves that a log of a newer release is reported
// with a problem code of its own and not as damaged, both over HTTP and with direct access.
func TestOPS1_ALogOfANewerReleaseIsNotCalledDamaged(t *testing.T) {
	st := memstore.New()
	scene := admintest.NewScene(t, newertest.New(st, event.RunCompleted), func(_ testing.TB, direct *admin.Service) admintest.Service { return direct })
	run := scene.Ended("good", "order-1")
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	direct := admin.New(client)
	s := &server{T: t, Server: httptest.NewServer(api.New(direct, api.Config{})), direct: direct}
	t.Cleanup(s.Close)
	over, err := remote.New(s.URL, remote.Config{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, p *admin.Problem) {
		t.Helper()
		if p == nil || p.Code != admin.CodeNewer || p.Title != "A newer release has written it" || p.Status != 501 || p.Exit != 4 || p.Run != run ||
			!strings.HasSuffix(p.Type, "#newer") || !strings.Contains(p.Detail, "it has type 250") || !strings.Contains(p.Fix, "nothing is damaged") || !p.Unreadable() {
			t.Errorf("%s: %+v, want a problem of a newer release", what, p)
		}
	}
	for name, service := range map[string]admintest.Service{"direct": direct, "remote": over} {
		r, err := service.Run(t.Context(), run)
		if err != nil || r.Status != "completed" || r.Damaged != "" || !strings.Contains(r.Newer, "nothing is damaged") {
			t.Errorf("%s: the run is %+v, %v, want one that says why its end is left out", name, r, err)
		}
		_, err = service.Events(t.Context(), run, 0, 0)
		check(name+", events", admin.ProblemOf(err))
		n, last := 0, error(nil)
		for _, err := range service.Follow(t.Context(), run, admin.EventFilter{}) {
			if last = err; err != nil {
				break
			}
			n++
		}
		if check(name+", follow", admin.ProblemOf(last)); n == 0 {
			t.Errorf("%s: no event that can be read was followed", name)
		}
	}
	g := s.ask("GET", "/v1/runs/"+run+"/events", "")
	if check("answer", &g.problem); g.status != 501 {
		t.Errorf("the answer has status %d", g.status)
	}
	if g := s.ask("GET", "/v1/runs/"+run, ""); g.status != 200 || !strings.Contains(g.body, `"newer"`) || strings.Contains(g.body, `"damaged"`) {
		t.Errorf("the run is %d %s", g.status, g.body)
	}
}
