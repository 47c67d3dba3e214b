package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/cmd/flowctl/uitest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/alert/webhook"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var pictures = flag.String("pictures", "", "directory in which the pictures of alerts, deployments and rates are drawn")

// gallery is a console for a store in memory that has only the workers which a test adds.
type gallery struct {
	*testing.T
	*uitest.Tab
	url    string
	admin  *admin.Service
	client *workflow.Client
	store  store.Store
	ctx    context.Context // of the workers
	ended  sync.WaitGroup
}

func newGallery(t *testing.T) *gallery {
	if *pictures == "" {
		t.Skip("without -pictures")
	}
	g := &gallery{T: t, store: memstore.New()}
	g.client = workflow.NewClient(g.store, workflow.ClientConfig{})
	g.admin = admin.New(g.client)
	server := httptest.NewServer(console.New(g.admin, console.Config{Prefix: "/flows/", Store: "orders@test"}))
	t.Cleanup(server.Close)
	browser, err := uitest.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(browser.Close)
	tab, end, err := browser.Tab(5 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.CloseClientConnections) // The server would wait for the tab, which keeps a connection for updates open.
	t.Cleanup(end)
	g.Tab, g.url = tab, server.URL+"/flows/"
	ctx, stop := context.WithCancel(t.Context())
	g.ctx = ctx
	t.Cleanup(func() {
		stop()
		g.ended.Wait()
		if err := errors.Join(g.client.Close(), g.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// work adds a worker and returns its client.
func (g *gallery) work(cfg worker.Config, bind func(*worker.Worker)) *workflow.Client {
	client := workflow.NewClient(g.store, workflow.ClientConfig{})
	cfg.Logger = slog.New(slog.DiscardHandler)
	w := worker.New(client, cfg)
	bind(w)
	g.ended.Go(func() {
		if err := errors.Join(w.Run(g.ctx), client.Close()); err != nil {
			g.Error(err)
		}
	})
	return client
}

// start starts n runs.
func (g *gallery) start(c *workflow.Client, flow workflow.Definition[int, int], n int, opts ...workflow.StartOption) {
	g.Helper()
	for range n {
		if _, err := flow.Start(g.Context(), c, 1, opts...); err != nil {
			g.Fatal(err)
		}
	}
}

// until waits until a condition holds.
func (g *gallery) until(what string, holds func() (bool, error)) {
	g.Helper()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		done, err := holds()
		if err != nil {
			g.Fatalf("%s: %v", what, err)
		}
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			g.Fatalf("%s: not within a minute", what)
		}
	}
}

// save draws a page into a file of the documentation.
func (g *gallery) save(name, page string, height int64) {
	g.Helper()
	png, err := g.Tab.Picture(g.url+page, 1440, height, "light", false)
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644) //nolint:gosec // a picture of the documentation
	}
	if err != nil {
		g.Fatal(err)
	}
}

// TestPictures_DrawThePageOfAlerts draws the picture of the page from real alerts: some that a
// receiver accepts, one that a receiver refuses, and one whose target no worker has.
func TestPictures_DrawThePageOfAlerts(t *testing.T) {
	g := newGallery(t)
	ops := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ops.Close()
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "channel is archived", http.StatusGone) }))
	defer chat.Close()
	failed := []alert.Condition{alert.Failed}
	cfg := worker.Config{Alerts: alert.Config{
		Rules: []alert.Rule{
			{Name: "failures", Conditions: failed, Window: alert.MaxWindow, Target: "ops"},
			{Name: "team blue", Conditions: failed, Window: alert.MaxWindow, Target: "chat", Filter: alert.Filter{Tags: map[string]string{"team": "blue"}}},
			{Name: "payments", Conditions: failed, Window: alert.MaxWindow, Target: "pager", Filter: alert.Filter{Workflows: []string{"invoices.send"}}},
		},
		Targets: map[string]alert.Target{
			"ops":  &webhook.Webhook{URL: ops.URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", AllowPrivate: true},
			"chat": &webhook.Slack{URL: chat.URL, AllowPrivate: true},
		},
	}}
	type program struct{ name, team, failure string }
	programs := []program{{"invoices.send", "red", "customer 4711 has no address"}, {"media.transcode", "red", "codec av2 is not supported"}, {"orders.fulfil", "blue", "the carrier is closed"}}
	flows := make([]workflow.Definition[int, int], len(programs))
	client := g.work(cfg, func(w *worker.Worker) {
		for i, p := range programs {
			flows[i] = shim.NewWorkflow[int, int](p.name, "n", shim.WorkflowPolicy{})
			shim.BindWorkflow(w, flows[i], func(workflow.Context, int) (int, error) { return 0, errors.New(p.failure) })
		}
	})
	for i, p := range programs {
		g.start(client, flows[i], 1, workflow.WithTags(map[string]string{"team": p.team}))
	}
	g.until("the alerts", func() (bool, error) {
		page, err := admin.Alerts(t.Context(), g.admin, admin.AlertFilter{})
		states := ""
		for _, one := range page.Alerts {
			states += one.State + " "
		}
		return strings.Count(states, "delivered") == 3 && strings.Contains(states, "pending") && strings.Contains(states, "retrying"), err
	})
	g.save("console-alerts", "alerts", 620)
}

// TestPictures_DrawThePageOfDeployments draws the page during a canary: one tenth of the new runs of a
// pinned workflow goes to the new build. The build before both is retired and drained.
func TestPictures_DrawThePageOfDeployments(t *testing.T) {
	g := newGallery(t)
	flow := shim.NewWorkflow[int, int]("orders.fulfil", "n", shim.WorkflowPolicy{Pin: true})
	waits := func(w *worker.Worker) {
		shim.BindWorkflow(w, flow, func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Hour) })
	}
	lists := func(build string, workers, needs int) {
		g.until(fmt.Sprintf("%d workers of %s, which %d runs need", workers, build, needs), func() (bool, error) {
			all, err := g.admin.Deploys(t.Context())
			i := slices.IndexFunc(all.Builds, func(d admin.Deploy) bool { return d.Build == build })
			return i >= 0 && len(all.Builds[i].Workers) == workers && all.Builds[i].Needs >= needs, err
		})
	}
	g.work(worker.Config{Build: "v1.7.4", Name: "orders-a"}, waits)
	lists("v1.7.4", 1, 0)
	var first *workflow.Client
	for i := range 3 {
		first = g.work(worker.Config{Build: "v1.8.2", Name: "orders-b" + strconv.Itoa(i)}, waits)
	}
	lists("v1.8.2", 3, 0)
	if _, err := g.admin.ActOnDeploy(t.Context(), "v1.7.4", admin.DeployAction{Verb: "retire", To: "v1.8.2"}); err != nil {
		t.Fatal(err)
	}
	g.until("the retired build is drained", func() (bool, error) {
		d, err := g.admin.Drained(t.Context(), "v1.7.4")
		return d.Answer == "drained", err
	})
	g.start(first, flow, 40)
	lists("v1.8.2", 3, 40)
	g.work(worker.Config{Build: "v1.9.0", Name: "orders-c0"}, waits)
	lists("v1.9.0", 1, 0)
	if _, err := g.admin.Ramp(t.Context(), admin.Ramp{Percent: map[string]int{"v1.9.0": 10}}); err != nil {
		t.Fatal(err)
	}
	next := g.work(worker.Config{Build: "v1.9.0", Name: "orders-c1"}, waits) // its client reads the distribution at once
	lists("v1.9.0", 2, 0)
	g.start(next, flow, 80)
	lists("v1.9.0", 2, 2)
	lists("v1.8.2", 3, 60)
	g.save("console-deployments", "deploys?drained=v1.7.4", 340)
}

// TestPictures_DrawThePageOfRates draws the page of queues, limits and rates while three workers are
// busy and a queue has no worker.
func TestPictures_DrawThePageOfRates(t *testing.T) {
	g := newGallery(t)
	bank, carrier := limit.New("bank.calls", limit.Config{AtOnce: 6}), limit.New("carrier.api", limit.Config{Rate: 40})
	type action = func(context.Context, int) (int, error)
	adapt := func(f action) shim.Handler { return shim.Handle(f) }
	uses := func(l limit.Limit) shim.Policy {
		return shim.Policy{Uses: shim.Uses(func(int) []limit.Use { return []limit.Use{l.Use(1)} })}
	}
	steps := []shim.Step[action]{
		shim.NewStep("stock.reserve", shim.Policy{}, adapt), shim.NewStep("orders.charge", uses(bank), adapt),
		shim.NewStep("orders.ship", uses(carrier), adapt), shim.NewStep("mail.send", shim.Policy{}, adapt),
	}
	means := []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, 45 * time.Millisecond}
	flow := shim.NewWorkflow[int, int]("orders.fulfil", "n", shim.WorkflowPolicy{})
	bind := func(w *worker.Worker) {
		for i, one := range steps {
			one.Bind(w, func(ctx context.Context, n int) (int, error) {
				select {
				case <-time.After(time.Duration(rand.ExpFloat64() * float64(means[i]))):
				case <-ctx.Done():
				}
				return n, ctx.Err()
			})
		}
		shim.BindWorkflow(w, flow, func(ctx workflow.Context, n int) (int, error) {
			for _, one := range steps {
				if _, err := shim.Call[int](ctx, one, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
	}
	var client *workflow.Client
	for i := range 3 {
		client = g.work(worker.Config{Name: "orders-" + strconv.Itoa(i)}, bind)
	}
	g.start(client, flow, 22, workflow.WithQueue("reports"))
	g.start(client, flow, 500)
	g.until("the rates of all workers and steps", func() (bool, error) {
		rates, err := g.admin.Rates(t.Context())
		return rates.Workers == 3 && len(rates.Steps) == len(steps), err
	})
	g.save("console-rates", "queues", 980)
}
