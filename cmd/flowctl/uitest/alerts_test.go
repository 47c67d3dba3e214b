package uitest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// refusing is a target that accepts no alert.
type refusing struct{}

func (refusing) Deliver(context.Context, *alert.Alert) error {
	return errors.New(strings.Repeat("refused", 100))
}

// The test proves that the open page of alerts shows an alert that is created and its delivery, and
// that long names and messages do not make the page too wide, also on a phone.
func TestOPS9_AlertsAreAliveInABrowser(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open(t))
			s.run("no alerts", chromedp.Navigate(s.url+"alerts"), until(`document.querySelector(".empty h2")?.textContent === "No alerts"`))
			rule := func(name, target string) alert.Rule {
				return alert.Rule{Name: name, Conditions: []alert.Condition{alert.Failed}, Window: alert.MaxWindow, Target: target}
			}
			w := worker.New(s.Client, worker.Config{Queues: []string{"alerting"}, Alerts: alert.Config{
				Rules:   []alert.Rule{rule(strings.Repeat("r", 60), "log"), rule("refused", "refusing")},
				Targets: map[string]alert.Target{"log": &alert.Log{}, "refusing": refusing{}},
			}})
			failing := shim.NewWorkflow[int, int](strings.Repeat("failing", 12), "n", shim.WorkflowPolicy{Queue: "alerting"})
			shim.BindWorkflow(w, failing, func(workflow.Context, int) (int, error) { return 0, errors.New(strings.Repeat("x", 900)) })
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.Run(ctx) }()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			if _, err := failing.Start(ctx, s.Client, 1); err != nil {
				t.Fatal(err)
			}
			const states = `[...document.querySelectorAll("tbody .st")].map(e => e.textContent.trim()).sort().join()`
			s.run("the alerts", until(states+` === "delivered,retrying"`))
			s.draws("alerts")
			var wide int
			s.run("on a phone", chromedp.EmulateViewport(360, 800), chromedp.Navigate(s.url+"alerts"), until(states+` === "delivered,retrying"`),
				chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide))
			if wide > 0 {
				t.Errorf("on a phone, the page is %d pixels too wide", wide)
			}
		})
	}
}
