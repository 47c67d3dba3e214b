package alerting_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/alerting"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// examined is a store with a doctor.
type examined struct {
	store.Store
	report store.Report
	exams  int
}

func (e *examined) Unwrap() store.Store { return e.Store }

func (e *examined) Examine(context.Context) (store.Report, error) {
	e.exams++
	return e.report, nil
}

func newAlerting(t *testing.T, st store.Store, rules ...alert.Rule) *alerting.Alerting {
	t.Helper()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	return alerting.New(alerting.Params{
		Config: alert.Config{Rules: rules}, Client: client, Store: st, Log: slog.New(slog.DiscardHandler), Worker: "w", Chance: func() float64 { return 0 },
	})
}

func TestOPS9_APoisonedRunFulfilsTheMostSpecificConditionOfARule(t *testing.T) {
	a := newAlerting(t, memstore.New(),
		alert.Rule{Name: "both", Conditions: []alert.Condition{alert.Failed, alert.Poisoned}, Target: "ops"},
		alert.Rule{Name: "failed", Conditions: []alert.Condition{alert.Failed}, Target: "ops"},
		alert.Rule{Name: "poisoned", Conditions: []alert.Condition{alert.Poisoned}, Target: "ops"},
	)
	state := &event.LogState{Spec: &event.Spec{Workflow: "w", Queue: "q"}}
	for code, want := range map[string][]string{
		event.CodePoisoned: {"both poisoned", "failed failed", "poisoned poisoned"},
		event.CodeError:    {"both failed", "failed failed"},
	} {
		var got []string
		for _, of := range a.Ended(event.NewRunID(time.Now(), 1), state, &event.Event{Time: time.Now(), Type: event.RunFailed, Failure: &event.Failure{Code: code}}) {
			var in struct{ Alert alert.Alert }
			if err := json.Unmarshal(of.Input, &in); err != nil || in.Alert.ID != of.Run {
				t.Fatalf("input: got %s and %v", of.Input, err)
			}
			got = append(got, in.Alert.Rule+" "+string(in.Alert.Condition))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}

func TestOPS9_OneWorkerOfAFleetReportsTheFindingsOfTheDoctor(t *testing.T) {
	st := &examined{Store: memstore.New(), report: store.Report{Findings: []store.Finding{
		{Check: "eviction", Severity: store.SeverityFail, Node: "a", Found: "allkeys-lru"}, {Check: "memory", Severity: store.SeverityInfo}, {Check: store.CheckSight, Severity: store.SeverityWarn},
	}}}
	rule := alert.Rule{Name: "doctor", Conditions: []alert.Condition{alert.Doctor}, Window: alert.MaxWindow, Target: "ops"}
	for range 100 { // workers
		if err := newAlerting(t, st, rule).Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if st.exams != 1 {
		t.Errorf("examinations of 100 workers in a minute: got %d, want 1", st.exams)
	}
	got, err := st.Load(t.Context(), []store.Load{{Run: event.AlertRunID("doctor", "doctor:eviction@a", rule.WindowOf(st.Clock().Now()))}})
	if err != nil || got[0].Err != nil || got[0].Record.Route != (store.Route{Queue: "flowgen.alerts.ops", Workflow: "flowgen.alert"}) {
		t.Errorf("run of the alert: got %+v and %v", got, err)
	}
	if err := newAlerting(t, st).Scan(t.Context()); err != nil || st.exams != 1 {
		t.Errorf("a worker without rules: got %v and %d examinations", err, st.exams)
	}
}
