package uitest_test

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/alert/webhook"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var pictures = flag.String("pictures", "", "directory in which the picture of docs/use/alerts.md is drawn")

// TestPictures_DrawThePageOfAlerts draws the picture of the page from real alerts: some that a
// receiver accepts, one that a receiver refuses, and one whose target no worker has.
func TestPictures_DrawThePageOfAlerts(t *testing.T) {
	if *pictures == "" {
		t.Skip("without -pictures")
	}
	s := newSite(t, memstore.New())
	ops := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ops.Close()
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "channel is archived", http.StatusGone) }))
	defer chat.Close()
	failed := []alert.Condition{alert.Failed}
	w := worker.New(s.Client, worker.Config{Queues: []string{"alerting"}, Alerts: alert.Config{
		Rules: []alert.Rule{
			{Name: "failures", Conditions: failed, Window: alert.MaxWindow, Target: "ops"},
			{Name: "team blue", Conditions: failed, Window: alert.MaxWindow, Target: "chat", Filter: alert.Filter{Tags: map[string]string{"team": "blue"}}},
			{Name: "payments", Conditions: failed, Window: alert.MaxWindow, Target: "pager", Filter: alert.Filter{Workflows: []string{"invoices.send"}}},
		},
		Targets: map[string]alert.Target{
			"ops":  &webhook.Webhook{URL: ops.URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", AllowPrivate: true},
			"chat": &webhook.Slack{URL: chat.URL, AllowPrivate: true},
		},
	}})
	type program struct{ name, team, failure string }
	var starts []func(...workflow.StartOption) error
	programs := []program{{"invoices.send", "red", "customer 4711 has no address"}, {"media.transcode", "red", "codec av2 is not supported"}, {"orders.fulfil", "blue", "the carrier is closed"}}
	for _, p := range programs {
		flow := shim.NewWorkflow[int, int](p.name, "n", shim.WorkflowPolicy{Queue: "alerting"})
		shim.BindWorkflow(w, flow, func(workflow.Context, int) (int, error) { return 0, errors.New(p.failure) })
		starts = append(starts, func(opts ...workflow.StartOption) error {
			_, err := flow.Start(t.Context(), s.Client, 1, opts...)
			return err
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for i, p := range programs {
		if err := starts[i](workflow.WithTags(map[string]string{"team": p.team})); err != nil {
			t.Fatal(err)
		}
	}
	s.run("the alerts", chromedp.Navigate(s.url+"alerts"),
		until(`[...document.querySelectorAll("tbody .st")].map(e => e.textContent.trim()).sort().join() === "delivered,delivered,delivered,pending,retrying"`))
	png, err := s.Tab.Picture(s.url+"alerts", 1440, 620, "light", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, "console-alerts.png"), png, 0o644); err != nil { //nolint:gosec // a picture of the documentation
		t.Fatal(err)
	}
}
