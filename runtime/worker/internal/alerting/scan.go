package alerting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// scanEvery is the interval of scans. Each worker with rules reads one entry per interval. The first
// one whose write of the entry succeeds performs the scan, so the cost of a scan does not depend on
// the number of workers.
const scanEvery = time.Minute

// These constants bound a scan.
const (
	scanGroups = 200 // failure groups
	scanRuns   = 20  // runs of a group that are examined for each rule
	scanFrames = 500 // frames of a log that are read to find out how long a step has been retried
)

// turn is the entry by which workers agree on the worker that scans.
type turn struct {
	At     time.Time `json:"at"`
	Worker string    `json:"worker"`
	// Rules identifies the rules of the worker. During a rolling deployment, workers with different
	// rules take turns of their own.
	Rules string `json:"rules"`
	// Missed contains the schedules that had missed ticks at the last scan, with the numbers of
	// these ticks. It is nil if no scan has read the schedules.
	Missed map[string]int `json:"missed"`
	// Idle contains the schedules that no worker executes, with the time of the scan that has found
	// them first.
	Idle map[string]time.Time `json:"idle,omitempty"`
	// Waits contains the run that waits for a worker, by queue and workflow. See waiting.
	Waits map[string]waiting `json:"waits,omitempty"`
}

// Run scans until ctx ends.
func (a *Alerting) Run(ctx context.Context) {
	for wait.For(ctx, a.Store.Clock(), time.Duration((0.8+0.4*a.Chance())*float64(scanEvery))) {
		if err := a.Scan(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			a.Log.Warn("the scan for alerts is incomplete and will be repeated", "worker", a.Worker, "error", err)
		}
	}
}

// Scan takes the turn of this minute, unless another worker with the same rules has taken it, and
// creates the alerts for all conditions that it finds.
func (a *Alerting) Scan(ctx context.Context) error {
	entries, ok := store.As[store.Entries](a.Store)
	if !ok || len(a.Config.Rules) == 0 {
		return nil
	}
	key, now := a.rules(), a.Store.Clock().Now()
	found, err := entries.Entries(ctx, store.EntryQuery{Space: store.AlertSpace, From: key, Limit: 1})
	if err != nil {
		return fmt.Errorf("read the turn of the scan: %w", err)
	}
	var last turn
	var old []byte
	if len(found) == 1 && found[0].Key == key {
		old = found[0].Value
		_ = json.Unmarshal(old, &last) // a damaged entry counts as an old one
	}
	if now.Sub(last.At) < scanEvery*3/4 && now.After(last.At) {
		return nil
	}
	if last.Missed == nil && len(a.with(alert.MissedSchedule)) > 0 {
		if last.Missed, err = missedBefore(ctx, entries); err != nil {
			return fmt.Errorf("read the turns of scans with other rules: %w", err)
		}
	}
	next := turn{At: now, Worker: a.Worker, Rules: key, Missed: last.Missed, Idle: last.Idle, Waits: last.Waits}
	mine, err := a.take(ctx, entries, old, &next)
	if errors.Is(err, store.ErrEntryChanged) {
		return nil // another worker scans
	}
	if err != nil {
		return fmt.Errorf("take the turn of the scan: %w", err)
	}
	s := &scan{Alerting: a, now: now, since: now.Add(-2 * scanEvery)}
	if !last.At.IsZero() && last.At.Before(s.since) {
		s.since = last.At.Add(-scanEvery) // no worker has scanned since
	}
	if err := s.all(ctx, &next); err != nil {
		return err
	}
	_, err = a.take(ctx, entries, mine, &next) // after the alerts, so that a crash reports a missed tick again
	return err
}

// otherRules is the maximum number of turns of workers with other rules that are read.
const otherRules = 100

// missedBefore returns the numbers of missed ticks of the newest scan with other rules that has read
// the schedules, or nil if there is none. The first workers with new rules report by it the ticks
// that were missed before they were started.
func missedBefore(ctx context.Context, entries store.Entries) (map[string]int, error) {
	found, err := entries.Entries(ctx, store.EntryQuery{Space: store.AlertSpace, Limit: otherRules})
	var newest turn
	for i := range found {
		var t turn
		if json.Unmarshal(found[i].Value, &t) == nil && t.Missed != nil && t.At.After(newest.At) {
			newest = t
		}
	}
	return newest.Missed, err
}

// rules returns a key for the rules of this worker.
func (a *Alerting) rules() string {
	var names []string
	for i := range a.Config.Rules {
		r := &a.Config.Rules[i]
		names = append(names, fmt.Sprintf("%q %q %v %d %d %q", r.Name, r.Conditions, r.Filter, r.Window, r.After, r.Target))
	}
	slices.Sort(names)
	return string(event.DerivedItemID("", strings.Join(names, "\n")))
}

// take writes the entry of a turn unless it is old, and returns it.
func (a *Alerting) take(ctx context.Context, entries store.Entries, old []byte, t *turn) ([]byte, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(body, old) {
		return body, nil
	}
	err = entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: store.AlertSpace, Key: t.Rules, Value: body}, Match: true, Old: bytes.Clone(old)})
	return body, err
}

// scan is one search for conditions.
type scan struct {
	*Alerting
	now   time.Time
	since time.Time // earlier failures were found by earlier scans
}

// all searches for all conditions. An error in one search does not prevent the others.
func (s *scan) all(ctx context.Context, t *turn) error {
	var failed error
	for _, look := range []func(context.Context, *turn) error{s.groups, s.queues, s.schedules, s.doctor} {
		if err := look(ctx, t); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// with returns the rules that have one of the conditions.
func (a *Alerting) with(some ...alert.Condition) (rules []*alert.Rule) {
	for i := range a.Config.Rules {
		if r := &a.Config.Rules[i]; r.Has(some...) {
			rules = append(rules, r)
		}
	}
	return rules
}

// known reports whether the alert of a rule about a group exists, for the window that contains at.
func (s *scan) known(ctx context.Context, r *alert.Rule, group string, at time.Time) (bool, error) {
	got, err := s.Store.Load(ctx, []store.Load{{Run: event.AlertRunID(r.Name, group, r.WindowOf(at)), Limit: -1}})
	if err != nil {
		return false, err
	}
	if errors.Is(got[0].Err, store.ErrRunNotFound) {
		return false, nil
	}
	return got[0].Err == nil, got[0].Err
}

// create creates an alert, unless it exists.
func (s *scan) create(ctx context.Context, a effects.Alert) error {
	req, err := a.Create(s.now)
	if err != nil {
		return err
	}
	got, err := s.Store.Create(ctx, []store.Create{req})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return fmt.Errorf("create alert %s: %w", a.Run, err)
	}
	return nil
}

// schedules reports schedules whose tick is late, that have missed ticks since the last scan, or that
// no worker has executed for long.
func (s *scan) schedules(ctx context.Context, t *turn) error {
	rules := s.with(alert.MissedSchedule)
	if len(rules) == 0 {
		return nil
	}
	missed, idle := map[string]int{}, map[string]time.Time{}
	for info, err := range s.ops.Schedules().List(ctx) {
		if err != nil {
			return err
		}
		if info.Missed > 0 {
			missed[info.Name] = info.Missed
		}
		before := t.Missed[info.Name] // 0 for a schedule that is newer than the last scan
		since, known := t.Idle[info.Name]
		if !known {
			since = s.now
		}
		if info.Unserved && !info.Paused {
			idle[info.Name] = since
		}
		for _, r := range rules {
			what := ""
			switch {
			case info.Problem != "":
				what = "no tick can be computed: " + info.Problem
			case !info.Next.IsZero() && s.now.Sub(info.Next) > r.Patience()+info.Jitter:
				what = "the tick of " + info.Next.UTC().Format(time.RFC3339) + " is late"
			case info.Unserved && !info.Paused && s.now.Sub(since) >= r.Patience():
				what = "no worker executes it"
			case t.Missed != nil && info.Missed > before:
				what = fmt.Sprintf("%d ticks were missed because no worker was running", info.Missed-before)
			default:
				continue
			}
			err := s.create(ctx, s.alert(r, alert.MissedSchedule, s.now, "schedule:"+info.Name, alert.Alert{
				Workflow: info.Workflow, Queue: info.Queue, Message: "schedule " + info.Name + ": " + what, Link: s.Config.PageLink("schedules"),
			}, nil))
			if err != nil {
				return err
			}
		}
	}
	t.Missed, t.Idle = missed, idle
	return nil
}

// doctor reports the findings of the doctor of the store.
func (s *scan) doctor(ctx context.Context, _ *turn) error {
	rules := s.with(alert.Doctor)
	doctor, ok := store.As[store.Doctor](s.Store)
	if len(rules) == 0 || !ok {
		return nil
	}
	report, err := doctor.Examine(ctx)
	if err != nil {
		return err
	}
	for _, f := range report.Findings {
		if f.Severity < store.SeverityWarn || f.Check == store.CheckSight {
			continue
		}
		for _, r := range rules {
			err := s.create(ctx, s.alert(r, alert.Doctor, s.now, "doctor:"+f.Check+"@"+f.Node, alert.Alert{Message: f.String(), Link: s.Config.PageLink("checks")}, nil))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
