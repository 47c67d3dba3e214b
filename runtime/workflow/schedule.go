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
	"strings"
	"time"

	"github.com/flowgen/flowgen/internal/cron"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
)

// timing computes the ticks of a schedule.
type timing struct{ schedule.Spec }

// each reports whether every due tick starts a run. Otherwise only the newest due tick does.
func (s *timing) each() bool {
	return s.Overlap == schedule.Allow || s.Overlap == schedule.Queue
}

// overlapPolicy returns the policy for the workflow ID that the runs of a schedule share. Runs that
// may overlap have no workflow ID.
func overlapPolicy(o schedule.Overlap) ActivePolicy {
	switch o {
	case schedule.Replace:
		return CancelActive
	case schedule.Queue:
		return QueueActive
	case schedule.Latest:
		return LatestActive
	}
	return FailActive
}

// checkSchedule returns a *schedule.Error if name is not a valid name of a schedule.
func checkSchedule(name string) error {
	switch {
	case name == "" || len(name) > flow.MaxName:
		return &schedule.Error{Name: name, Problem: fmt.Sprintf("the name has %d bytes: want 1 to %d", len(name), flow.MaxName)}
	case store.CheckName("name", name) != nil:
		return &schedule.Error{Name: name, Problem: "the name is not UTF-8, or holds a zero byte"}
	case event.TicksRunID(strings.TrimSuffix(name, "/run")) == event.ScheduleRunID(name):
		return &schedule.Error{Name: name, Problem: "the name ends in /run, which the workflow ids of the runs of schedules end in"}
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
// Errors: a *[schedule.Error]; a *[PayloadError]; an *[InvalidError] if a store would not accept the
// runs; or an error that matches ErrWrongWorkflow if another workflow uses the workflow ID. After
// any other error, repeat the call.
func (d Definition[In, Out]) Schedule(ctx context.Context, c *Client, name string, s schedule.Spec, in In, opts ...RunOption) error {
	set, err := d.def().scheduled(c.inner(), name, s, in, opts)
	if err == nil {
		_, err = flow.Attributes(ctx) // even if the schedule exists
	}
	if err != nil {
		return err
	}
	return c.inner().putSchedule(ctx, name, set)
}

// scheduled returns the stored definition of a schedule.
func (d definition) scheduled(c *client, name string, s schedule.Spec, in any, opts []RunOption) (*scheduled, error) {
	if err := errors.Join(checkSchedule(name), s.Check(name)); err != nil {
		return nil, err
	}
	o := d.options()
	for _, opt := range opts {
		opt(&o)
	}
	d.rank(&o, in, 0)
	problem := ""
	switch {
	case d.Singleton != nil:
		problem = "the workflow is a singleton, but the runs of a schedule have the workflow id of the schedule: use Overlap for ticks that find an active run"
	case d.Collect != nil:
		problem = "starts of the workflow share a run: schedule a workflow that starts this one from a step"
	case o.err != nil:
		problem = o.err.Error()
	case o.workflowID != "" || o.policy != IDPolicy{}:
		problem = "WithID: the runs have the workflow id of the schedule: remove the option"
	case o.delay != 0 || !o.at.IsZero():
		problem = "WithDelay and WithStartAt: the schedule decides when the runs begin: remove the options"
	}
	if problem != "" {
		return nil, &schedule.Error{Name: name, Problem: problem}
	}
	input, err := d.input(&c.limits, in, false)
	if err != nil {
		return nil, err
	}
	fair, share, err := d.share(in)
	if err != nil {
		return nil, err
	}
	does := &scheduled{
		timing: timing{s}, Workflow: d.Name, Queue: o.queue, Input: input, Priority: o.priority, StartWithin: o.begin,
		Timeout: o.timeout, Retention: o.retention, Tags: o.tags, Fair: fair, Share: share, Pin: d.Pin,
	}
	if d.Uses != nil {
		uses, home, err := permits.Merge(d.Uses(in))
		if err != nil {
			return nil, &schedule.Error{Name: name, Problem: err.Error()}
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
		return &schedule.Error{Name: name, Problem: "the workflow " + s.Workflow + " is the runtime's own: no schedule starts it"}
	case s.Queue == "":
		return &schedule.Error{Name: name, Problem: "its runs have no queue"}
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
	timing
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
	Pin        bool        `json:"pin,omitempty"`
}

// same reports whether two schedules have the same definition.
func (s *scheduled) same(other *scheduled) bool {
	a, _ := json.Marshal(s)     //nolint:musttag // it is only compared; plain data always encodes
	b, _ := json.Marshal(other) //nolint:musttag // as above
	return bytes.Equal(a, b)
}

// spec returns the Spec of the run for a tick.
func (s *scheduled) spec(name, tick string, overlap schedule.Overlap) *event.Spec {
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
	if overlap != schedule.Allow {
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
func (s *timing) plan(name string, next, until time.Time) tickPlan {
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
		case s.each():
			p.Start = append(p.Start, next)
		default:
			p.Passed += len(p.Start)
			p.Start = []time.Time{next}
		}
		next = ticks.Next(next)
	}
	if p.Next = next; isDue() && !s.each() {
		p.Passed += len(p.Start)
		p.Start = nil
	}
	return p
}

// late returns a function that reports whether a tick should have started before oldest. Call it
// for consecutive ticks. A tick starts when it and all earlier ticks are due, and an earlier tick
// may have a longer jitter delay. Ticks that are older than Jitter are due before any later tick,
// so they are not examined.
func (s *timing) late(name string, ticks *cron.Ticks, oldest time.Time) func(tick time.Time) bool {
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

func (s *timing) catchUp() time.Duration { return cmp.Or(s.CatchUp, schedule.MaxCatchUp) }

// due returns the time at which a tick is started. The logs of schedules contain it as the due time
// of a timer. Therefore it must not change for a tick for which a schedule waits.
func (s *timing) due(name string, tick time.Time) time.Time {
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
func (s *timing) first(after time.Time) tickPlan {
	ticks, err := cron.Parse(s.When)
	if err != nil {
		return tickPlan{Problem: err.Error()}
	}
	return tickPlan{Next: ticks.Next(after)}
}

// dueAfter returns a plan with the first tick from next on that is due after the time after.
func (s *timing) dueAfter(name string, next, after time.Time) tickPlan {
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
func (s *timing) backfill(from, to time.Time) tickPlan {
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
