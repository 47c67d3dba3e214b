package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/internal/cron"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Schedule determines when the clock starts a workflow, and what happens to a tick if the run of an
// earlier tick is still active. [Definition.Schedule] names the schedule and makes it durable.
type Schedule struct {
	// When is a cron expression with an optional time zone, or an interval:
	//
	//	30 2 * * * Europe/Zurich
	//	every 10m
	//
	// The five fields are minute, hour, day of the month, month and day of the week; if both days
	// are restricted, a match of one of them is enough. The default zone is UTC. When the clock of
	// the zone changes, a skipped time fires at the moment of the change, and a repeated time fires
	// the first time; if the hour is * or */n, every existing hour fires. Intervals are counted
	// from 1 January 1970, so that the ticks do not depend on when anything was started.
	When string `json:"when"`
	// Overlap determines what happens to a tick while a run of the schedule is active; empty means
	// OverlapSkip.
	Overlap Overlap `json:"overlap,omitempty"`
	// CatchUp is how late a tick may start, excluding jitter, if no worker was running at its time;
	// 0 means one year, which is also the maximum; the minimum is 10 s. Of the ticks missed within
	// that time, OverlapAllow and OverlapQueue start all, the other policies only the newest. Older
	// ticks are lost, and counted as missed.
	CatchUp time.Duration `json:"catchUp,omitempty"`
	// Jitter is the exclusive upper bound of the delay of each tick. The delay is always the same
	// for one tick of one schedule. It spreads the starts of schedules that fire at the same
	// minute. Ticks start in order, so a tick waits for earlier ones.
	Jitter time.Duration `json:"jitter,omitempty"`
}

// Overlap determines what happens to a tick while a run started by the schedule is active.
type Overlap string

// The overlap policies.
const (
	// OverlapSkip skips the tick. It is the default.
	OverlapSkip Overlap = "skip"
	// OverlapReplace cancels the active run, and starts the new one when that has ended.
	OverlapReplace Overlap = "replace"
	// OverlapQueue starts the new run when the earlier ones have ended.
	OverlapQueue Overlap = "queue"
	// OverlapLatest starts the new run when the active one has ended, and cancels those that wait.
	OverlapLatest Overlap = "latest"
	// OverlapAllow starts the new run in parallel with the others.
	OverlapAllow Overlap = "allow"
)

// overlaps contains all policies, for error texts.
var overlaps = []Overlap{OverlapSkip, OverlapReplace, OverlapQueue, OverlapLatest, OverlapAllow}

// each reports whether every due tick starts a run, rather than only the newest one.
func (o Overlap) each() bool { return o == OverlapAllow || o == OverlapQueue }

// policy returns the policy for the workflow ID that the runs share unless they may overlap.
func (o Overlap) policy() ActivePolicy {
	switch o {
	case OverlapReplace:
		return CancelActive
	case OverlapQueue:
		return QueueActive
	case OverlapLatest:
		return LatestActive
	}
	return FailActive
}

// The bounds of Schedule.CatchUp.
const (
	maxCatchUp = 365 * 24 * time.Hour
	minCatchUp = 10 * time.Second
)

// ScheduleError describes why a schedule is not valid, and how to fix it.
type ScheduleError struct {
	Name    string // name of the schedule
	Problem string
}

// Error returns a text with the schedule and the problem.
func (e *ScheduleError) Error() string { return fmt.Sprintf("schedule %q: %s", e.Name, e.Problem) }

// Next returns the first tick after a time, in the zone of the schedule, without jitter. The error
// is a *ScheduleError if the schedule is not valid.
func (s Schedule) Next(after time.Time) (time.Time, error) {
	if err := s.check(""); err != nil {
		return time.Time{}, err
	}
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return time.Time{}, err
	}
	return ticks.Next(after), nil
}

// check returns a *ScheduleError if the schedule is not valid.
func (s Schedule) check(name string) error {
	_, err := cron.Parse(s.When)
	if bad, ok := errors.AsType[*cron.Error](err); ok {
		return &ScheduleError{Name: name, Problem: fmt.Sprintf("%q: %s", bad.Text, bad.Problem)}
	}
	return s.checkWays(name)
}

// checkWays checks the parts of a schedule that do not depend on the machine. A time zone may be
// unknown on some machines.
func (s Schedule) checkWays(name string) error {
	problem := ""
	switch {
	case s.Overlap != "" && !slices.Contains(overlaps, s.Overlap):
		problem = fmt.Sprintf("overlap %q is not known: want one of %q", s.Overlap, overlaps)
	case s.CatchUp != 0 && (s.CatchUp < minCatchUp || s.CatchUp > maxCatchUp):
		problem = fmt.Sprintf("a catch-up of %v is not possible: want %v to %v, or 0 for the most", s.CatchUp, minCatchUp, maxCatchUp)
	case s.Jitter < 0:
		problem = fmt.Sprintf("a jitter of %v is not possible: want 0 or more", s.Jitter)
	}
	if problem == "" {
		return nil
	}
	return &ScheduleError{Name: name, Problem: problem}
}

// checkSchedule returns a *ScheduleError if name is not valid for a schedule.
func checkSchedule(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return &ScheduleError{Name: name, Problem: fmt.Sprintf("the name has %d bytes: want 1 to %d", len(name), maxName)}
	case store.CheckName("name", name) != nil:
		return &ScheduleError{Name: name, Problem: "the name is not UTF-8, or holds a zero byte"}
	case event.TicksRunID(strings.TrimSuffix(name, "/run")) == event.ScheduleRunID(name):
		return &ScheduleError{Name: name, Problem: "the name ends in /run, which the workflow ids of the runs of schedules end in"}
	}
	return nil
}

// The tags of the runs that a schedule starts.
const (
	TagSchedule = "flowgen.schedule" // the name of the schedule
	TagTick     = "flowgen.tick"     // the tick in the format time.RFC3339, or the ID of the trigger
)

// Tick returns the tick for which a schedule started the run: its nominal time, regardless of how
// late the run is. It returns false if the run was started by a trigger or without a schedule.
func Tick(ctx Context) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, ctx.branch().Spec().Tags[TagTick])
	return t, err == nil
}

// Schedule makes the clock start the workflow from now on, each time with this input. It creates
// the schedule with this name, which must not end in "/run", or replaces its definition: ticks
// before the call follow the old definition, and a pause remains. A repeated call with the same
// arguments changes nothing. Package ops has the other operations on
// schedules.
//
// When it returns nil the schedule is durable. It is a run of the workflow "flowgen.schedule" with
// the workflow ID "schedule:" + name, on the queue of the workflow that it starts, and any worker
// of that queue executes it. If the queue changes, the schedule moves after a worker of the old
// queue has processed the change, so such a worker must exist until then. Each tick starts one run,
// regardless of the number of workers and of crashes; the ID of the run is derived from the name
// and the tick.
//
// The options apply to the runs: queue, tags, priority, WithStartBy, timeout and retention. Errors:
// a *[ScheduleError]; a *[PayloadError]; an *[InvalidError] if a store would not accept the runs;
// one that matches ErrWrongWorkflow if another workflow has the workflow ID. After any other error,
// repeat the call.
func (d Definition[In, Out]) Schedule(ctx context.Context, c *Client, name string, s Schedule, in In, opts ...RunOption) error {
	set, err := d.def().scheduled(c, name, s, in, opts)
	if err != nil {
		return err
	}
	return c.putSchedule(ctx, name, set)
}

// scheduled returns the stored definition of a schedule.
func (d *definition) scheduled(c *Client, name string, s Schedule, in any, opts []RunOption) (*scheduled, error) {
	if err := errors.Join(checkSchedule(name), s.check(name)); err != nil {
		return nil, err
	}
	o := d.options()
	for _, opt := range opts {
		opt(&o)
	}
	d.rank(&o, in, 0)
	problem := ""
	switch {
	case d.singleton != nil:
		problem = "the workflow is a singleton, and the runs of a schedule have a workflow id of that: Overlap decides what a tick does that finds an active run"
	case d.collect != nil:
		problem = "starts of the workflow share a run: let the schedule start one that starts it from a step"
	case o.err != nil:
		problem = o.err.Error()
	case o.workflowID != "" || o.policy != IDPolicy{}:
		problem = "WithID: the runs have a workflow id of the schedule: leave it out"
	case o.delay != 0 || !o.at.IsZero():
		problem = "WithDelay and WithStartAt: the schedule decides when the runs begin: leave them out"
	}
	if problem != "" {
		return nil, &ScheduleError{Name: name, Problem: problem}
	}
	input, err := d.input(c, in)
	if err != nil {
		return nil, err
	}
	fair, share, err := d.share(in)
	if err != nil {
		return nil, err
	}
	does := &scheduled{
		Schedule: s, Workflow: d.name, Queue: o.queue, Input: input, Priority: o.priority, StartWithin: o.begin,
		Timeout: o.timeout, Retention: o.retention, Tags: o.tags, Fair: fair, Share: share,
	}
	if d.uses != nil {
		uses, home, err := permits.Merge(d.uses(in))
		if err != nil {
			return nil, &ScheduleError{Name: name, Problem: err.Error()}
		}
		does.Uses = uses
		if len(permits.Fleet(uses)) > 0 {
			does.PermitSlot = int(home) + 1 // its runs are in the partition of the schedule's name
		}
	}
	err = does.check(name)
	return does, err
}

// check returns an error for runs that no store would accept at a tick, for example with tags that
// are too long, and for workflows of the runtime. At the tick no caller could receive the error.
func (s *scheduled) check(name string) error {
	switch {
	case event.Reserved(s.Workflow):
		return &ScheduleError{Name: name, Problem: "the workflow " + s.Workflow + " is the runtime's own: no schedule starts it"}
	case s.Queue == "":
		return &ScheduleError{Name: name, Problem: "its runs have no queue"}
	}
	spec := s.spec(name, tickID(time.Unix(0, 1)), s.Overlap)
	c := store.Create{
		Route: store.Route{Workflow: spec.Workflow, Queue: spec.Queue}, WorkflowID: spec.WorkflowID, Tags: spec.Tags, Priority: spec.Priority,
		Fair: spec.Fair, Share: spec.Share, Uses: permits.Stored(spec.Uses),
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return nil
}

// scheduled is the stored form of a schedule and of the run that it starts.
type scheduled struct {
	Schedule
	Workflow    string            `json:"workflow"`
	Queue       string            `json:"queue"`
	Input       json.RawMessage   `json:"input,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	StartWithin time.Duration     `json:"startWithin,omitempty"`
	Timeout     time.Duration     `json:"timeout,omitempty"`
	Retention   time.Duration     `json:"retention,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Fair        string            `json:"fair,omitempty"`
	Share       int               `json:"share,omitempty"`
	// Uses are the limits that a run uses. PermitSlot is as in event.Spec.
	Uses       []event.Use `json:"uses,omitempty"`
	PermitSlot int         `json:"permitSlot,omitempty"`
}

// same reports whether two schedules have the same definition.
func (s *scheduled) same(other *scheduled) bool {
	a, _ := json.Marshal(s)     //nolint:musttag // it is only compared; plain data always encodes
	b, _ := json.Marshal(other) //nolint:musttag // as above
	return bytes.Equal(a, b)
}

// spec returns the specification of the run for a tick.
func (s *scheduled) spec(name, tick string, overlap Overlap) *event.Spec {
	tags := map[string]string{}
	maps.Copy(tags, s.Tags)
	tags[TagSchedule], tags[TagTick] = name, tick
	spec := &event.Spec{
		Workflow: s.Workflow, Queue: s.Queue, Tags: tags, Timeout: s.Timeout, Retention: s.Retention,
		Priority: s.Priority, StartWithin: s.StartWithin, Fair: s.Fair, Share: s.Share,
	}
	if len(s.Uses) > 0 {
		spec.Uses, spec.Whole, spec.PermitSlot = s.Uses, len(permits.Fleet(s.Uses)) > 0, s.PermitSlot
	}
	if overlap != OverlapAllow {
		spec.WorkflowID = event.TicksRunID(name)
	}
	return spec
}

// tickPlan is the decision about the ticks up to a time.
type tickPlan struct {
	Start  []time.Time `json:"start,omitempty"`
	Late   int         `json:"late,omitempty"`   // number of ticks that were too late
	Passed int         `json:"passed,omitempty"` // number of ticks skipped for a newer one
	Next   time.Time   `json:"next"`             // first tick without a decision; zero: there is none
	// Problem is the reason why no tick is known.
	Problem string `json:"problem,omitempty"`
}

const (
	// ticksAtOnce is the number of ticks that one plan examines.
	ticksAtOnce = 10_000
	// startsAtOnce is the number of ticks that one plan starts.
	startsAtOnce = 50
)

// plan decides about the ticks from next on that are due until a time. If there are many, it covers
// only the first of them, and the caller repeats the call.
//
// The result is recorded: the rules of a time zone differ between machines and releases, so a
// replay must not compute ticks again.
func (s *Schedule) plan(name string, next, until time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Next: next, Problem: err.Error()}
	}
	var p tickPlan
	late := s.late(name, ticks, until.Add(-s.catchUp()))
	isDue := func() bool { return !next.IsZero() && !s.due(name, next).After(until) }
	for looked := 0; isDue() && looked < ticksAtOnce && len(p.Start) < startsAtOnce; looked++ {
		switch {
		case late(next):
			p.Late++
		case s.Overlap.each():
			p.Start = append(p.Start, next)
		default:
			p.Passed += len(p.Start)
			p.Start = []time.Time{next}
		}
		next = ticks.Next(next)
	}
	if p.Next = next; isDue() && !s.Overlap.each() {
		p.Passed += len(p.Start)
		p.Start = nil
	}
	return p
}

// late returns a function that must be called for consecutive ticks, and reports whether a tick
// should have started before oldest. A tick starts when it and all earlier ticks are due; an
// earlier tick may have a longer jitter delay. Ticks older than the jitter are due before any later
// tick.
func (s *Schedule) late(name string, ticks *cron.Ticks, oldest time.Time) func(tick time.Time) bool {
	inTime := false // one of the earlier ticks is in time
	looked := false // the ticks before the first one were examined
	return func(tick time.Time) bool {
		inTime = inTime || !s.due(name, tick).Before(oldest)
		if !inTime && !looked && tick.Add(s.Jitter).After(oldest) {
			before := ticks.Next(tick.Add(-s.Jitter))
			for !before.IsZero() && before.Before(tick) && !inTime { // the loop may find none if another machine has other rules for the zone
				inTime = !s.due(name, before).Before(oldest)
				before = ticks.Next(before)
			}
			looked = true
		}
		return !inTime
	}
}

func (s *Schedule) catchUp() time.Duration { return cmp.Or(s.CatchUp, maxCatchUp) }

// due returns when a tick is started. The logs of schedules contain it as the due time of a timer,
// so it must not change for a tick for which a schedule waits.
func (s *Schedule) due(name string, tick time.Time) time.Time {
	if s.Jitter <= 0 {
		return tick
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(tickID(tick) + " " + name))
	// The low bits of this hash have no better distribution than those of its input.
	return tick.Add(time.Duration((h.Sum64() * 0x9e3779b97f4a7c15 >> 1) % uint64(s.Jitter)).Truncate(time.Millisecond))
}

// first returns the first tick after a time.
func (s *Schedule) first(after time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Problem: err.Error()}
	}
	return tickPlan{Next: ticks.Next(after)}
}

// dueAfter returns the first tick from next on that is due after a time.
func (s *Schedule) dueAfter(name string, next, after time.Time) tickPlan {
	if oldest := after.Add(-s.Jitter); next.IsZero() || !next.After(oldest) {
		next = oldest // all ticks up to oldest are due earlier
	} else {
		next = next.Add(-time.Millisecond)
	}
	p := s.first(next)
	for !p.Next.IsZero() && !s.due(name, p.Next).After(after) {
		p = s.first(p.Next)
	}
	return p
}

// backfill returns the first ticks of a range.
func (s *Schedule) backfill(from, to time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Problem: err.Error()}
	}
	p := tickPlan{Next: ticks.Next(from.Add(-time.Millisecond))}
	for ; !p.Next.IsZero() && p.Next.Before(to) && len(p.Start) < startsAtOnce; p.Next = ticks.Next(p.Next) {
		p.Start = append(p.Start, p.Next)
	}
	if !p.Next.Before(to) {
		p.Next = time.Time{}
	}
	return p
}

// tickID identifies a tick, independent of the time zone in which it is given.
func tickID(tick time.Time) string { return tick.UTC().Format(time.RFC3339Nano) }
