package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/monitoring"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The test proves that the status contains a run that waits without a worker. After the run has
// failed, the status contains its failure group. It also contains findings about the settings of
// Redis.
func TestMonitoring_ReportsUnservedQueuesFailuresAndSettings(t *testing.T) {
	ctx := limited(t)
	st, err := store.Open(ctx, redistest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, quiet)
	server := httptest.NewServer(monitoring.Handler(client))
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 2)
	work := func(queue string) {
		w := worker.New(client, worker.Config{Queues: []string{queue}})
		monitoring.Register(w)
		go func() { worked <- w.Run(working) }()
	}
	defer func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := errors.Join(<-worked, <-worked, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()

	if code, text := call(t, http.MethodGet, server.URL+"/health", ""); code != http.StatusServiceUnavailable || text != "there is no worker\n" {
		t.Errorf("without workers: %d %s", code, text)
	}
	work("default")
	if _, err := monitoring.Sell.Execute(ctx, client, "a lamp"); !errors.Is(err, monitoring.ErrSoldOut) {
		t.Fatal(err)
	}
	if code, text := call(t, http.MethodGet, server.URL+"/health", ""); code != http.StatusOK {
		t.Errorf("with a failed run: %d %s", code, text)
	}
	report, err := monitoring.Sell.Start(ctx, client, "a report", workflow.WithQueue("reports"))
	if err != nil {
		t.Fatal(err)
	}
	if code, text := call(t, http.MethodGet, server.URL+"/health", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "queue reports: 1 waits, and no worker serves it") {
		t.Errorf("with a queue that is not served: %d %s", code, text)
	}
	var s monitoring.Status
	_, text := call(t, http.MethodGet, server.URL+"/status", "")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Healthy || s.Workers != 1 || len(s.Failures) != 1 || s.Failures[0].Open != 1 || s.Failures[0].Message != "sold out" {
		t.Errorf("the status is %s", text)
	}
	if len(s.Doctor) == 0 || s.Doctor[0].Fix == "" { // The Redis server of the test does not write to disk, which is a finding.
		t.Errorf("the doctor has no finding: %s", text)
	}

	work("reports")
	if _, err := report.Result(ctx); !errors.Is(err, monitoring.ErrSoldOut) {
		t.Fatal(err)
	}
	if code, text := call(t, http.MethodGet, server.URL+"/health", ""); code != http.StatusOK || text != "healthy\n" {
		t.Errorf("with two workers: %d %s", code, text)
	}
}
