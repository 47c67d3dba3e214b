package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/testutil/newertest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// noting is a workflow that records a value and waits. The test replaces the event of the value by
// an event of a newer release.
var noting = shim.NewWorkflow[workflow.None, int]("shop.noting", "", shim.WorkflowPolicy{})

func note(ctx workflow.Context, _ workflow.None) (int, error) {
	n, err := workflow.Record(ctx, func() (int, error) { return 7, nil })
	if err == nil {
		_, err = verdicts.Receive(ctx)
	}
	return n, err
}

// staff runs a worker on a store until the run has the given status.
func staff(t *testing.T, st store.Store, run workflow.RunID, status workflow.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(c, worker.Config{NoLocalStart: true})
	shim.BindWorkflow(w, noting, note)
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	for {
		info, err := c.Run(run).Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Status == status {
			break
		}
	}
	stop()
	if err := errors.Join(<-done, c.Close()); err != nil {
		t.Error(err)
	}
}

// The test proves that this release does not report a log with events of a newer release as
// damaged. It reports the newer release with an instruction, and fsck repairs nothing in the log.
func TestOPS1_FlowctlSaysThatANewerReleaseHasWrittenALog(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := &shop{t: t, url: url}
		st, err := store.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		c := workflow.NewClient(st, workflow.ClientConfig{})
		started, err := noting.Start(t.Context(), c, workflow.None{})
		if err != nil {
			t.Fatal(err)
		}
		run := string(started.ID())
		staff(t, newertest.New(st, event.ValueRecorded), started.ID(), workflow.StatusWaiting)
		newer := []string{"it has type 250", "use the release that wrote it, or a newer one: nothing is damaged"}
		for _, args := range [][]string{{"show", run}, {"show", run, "--events"}, {"show", run, "--json"}} {
			s.wants(4, []string{run, "shop.noting", "waiting"}, newer, args...)
		}
		s.wants(4, []string{"run_created"}, newer, "show", run, "--events")
		s.wants(4, []string{"run_created"}, newer, "follow", run)
		s.wants(0, []string{"waiting"}, nil, "runs")
		for range 2 {
			g := s.flowctl("fsck", "--repair", "-y", "--json")
			var checked admin.Checked
			if err := json.Unmarshal([]byte(g.stdout), &checked); err != nil || g.code != 7 || len(checked.Fixes) != 1 || checked.Done != 0 {
				t.Fatalf("fsck: %+v, %v", g, err)
			}
			if f := checked.Fixes[0]; f.Run != run || f.Outcome != "remains" || !strings.Contains(f.Why, "a newer release wrote it") {
				t.Errorf("fsck: %+v", f)
			}
		}
		s.wants(7, []string{"1 ", run, "remains", "its log is not damaged: a newer release wrote it; repair with that release"}, nil, "fsck")
		s.wants(0, nil, nil, "send", run, "verdict", "true")
		staff(t, st, started.ID(), workflow.StatusBlocked)
		s.wants(4, []string{"blocked", "use a newer release of flowgen"}, newer, "show", run)
		staff(t, newertest.New(st, event.ValueRecorded), started.ID(), workflow.StatusCompleted)
	})
}
