package limits_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/examples/guide/limits"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The test proves that a crash at any point neither loses a permit nor acquires it twice, and that
// the run completes.
func TestFulfil_SurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, limits.Fulfil, limits.Order{Customer: "acme", Item: "chair"},
		func(env *workflowtest.Env) { limits.Register(env) },
		workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, run workflowtest.Outcome) {
			if run.Status != workflow.StatusCompleted {
				t.Errorf("the run is %s, want completed", run.Status)
			}
		}))
}

func TestCrawl_FetchesAllPagesOfBusyHosts(t *testing.T) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := limits.Big(client, 8192)
	limits.Register(w)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	defer func() {
		stop()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()

	indexed, err := limits.Catalog.Execute(ctx, client, []limits.Scene{{Name: "hall"}})
	if err != nil || len(indexed) != 1 || indexed[0] != "index of hall" {
		t.Errorf("got %q, %v", indexed, err)
	}
	var pages []limits.Page
	for i := range 20 {
		pages = append(pages, limits.Page{Host: fmt.Sprint("host", i%2)})
	}
	texts, err := limits.Crawl.Execute(ctx, client, pages)
	if err != nil || len(texts) != len(pages) || texts[1] != "page of host1" {
		t.Errorf("got %q, %v", texts, err)
	}

	if err := errors.Join(limits.Raise(ctx, client), limits.Hold(ctx, client, "acme"), limits.Show(ctx, client)); err != nil {
		t.Fatal(err)
	}
	all, err := ops.New(client).Limits().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]ops.LimitInfo{}
	for _, l := range all {
		found[l.Name+l.Key] = l
	}
	if got := found["gpu"]; got.Config != (limit.Config{AtOnce: 8}) || !got.Set {
		t.Errorf("limit gpu: got %+v, want 8 at once", got)
	}
	if got := found["customeracme"]; !got.Paused || got.Config.AtOnce != 1 {
		t.Errorf("limit customer/acme: got %+v, want it paused, with 1 at once", got)
	}
}
