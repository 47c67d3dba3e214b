package admin_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// target accepts alerts unless err is set.
type target struct{ err error }

func (t target) Deliver(context.Context, *alert.Alert) error { return t.err }

func TestOPS9_AlertsAreListedWithTheStateOfTheirDelivery(t *testing.T) {
	st := memstore.New()
	defer func() { _ = st.Close() }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	rule := func(name string) alert.Rule {
		return alert.Rule{Name: name, Conditions: []alert.Condition{alert.Failed}, Target: name}
	}
	w := worker.New(client, worker.Config{Alerts: alert.Config{
		Rules:   []alert.Rule{rule("good"), rule("bad"), rule("none")},
		Targets: map[string]alert.Target{"good": target{}, "bad": target{errors.New("no such channel")}},
	}})
	failing := shim.NewWorkflow[int, int]("failing", "n", shim.WorkflowPolicy{})
	shim.BindWorkflow(w, failing, func(workflow.Context, int) (int, error) { return 0, errors.New("no order") })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	run, err := failing.Start(ctx, client, 1, workflow.WithTags(map[string]string{"owner": "a"}))
	if err != nil {
		t.Fatal(err)
	}
	service := admin.New(client)
	states := map[string]admin.Alert{}
	deadline := time.Now().Add(time.Minute)
	for states["good"].State != admin.AlertDelivered || states["bad"].State != admin.AlertRetrying || states["none"].State != admin.AlertPending {
		if time.Now().After(deadline) {
			t.Fatalf("states: got %+v", states)
		}
		page, err := admin.Alerts(ctx, service, admin.AlertFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Alerts {
			states[a.Target] = a
		}
	}
	for described := false; !described; { // in the background
		if time.Now().After(deadline) {
			t.Fatal("the worker has not described its workflows")
		}
		all, err := ops.New(client).Catalog(ctx, ops.CatalogQuery{})
		if err != nil {
			t.Fatal(err)
		}
		described = slices.ContainsFunc(all, func(e ops.CatalogEntry) bool { return e.Workflow == event.AlertRun })
	}
	if page, err := service.Catalog(ctx, admin.CatalogFilter{}); err != nil || len(page.Workflows) != 1 || page.Workflows[0].Workflow != "failing" {
		t.Errorf("catalog: got %+v and %v, want only the workflow of the user", page, err)
	}
	if a := states["bad"]; a.Error != "no such channel" || a.Attempts != 1 && a.Attempts != 2 || a.Run != run.ID() || a.Message != "no order" {
		t.Errorf("retried alert: got %+v", a)
	}
	if a := states["good"]; a.At.IsZero() || a.Attempts != 1 {
		t.Errorf("delivered alert: got %+v", a)
	}
	if page, err := admin.Alerts(ctx, service, admin.AlertFilter{Target: "good"}); err != nil || len(page.Alerts) != 1 || page.Alerts[0].Target != "good" {
		t.Errorf("alerts of one target: got %+v and %v", page, err)
	}
	for owner, want := range map[string]int{"a": 3, "b": 0} {
		as := service.As(admin.Principal{Name: "reader", Role: admin.RoleViewer, Owner: owner})
		page, err := admin.Alerts(ctx, as, admin.AlertFilter{})
		if err != nil || len(page.Alerts) != want {
			t.Errorf("alerts of owner %s: got %d and %v, want %d", owner, len(page.Alerts), err, want)
		}
		for _, a := range page.Alerts {
			if a.Message != "" || a.Rule != "" || a.Run != "" {
				t.Errorf("a reader without the right to see payloads got %+v", a)
			}
		}
	}
}
