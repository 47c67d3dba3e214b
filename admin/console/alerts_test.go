package console_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// target accepts alerts unless err is set.
type target struct{ err error }

func (t target) Deliver(context.Context, *alert.Alert) error { return t.err }

// alert makes a run of the owner ada fail, which three rules report: to a target that accepts the
// alert, to one that refuses it, and to one that no worker has. It returns the ID of the run when
// both targets have been called.
func (s *site) alert() string {
	s.Helper()
	rule := func(name string) alert.Rule {
		return alert.Rule{Name: name + " rule", Conditions: []alert.Condition{alert.Failed}, Window: alert.MaxWindow, Target: name}
	}
	w := worker.New(s.Client, worker.Config{Queues: []string{"alerting"}, Alerts: alert.Config{
		Rules:   []alert.Rule{rule("good"), rule("bad"), rule("none")},
		Targets: map[string]alert.Target{"good": target{}, "bad": target{errors.New("no <such> channel")}},
	}})
	failing := shim.NewWorkflow[int, int]("failing", "n", shim.WorkflowPolicy{Queue: "alerting"})
	shim.BindWorkflow(w, failing, func(workflow.Context, int) (int, error) { return 0, errors.New("no order") })
	ctx, stop := context.WithTimeout(s.Context(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}()
	run, err := failing.Start(ctx, s.Client, 1, workflow.WithTags(map[string]string{"owner": "ada"}))
	if err != nil {
		s.Fatal(err)
	}
	for states := map[string]string{}; states["good"] != admin.AlertDelivered || states["bad"] != admin.AlertRetrying || states["none"] != admin.AlertPending; {
		page, err := admin.Alerts(ctx, s.Direct, admin.AlertFilter{})
		if err != nil {
			s.Fatalf("states %v: %v", states, err)
		}
		for _, a := range page.Alerts {
			states[a.Target] = a.State
		}
	}
	return string(run.ID())
}

// The test proves that the page of alerts shows each alert with the state of its delivery, and links
// to the runs that it reports.
func TestOPS9_TheConsoleListsAlertsAndTheirDelivery(t *testing.T) {
	s := newSite(t, console.Config{})
	has(t, s.get("alerts", 200), "No alerts</h2>", "worker.Config.Alerts", `aria-current="page">Alerts</a>`)
	run := s.alert()
	about := []string{`href="/flows/runs/` + run + `"`, `href="/flows/runs?q=workflow:failing%20children"`, ">failed<"}
	for of, want := range map[string][]string{
		"good": {"</svg>delivered", "good rule", "no order", ">1</td>", "flowctl alerts --target good"},
		"bad":  {"</svg>retrying", "bad rule", "no &lt;such&gt; channel", "flowctl alerts --target bad"},
		"none": {"</svg>pending", "none rule", "no order", ">0</td>", "no live worker has this target"},
	} {
		page := mainOf(s.get("alerts?target="+of, 200))
		has(t, page, append(want, about...)...)
		if rows := strings.Count(page, "<tr id="); rows != 1 {
			t.Errorf("target %s: %d rows, want 1", of, rows)
		}
		// Delivered alerts and those with a next attempt contain a second time.
		if times, want := strings.Count(page, "<time "), map[string]int{"good": 2, "bad": 2, "none": 1}[of]; times != want {
			t.Errorf("target %s: %d times, want %d\n%s", of, times, want, page)
		}
	}
	if rows := strings.Count(s.get("alerts", 200), "<tr id="); rows != 3 {
		t.Errorf("all targets: %d rows, want 3", rows)
	}
	has(t, s.get("alerts?target=other", 200), "No alerts to other</h2>")
	has(t, s.get("alerts?cursor=no", 400), `role="alert"`, "cursor")
}

// The test proves that a viewer sees the deliveries but no content of alerts, and that a reader with
// an owner sees the alerts about runs of this owner.
func TestOPS9_TheConsoleShowsAlertsToTheirReaders(t *testing.T) {
	s, login := newSiteWithRolesOn(t, filepath.Join(t.TempDir(), "runs.db"))
	run := s.alert()
	login(admin.RoleViewer)
	page := mainOf(s.get("alerts", 200))
	has(t, page, "</svg>delivered", "</svg>retrying", "may see payloads")
	hasNot(t, page, run, "no order", "good rule")
	login(owned)
	page = mainOf(s.get("alerts", 200))
	has(t, page, run, "no order", "good rule")
	hasNot(t, page, "may see payloads")
}
