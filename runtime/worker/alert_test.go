package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// receiver is a target that records what it gets.
type receiver struct {
	mu  sync.Mutex
	all []alert.Alert
	err func(n int) error // returned for the nth delivery; nil: none fails
	n   int
}

func (r *receiver) Deliver(_ context.Context, a *alert.Alert) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if r.err != nil {
		if err := r.err(r.n); err != nil {
			return err
		}
	}
	r.all = append(r.all, *a)
	return nil
}

// got returns the accepted alerts, ordered by workflow.
func (r *receiver) got() []alert.Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	slices.SortFunc(all, func(a, b alert.Alert) int { return cmp.Compare(a.Workflow+a.Rule, b.Workflow+b.Rule) })
	return all
}

// reports returns a configuration with one rule, whose alerts r receives. Its window is so long that
// a test stays in one.
func reports(r *receiver, some ...alert.Condition) alert.Config {
	return alert.Config{
		Rules:   []alert.Rule{{Name: "rule", Conditions: some, Window: alert.MaxWindow, Target: "ops"}},
		Targets: map[string]alert.Target{"ops": r}, Console: "https://console.example.com/flow",
	}
}

var failing = flowtest.Flow[int, int]("failing")

// failsWith is the code of a workflow that fails.
func failsWith(format string) func(workflow.Context, int) (int, error) {
	return func(_ workflow.Context, n int) (int, error) { return 0, fmt.Errorf(format, n) }
}

// passes moves the clock until cond holds. Before each step, the workers finish what they can do
// without one.
func passes(w *flowtest.World, what string, cond func() bool) {
	w.T.Helper()
	w.Eventually(what, func() bool {
		synctest.Wait()
		w.Clock.Advance(2 * time.Second)
		synctest.Wait()
		return cond()
	})
}

// alertRuns returns the runs that deliver alerts.
func alertRuns(w *flowtest.World) []workflow.RunID {
	w.T.Helper()
	return w.List(workflow.Filter{Workflow: event.AlertRun})
}

func TestOPS9_RunsOfAFailureGroupCauseOneAlertPerWindow(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		w.Work(worker.Config{Alerts: reports(r, alert.Failed)}, flowtest.As(failing, failsWith("no order %d")))
		first := flowtest.Start(w, failing, 1)
		flowtest.Failure(w, first)
		w.Eventually("the alert arrives", func() bool { return len(r.got()) == 1 })
		for n := range 9 {
			flowtest.Failure(w, flowtest.Start(w, failing, n+2))
		}
		w.StopWorkers() // delivers what is in the outbox
		got := r.got()
		if len(got) != 1 || len(alertRuns(w)) != 1 {
			t.Fatalf("alerts: got %+v in %d runs, want one", got, len(alertRuns(w)))
		}
		a := got[0]
		want := alert.Alert{
			ID: alertRuns(w)[0], Rule: "rule", Condition: alert.Failed, Target: "ops", Time: a.Time, Window: (&alert.Rule{Window: alert.MaxWindow}).WindowOf(a.Time), Workflow: "test.failing", Queue: "default",
			Run: first.ID(), Group: w.Record(first).Group, Code: "error", Message: "no order 1", Count: a.Count, Link: "https://console.example.com/flow/runs/" + string(first.ID()),
		}
		if a != want {
			t.Errorf("alert: got %+v\nwant %+v", a, want)
		}
		if a.Count < 1 || a.Count > 10 {
			t.Errorf("count: got %d, want 1 to 10", a.Count)
		}
		var internal *workflow.InternalRunError
		if err := w.Client.Run(a.ID).Cancel(w.Ctx, ""); !errors.As(err, &internal) || !strings.Contains(err.Error(), "see alerts") {
			t.Errorf("cancel of an alert: got %v, want a refusal that refers to the list of alerts", err)
		}
		if open := w.List(workflow.Filter{}); len(open) != 10 {
			t.Errorf("runs of users: got %d, want 10 without the alert", len(open))
		}
		w.Healthy()
	})
}

func TestOPS9_AnAlertIsTriedUntilItsTargetAcceptsIt(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{err: func(n int) error {
			if n < 6 {
				return errors.New("not now")
			}
			return nil
		}}
		w.Work(worker.Config{Alerts: reports(r, alert.Failed)}, flowtest.As(failing, failsWith("no order %d")))
		flowtest.Failure(w, flowtest.Start(w, failing, 1))
		passes(w, "the alert arrives", func() bool { return len(r.got()) == 1 })
		if r.n != 6 {
			t.Errorf("attempts: got %d, want 6", r.n)
		}
	})
}

func TestOPS9_EachWorkflowAndEachRuleHasItsOwnAlert(t *testing.T) {
	w := flowtest.NewMemory(t)
	r, parent := &receiver{}, flowtest.Flow[int, int]("parent")
	cfg := reports(r, alert.Failed)
	cfg.Rules = append(cfg.Rules,
		alert.Rule{Name: "roots", Conditions: []alert.Condition{alert.Failed}, Filter: alert.Filter{Roots: true}, Target: "ops"},
		alert.Rule{Name: "others", Conditions: []alert.Condition{alert.Failed}, Filter: alert.Filter{Workflows: []string{"test.other"}}, Target: "ops"},
		alert.Rule{Name: "tenant", Conditions: []alert.Condition{alert.Failed}, Filter: alert.Filter{Tags: map[string]string{"tenant": "7"}}, Target: "ops"},
		alert.Rule{Name: "queue", Conditions: []alert.Condition{alert.Failed}, Filter: alert.Filter{Queues: []string{"elsewhere"}}, Target: "ops"},
		alert.Rule{Name: "poison", Conditions: []alert.Condition{alert.Poisoned}, Target: "ops"},
	)
	w.Work(worker.Config{Alerts: cfg}, flowtest.As(failing, failsWith("no order %d")), flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) {
		return failing.Child(ctx, n)
	}))
	flowtest.Failure(w, flowtest.Start(w, parent, 1, workflow.WithTags(map[string]string{"tenant": "7"})))
	flowtest.Failure(w, flowtest.Start(w, parent, 2, workflow.WithTags(map[string]string{"tenant": "8"})))
	var got []string
	w.Eventually("the alerts arrive", func() bool { return len(r.got()) >= 4 })
	w.StopWorkers()
	for _, a := range r.got() {
		got = append(got, a.Rule+" "+a.Workflow)
	}
	if want := []string{"rule test.failing", "roots test.parent", "rule test.parent", "tenant test.parent"}; !slices.Equal(got, want) {
		t.Errorf("alerts: got %q, want %q", got, want)
	}
}

func TestOPS9_ARunThatIsRerunIsReportedOnceItFailsFinally(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		again := shim.NewWorkflow[int, int]("test.again", "n", shim.WorkflowPolicy{Rerun: workflow.RetryPolicy{Attempts: 3, Initial: time.Minute}})
		w.Work(worker.Config{Alerts: reports(r, alert.Failed)}, flowtest.As(again, failsWith("no order %d")))
		flowtest.Start(w, again, 1)
		passes(w, "three runs fail and the last one is reported", func() bool { return len(w.List(workflow.Filter{Workflow: "test.again"})) == 3 && len(r.got()) == 1 })
		last := w.List(workflow.Filter{Workflow: "test.again"})[0]
		if got := r.got()[0].Run; got != last {
			t.Errorf("reported run: got %s, want the last one, %s", got, last)
		}
		// A retry by hand and a fork that fail in the same window are in the same group.
		if _, err := again.Get(w.Client, last).Retry(w.Ctx); err != nil {
			t.Fatal(err)
		}
		passes(w, "the retried run fails", func() bool {
			return len(w.List(workflow.Filter{Workflow: "test.again", Statuses: []workflow.Status{workflow.StatusFailed}})) >= 4
		})
		w.StopWorkers()
		if got := r.got(); len(got) != 1 {
			t.Errorf("alerts after a retry in the same window: got %d, want 1", len(got))
		}
	})
}

func TestOPS9_ANewWindowReportsTheGroupAgain(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		cfg := reports(r, alert.Failed)
		cfg.Rules[0].Window = 10 * time.Minute
		w.Work(worker.Config{Alerts: cfg}, flowtest.As(failing, failsWith("no order %d")))
		for n := range 30 { // one failure per minute, in three or four windows
			flowtest.Failure(w, flowtest.Start(w, failing, n))
			for range 6 {
				w.Clock.Advance(10 * time.Second)
				synctest.Wait()
			}
		}
		w.StopWorkers()
		windows, seen := map[time.Time]int{}, map[workflow.RunID]bool{}
		for _, a := range r.got() {
			if !seen[a.ID] { // a takeover may deliver an alert twice
				windows[a.Window]++
			}
			seen[a.ID] = true
		}
		for at, n := range windows {
			if n != 1 || at.Minute()%10 != 0 {
				t.Errorf("window %v: got %d alerts, want 1", at, n)
			}
		}
		if len(windows) < 3 || len(windows) > 4 {
			t.Errorf("windows: got %d, want 3 or 4", len(windows))
		}
	})
}

func TestOPS9_ARunThatNoWorkerServesIsReportedWhenItsTimeIsOver(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		w.Work(worker.Config{Alerts: reports(r, alert.Failed), Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, flowtest.Echoes)
		run := flowtest.Start(w, killerFlow, 1, workflow.WithRunTimeout(time.Minute))
		passes(w, "the alert arrives", func() bool { return len(r.got()) > 0 })
		if got := r.got()[0]; got.Run != run.ID() || got.Code != event.CodeTimeout {
			t.Errorf("alert: got %+v, want the timeout of %s", got, run.ID())
		}
	})
}

func TestOPS9_TheEventThatEndsARunNamesItsAlerts(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Alerts: reports(&receiver{}, alert.Failed)}, flowtest.As(failing, failsWith("no order %d")))
	run := flowtest.Start(w, failing, 1)
	flowtest.Failure(w, run)
	log := w.Log(run)
	var named []struct {
		Run    event.RunID
		Target string
	}
	if err := json.Unmarshal(log[len(log)-1].Meta, &named); err != nil || len(named) != 1 || named[0].Target != "ops" {
		t.Errorf("alerts in the log: got %+v and %v, want one for ops", named, err)
	}
}

func TestOPS9_WithoutAlertsNothingIsRecordedAndNothingIsServed(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(failing, failsWith("no order %d")))
	run := flowtest.Start(w, failing, 1)
	flowtest.Failure(w, run)
	w.StopWorkers()
	log, left := w.Log(run), w.Snapshot()
	if last := log[len(log)-1]; last.Meta != nil || len(left.Outbox) != 0 || len(left.Runs) != 1 {
		t.Errorf("got the alerts %s, %d records and %d runs, want one run", last.Meta, len(left.Outbox), len(left.Runs))
	}
	for _, e := range left.Entries {
		if e.Space == store.AlertSpace || e.Key == event.AlertRun {
			t.Errorf("entry of alerts: %+v", e)
		}
	}
}
