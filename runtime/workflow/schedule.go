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

// Schedule determines the ticks at which runs of a workflow start. It also determines what happens
// to a tick if the run of an earlier tick is active. [Definition.Schedule] gives the schedule a
// name and makes it durable.
type Schedule struct {
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
	// OverlapSkip.
	Overlap Overlap `json:"overlap,omitempty"`
	// CatchUp is the maximum delay of a tick, without jitter, if no worker was running at its time.
	// 0 means one year, which is also the maximum. The minimum is 10 s. OverlapAllow and
	// OverlapQueue start all missed ticks whose delay does not exceed CatchUp. The other policies
	// start only the newest one. Ticks with a longer delay are not started, and are counted as
	// missed.
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
	// OverlapSkip skips the tick. It is the default.
	OverlapSkip Overlap = "skip"
	// OverlapReplace cancels the active run, and starts the new run when the active one has ended.
	OverlapReplace Overlap = "replace"
	// OverlapQueue starts the new run when all earlier runs have ended.
	OverlapQueue Overlap = "queue"
	// OverlapLatest starts the new run when the active run has ended, and cancels the runs that
	// wait for it.
	OverlapLatest Overlap = "latest"
	// OverlapAllow starts the new run in parallel with the other runs.
	OverlapAllow Overlap = "allow"
)

// overlaps contains all policies, for error texts.
var overlaps = []Overlap{OverlapSkip, OverlapReplace, OverlapQueue, OverlapLatest, OverlapAllow}

// each reports whether every due tick starts a run. Otherwise only the newest due tick does.
func (o Overlap) each() bool { return o == OverlapAllow || o == OverlapQueue }

// policy returns the policy for the workflow ID that the runs of a schedule share. Runs that may
// overlap have no workflow ID.
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

// The minimum and maximum of Schedule.CatchUp.
const (
	maxCatchUp = 365 * 24 * time.Hour
	minCatchUp = 10 * time.Second
)

// ScheduleError describes why a schedule is not valid, and how to fix it.
type ScheduleError struct {
	Name    string // name of the schedule
	Problem string
}

// Error returns a text that contains the schedule and the problem.
func (e *ScheduleError) Error() string { return fmt.Sprintf("schedule %q: %s", e.Name, e.Problem) }

// Next returns the first tick after the given time, in the zone of the schedule, without jitter.
// The error is a *ScheduleError if the schedule is not valid.
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

// checkWays checks the parts of a schedule that do not depend on the machine. It does not check the
// time zone, because some machines may not have it.
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

// checkSchedule returns a *ScheduleError if name is not a valid name of a schedule.
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
	TagSchedule = "flowgen.schedule" // name of the schedule
	TagTick     = "flowgen.tick"     // the tick in the format time.RFC3339, or the ID of the trigger
)

// Tick returns the tick for which a schedule has started the run. It is the nominal time of the
// tick, regardless of the delay of the run. ok is false if a trigger has started the run, or if the
// run was not started by a schedule.
func Tick(ctx Context) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, ctx.branch().Spec().Tags[TagTick])
	return t, err == nil
}

// Schedule creates the schedule with this name, which starts the workflow with this input at each
// tick. The name must not end in "/run". If the schedule exists, Schedule replaces its definition:
// ticks before the call follow the old definition, and a pause remains. A repeated call with the
// same arguments changes nothing. Package ops contains the other operations on schedules.
//
// When Schedule returns nil, the schedule is durable. The schedule is a run of the workflow
// "flowgen.schedule" with the workflow ID "schedule:" + name, on the queue of the workflow that it
// starts. Any worker of that queue executes it. If the queue changes, a worker of the old queue
// must process the change before the schedule moves. Each tick starts one run, regardless of the
// number of workers and of crashes, because the ID of the run is derived from the name and the
// tick.
//
// The options apply to the started runs: queue, tags, priority, WithStartBy, timeout and retention.
//
// Errors: a *[ScheduleError]; a *[PayloadError]; an *[InvalidError] if a store would not accept the
// runs; or an error that matches ErrWrongWorkflow if another workflow uses the workflow ID. After
// any other error, repeat the call.
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
			does.PermitSlot = int(home) + 1 // the runs are in the partition of the schedule's name
		}
	}
	err = does.check(name)
	return does, err
}

// check returns an error if no store would accept the runs that the schedule starts, for example
// because a tag is too long, or if the runtime owns the workflow. At a tick no caller could receive
// the error.
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

// scheduled is the stored form of a schedule and of the runs that it starts.
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
	// Uses are the limits that a run uses. PermitSlot is the value of event.Spec.PermitSlot.
	Uses       []event.Use `json:"uses,omitempty"`
	PermitSlot int         `json:"permitSlot,omitempty"`
}

// same reports whether two schedules have the same definition.
func (s *scheduled) same(other *scheduled) bool {
	a, _ := json.Marshal(s)     //nolint:musttag // it is only compared; plain data always encodes
	b, _ := json.Marshal(other) //nolint:musttag // as above
	return bytes.Equal(a, b)
}

// spec returns the Spec of the run for a tick.
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

// tickPlan is the decision about the ticks up to some time.
type tickPlan struct {
	Start  []time.Time `json:"start,omitempty"`
	Late   int         `json:"late,omitempty"`   // number of ticks that were later than CatchUp
	Passed int         `json:"passed,omitempty"` // number of ticks that were skipped because a newer tick is due
	Next   time.Time   `json:"next"`             // first tick without a decision; zero: there is none
	// Problem is the reason why no tick can be computed.
	Problem string `json:"problem,omitempty"`
}

const (
	// ticksAtOnce is the maximum number of ticks that one plan examines.
	ticksAtOnce = 10_000
	// startsAtOnce is the maximum number of ticks that one plan starts.
	startsAtOnce = 50
)

// plan decides about the ticks from next on that are due until the time until. If there are many,
// it decides only about the first ones, and the caller calls it again.
//
// The caller records the plan. Machines and releases have different rules of time zones, so a
// replay must not compute the ticks.
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

// late returns a function that reports whether a tick should have started before oldest. Call it
// for consecutive ticks. A tick starts when it and all earlier ticks are due, and an earlier tick
// may have a longer jitter delay. Ticks that are older than Jitter are due before any later tick,
// so they are not examined.
func (s *Schedule) late(name string, ticks *cron.Ticks, oldest time.Time) func(tick time.Time) bool {
	inTime := false // one of the earlier ticks is in time
	looked := false // the ticks before the first one were examined
	return func(tick time.Time) bool {
		inTime = inTime || !s.due(name, tick).Before(oldest)
		if !inTime && !looked && tick.Add(s.Jitter).After(oldest) {
			before := ticks.Next(tick.Add(-s.Jitter))
			for !before.IsZero() && before.Before(tick) && !inTime { // before may be zero, because another machine may have other rules for the zone
				inTime = !s.due(name, before).Before(oldest)
				before = ticks.Next(before)
			}
			looked = true
		}
		return !inTime
	}
}

func (s *Schedule) catchUp() time.Duration { return cmp.Or(s.CatchUp, maxCatchUp) }

// due returns the time at which a tick is started. The logs of schedules contain it as the due time
// of a timer. Therefore it must not change for a tick for which a schedule waits.
func (s *Schedule) due(name string, tick time.Time) time.Time {
	if s.Jitter <= 0 {
		return tick
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(tickID(tick) + " " + name))
	// The low bits of this hash are distributed as unevenly as those of its input, so multiply it
	// by a constant.
	return tick.Add(time.Duration((h.Sum64() * 0x9e3779b97f4a7c15 >> 1) % uint64(s.Jitter)).Truncate(time.Millisecond))
}

// first returns a plan with the first tick after a time.
func (s *Schedule) first(after time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Problem: err.Error()}
	}
	return tickPlan{Next: ticks.Next(after)}
}

// dueAfter returns a plan with the first tick from next on that is due after the time after.
func (s *Schedule) dueAfter(name string, next, after time.Time) tickPlan {
	if oldest := after.Add(-s.Jitter); next.IsZero() || !next.After(oldest) {
		next = oldest // all ticks up to oldest are due before after
	} else {
		next = next.Add(-time.Millisecond)
	}
	p := s.first(next)
	for !p.Next.IsZero() && !s.due(name, p.Next).After(after) {
		p = s.first(p.Next)
	}
	return p
}

// backfill returns a plan that starts the first ticks of a range.
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

// tickID returns a text that identifies a tick. It does not depend on the time zone of tick.
func tickID(tick time.Time) string { return tick.UTC().Format(time.RFC3339Nano) }
