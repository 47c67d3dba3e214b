// Package schedule describes schedules: when runs of a workflow start, and what happens to a start
// while an earlier run is active. Definition.Schedule of package workflow creates a schedule, and
// package ops reads and changes schedules.
package schedule

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/internal/cron"
	"github.com/flowgen/flowgen/runtime/event"
)

// Spec determines the ticks at which runs of a workflow start. It also determines what happens to a
// tick if the run of an earlier tick is active. Definition.Schedule of package workflow gives the
// schedule a name and makes it durable.
type Spec struct {
	// When is a cron expression with an optional time zone, or an interval:
	//
	//	30 2 * * * Europe/Zurich
	//	every 10m
	//
	// The five fields are minute, hour, day of the month, month and day of the week. If both days
	// are restricted, a day that matches one of them is sufficient. The default zone is UTC. When
	// the clock of the zone changes, a skipped time fires at the moment of the change, and a
	// repeated time fires the first time. If the hour is * or */n, every existing hour fires.
	// Intervals are counted from 1 January 1970, so that the ticks do not depend on the time at
	// which the schedule was created.
	When string `json:"when"`
	// Overlap determines what happens to a tick while a run of the schedule is active. Empty means
	// Skip.
	Overlap Overlap `json:"overlap,omitempty"`
	// CatchUp is the maximum delay of a tick, without jitter, if no worker was running at its time.
	// 0 means [MaxCatchUp]. The minimum is 10 s. Allow and Queue start all missed ticks whose delay
	// does not exceed CatchUp. The other policies start only the newest one. Ticks with a longer
	// delay are not started, and are counted as missed.
	CatchUp time.Duration `json:"catchUp,omitempty"`
	// Jitter is the exclusive maximum of the additional delay of each tick. A tick of a schedule
	// always has the same delay. Jitter spreads the starts of schedules that fire at the same
	// minute. Ticks start in order, so a tick waits for earlier ones.
	Jitter time.Duration `json:"jitter,omitempty"`
}

// Overlap determines what happens to a tick while a run that the schedule has started is active.
type Overlap string

// The overlap policies.
const (
	// Skip skips the tick. It is the default.
	Skip Overlap = "skip"
	// Replace cancels the active run, and starts the new run when the active one has ended.
	Replace Overlap = "replace"
	// Queue starts the new run when all earlier runs have ended.
	Queue Overlap = "queue"
	// Latest starts the new run when the active run has ended, and cancels the runs that wait for
	// it.
	Latest Overlap = "latest"
	// Allow starts the new run in parallel with the other runs.
	Allow Overlap = "allow"
)

// overlaps contains all policies, for error texts.
var overlaps = []Overlap{Skip, Replace, Queue, Latest, Allow}

// MaxCatchUp is the maximum and the default of Spec.CatchUp: one year.
const MaxCatchUp = 365 * 24 * time.Hour

const minCatchUp = 10 * time.Second

// Error describes why a schedule is not valid, and how to fix it.
type Error struct {
	Name    string // name of the schedule
	Problem string
}

// Error returns a text that contains the schedule and the problem.
func (e *Error) Error() string { return fmt.Sprintf("schedule %q: %s", e.Name, e.Problem) }

// Next returns the first tick after the given time, in the zone of the schedule, without jitter.
// The error is a *Error if the schedule is not valid.
func (s Spec) Next(after time.Time) (time.Time, error) {
	if err := s.Check(""); err != nil {
		return time.Time{}, err
	}
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return time.Time{}, err
	}
	return ticks.Next(after), nil
}

// Check returns a *Error with the given name if the schedule is not valid.
func (s Spec) Check(name string) error {
	_, err := cron.Parse(s.When)
	if bad, ok := errors.AsType[*cron.Error](err); ok {
		return &Error{Name: name, Problem: fmt.Sprintf("%q: %s", bad.Text, bad.Problem)}
	}
	return s.CheckOptions(name)
}

// CheckOptions is like Check, but does not check When, whose time zone some machines may not have.
func (s Spec) CheckOptions(name string) error {
	problem := ""
	switch {
	case s.Overlap != "" && !slices.Contains(overlaps, s.Overlap):
		problem = fmt.Sprintf("overlap %q is not known: want one of %q", s.Overlap, overlaps)
	case s.CatchUp != 0 && (s.CatchUp < minCatchUp || s.CatchUp > MaxCatchUp):
		problem = fmt.Sprintf("a catch-up of %v is not possible: want %v to %v, or 0 for the maximum", s.CatchUp, minCatchUp, MaxCatchUp)
	case s.Jitter < 0:
		problem = fmt.Sprintf("a jitter of %v is not possible: want 0 or more", s.Jitter)
	}
	if problem == "" {
		return nil
	}
	return &Error{Name: name, Problem: problem}
}

// Info is the state of a schedule as last published by its run.
type Info struct {
	Name string `json:"name"`
	Spec
	Workflow string `json:"workflow"` // stored name of the workflow that the schedule starts
	Queue    string `json:"queue"`    // queue of the started runs
	Paused   bool   `json:"paused,omitempty"`
	Note     string `json:"note,omitempty"` // reason of the pause
	// Next is the next tick, without jitter. It is zero if the schedule is paused or if there is no
	// next tick.
	Next time.Time `json:"next,omitzero"`
	// Problem is the reason why no tick can be computed, for example a time zone that the worker
	// does not have.
	Problem string `json:"problem,omitempty"`
	// Backfills are the backfills that are not finished.
	Backfills []Backfill `json:"backfills,omitempty"`
	Started   int        `json:"started,omitempty"` // number of started runs
	// Skipped is the number of ticks that found another run active, or that were skipped for a
	// newer tick. Missed is the number of ticks that were later than CatchUp.
	Skipped int         `json:"skipped,omitempty"`
	Missed  int         `json:"missed,omitempty"`
	Recent  []Start     `json:"recent,omitempty"` // the last ten starts, oldest first
	Run     event.RunID `json:"run"`              // run of the workflow "flowgen.schedule"
	// Unserved reports that no live worker executes the schedule, see workflow.RunInfo.
	Unserved bool `json:"-"`
}

// Start is a run that a schedule has started or has tried to start.
type Start struct {
	Tick    time.Time   `json:"tick"`
	Run     event.RunID `json:"run"`
	Skipped string      `json:"skipped,omitempty"` // reason why the run was not started; empty: it was started
}

// Backfill is a range of past ticks that the schedule starts as if they were due, oldest first. It
// uses the definition of the schedule at the time of the start. A tick whose run exists is not
// started again.
type Backfill struct {
	From    time.Time `json:"from"`              // first tick
	To      time.Time `json:"to"`                // exclusive end of the range
	Overlap Overlap   `json:"overlap,omitempty"` // empty: the policy of the schedule
}
