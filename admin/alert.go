package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Alert is an alert and the state of its delivery.
type Alert struct {
	alert.Alert
	State    string    `json:"state"` // one of the delivery states below
	Attempts int       `json:"attempts,omitempty"`
	At       time.Time `json:"deliveredAt,omitzero"`
	Error    string    `json:"error,omitempty"` // why the last attempt has failed
	Next     time.Time `json:"next,omitzero"`   // time of the next attempt
	Unserved bool      `json:"unserved,omitempty"`
}

// The states of the delivery of an alert.
const (
	AlertPending   = "pending"   // it waits for a worker that has its target, or for its first attempt
	AlertRetrying  = "retrying"  // its target has not accepted it yet
	AlertDelivered = "delivered" // its target has accepted it
	AlertFailed    = "failed"    // its target has not accepted it for a day, or its delivery was ended
)

// AlertPage is a page of alerts, the newest first.
type AlertPage struct {
	Alerts []Alert `json:"alerts"`
	Cursor string  `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
}

// AlertFilter selects a page of alerts.
type AlertFilter struct {
	Target string // name of the target; empty selects all
	Cursor string // cursor of the previous page
	Limit  int    // alerts per page; 0 means 100
}

// RunReader reads runs. A [Service] and a client of a server are RunReaders.
type RunReader interface {
	Runs(ctx context.Context, f Filter) (RunPage, error)
	Run(ctx context.Context, ref string) (Run, error)
}

// Alerts returns a page of alerts. It needs the rights to list runs and to read one. A reader
// without [RolePayloads] gets only the ID, the target and the time of each alert, and the state of its delivery. An
// alert has the tags of the run that it reports, so a reader with an owner gets the alerts about
// runs of this owner.
func Alerts(ctx context.Context, s RunReader, f AlertFilter) (AlertPage, error) {
	runs := Filter{Workflow: event.AlertRun, Cursor: f.Cursor, Limit: f.Limit}
	if f.Target != "" {
		runs.Queue = event.AlertQueue + f.Target
	}
	page, err := s.Runs(ctx, runs)
	if err != nil {
		return AlertPage{}, err
	}
	got := AlertPage{Alerts: []Alert{}, Cursor: page.Cursor}
	for i := range page.Runs {
		run, err := s.Run(ctx, page.Runs[i].ID)
		if p := ProblemOf(err); errors.Is(err, workflow.ErrRunNotFound) || p != nil && p.Code == CodeNotFound {
			continue // it was purged after it was listed
		}
		if err != nil {
			return AlertPage{}, err
		}
		got.Alerts = append(got.Alerts, alertOf(&run))
	}
	return got, nil
}

// alertOf returns the alert that a run delivers.
func alertOf(run *Run) Alert {
	var in struct {
		Alert alert.Alert `json:"alert"`
	}
	_ = json.Unmarshal(run.Input, &in) // it is empty if the reader may not see payloads
	a := Alert{Alert: in.Alert, State: AlertPending, Unserved: run.Unserved}
	a.ID, a.Time = event.RunID(run.ID), cmp.Or(a.Time, run.CreatedAt)
	if len(run.Queue) > len(event.AlertQueue) {
		a.Target = run.Queue[len(event.AlertQueue):]
	}
	switch run.Status {
	case string(workflow.StatusCompleted):
		var done alert.Delivery
		_ = json.Unmarshal(run.Result, &done)
		a.State, a.Attempts, a.At = AlertDelivered, done.Attempts, cmp.Or(done.At, run.EndedAt)
	case string(workflow.StatusFailed), string(workflow.StatusCanceled):
		a.State = AlertFailed
		if run.Failure != nil {
			a.Error = run.Failure.Message
		}
	}
	if len(run.Retries) > 0 {
		r := &run.Retries[0]
		a.State, a.Attempts, a.Error, a.Next = AlertRetrying, r.Attempt, r.Failed, r.Next
	}
	return a
}

// AlertColumns are the columns of lists of alerts.
var AlertColumns = []Column[Alert]{
	{Name: "time", Title: "Time", Kind: KindTime, Value: func(a *Alert, _ time.Time) any { return a.Time }},
	{Name: "state", Title: "State", Value: func(a *Alert, _ time.Time) any { return a.State }},
	{Name: "condition", Title: "Condition", Width: WidthMedium, Value: func(a *Alert, _ time.Time) any { return string(a.Condition) }},
	{Name: "workflow", Title: "Workflow", Value: func(a *Alert, _ time.Time) any { return cmp.Or(a.Workflow, a.Group) }},
	{Name: "target", Title: "Target", Width: WidthMedium, Value: func(a *Alert, _ time.Time) any { return a.Target }},
	{Name: "message", Title: "Message", Value: func(a *Alert, _ time.Time) any { return cmp.Or(a.Error, a.Message) }},
	{Name: "rule", Title: "Rule", Width: WidthWide, Value: func(a *Alert, _ time.Time) any { return a.Rule }},
	{Name: "run", Title: "Run", Kind: KindCode, Width: WidthWide, Value: func(a *Alert, _ time.Time) any { return string(a.Run) }},
	{Name: "group", Title: "Group", Kind: KindCode, Width: WidthWide, Value: func(a *Alert, _ time.Time) any { return a.Group }},
	{Name: "attempts", Title: "Attempts", Kind: KindNumber, Width: WidthWide, Value: func(a *Alert, _ time.Time) any { return a.Attempts }},
	{Name: "next", Title: "Next attempt", Kind: KindTime, Width: WidthWide, Value: func(a *Alert, _ time.Time) any { return a.Next }},
	{Name: "deliveredAt", Title: "Delivered", Kind: KindTime, Width: WidthWide, Value: func(a *Alert, _ time.Time) any { return a.At }},
	{Name: "id", Title: "ID", Kind: KindCode, Width: WidthWideTable, Value: func(a *Alert, _ time.Time) any { return string(a.ID) }},
}
