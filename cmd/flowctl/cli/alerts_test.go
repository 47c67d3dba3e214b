package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestOPS9_FlowctlListsAlerts(t *testing.T) {
	s := open(t)
	s.wants(0, []string{`"alerts": []`}, nil, "alerts", "-o", "json")
	failing := shim.NewWorkflow[int, int]("alerting", "n", shim.WorkflowPolicy{})
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{Alerts: alert.Config{
			Rules: []alert.Rule{
				{Name: "failures", Conditions: []alert.Condition{alert.Failed}, Target: "ops"},
				{Name: "pages", Conditions: []alert.Condition{alert.Failed}, Target: "pager"},
			},
			Targets: map[string]alert.Target{"ops": &alert.Log{}},
		}})
		shim.BindWorkflow(w, failing, func(workflow.Context, int) (int, error) { return 0, errors.New("no order") })
		ctx, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		if _, err := failing.Start(ctx, c, 1); err != nil {
			t.Error(err)
		}
		delivered := false
		for deadline := time.Now().Add(time.Minute); !delivered && time.Now().Before(deadline); {
			page, err := admin.Alerts(ctx, admin.New(c), admin.AlertFilter{})
			delivered = err == nil && len(page.Alerts) == 2 && (page.Alerts[0].State == admin.AlertDelivered || page.Alerts[1].State == admin.AlertDelivered)
		}
		stop()
		if err := <-done; err != nil || !delivered {
			t.Errorf("worker: got %v, delivered %v", err, delivered)
		}
	})
	s.wants(0, []string{"delivered", "failed", "alerting", "no order"}, nil, "alerts", "--target", "ops")
	if g := s.flowctl("alerts", "--target", "pager"); g.stderr != "no live worker has target pager: its alerts wait for one\n" {
		t.Errorf("alerts of a target that no worker has: got %+v", g)
	}
	var page admin.AlertPage
	if g := s.flowctl("alerts", "--target", "ops", "-o", "json"); json.Unmarshal([]byte(g.stdout), &page) != nil || len(page.Alerts) != 1 || page.Alerts[0].Rule != "failures" {
		t.Errorf("alerts: got %+v", g)
	}
	s.wants(0, []string{`"alerts": []`}, nil, "alerts", "--target", "other", "-o", "json")
}
