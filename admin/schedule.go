package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Timing describes when a schedule starts runs. It also determines what happens at a tick while the
// previous run is active.
type Timing struct {
	// When is a cron expression with the name of a time zone, such as "30 2 * * * Europe/Zurich",
	// or an interval, such as "every 10m". See [schedule.Spec].
	When      string `json:"when"`
	Overlap   string `json:"overlap,omitempty"`   // one of [Overlaps]; empty means skip
	CatchUpMs int64  `json:"catchUpMs,omitempty"` // maximum delay with which a run is started for a tick; 0 means a year, which is the maximum
	JitterMs  int64  `json:"jitterMs,omitempty"`  // maximum random delay of each tick
}

// Schedule is the state of a schedule.
type Schedule struct {
	Name string `json:"name"`
	Timing
	Workflow string `json:"workflow"` // stored name of the workflow that it starts
	Queue    string `json:"queue"`    // queue of the runs
	Paused   bool   `json:"paused,omitempty"`
	Note     string `json:"note,omitempty"` // reason why the schedule was paused
	// Next is the time of the next tick, without jitter. It is zero if the schedule is paused or
	// has no further tick.
	Next time.Time `json:"next,omitzero"`
	// Ticks are the times of the next ten ticks, without jitter. The process that answers the
	// request computes them with its own time zone database. Lists omit them.
	Ticks     []time.Time     `json:"ticks,omitempty"`
	Problem   string          `json:"problem,omitempty"`   // reason why the next tick is unknown
	Backfills []Backfill      `json:"backfills,omitempty"` // backfills that are not finished
	Started   int             `json:"started"`             // number of runs that the schedule has started
	Skipped   int             `json:"skipped"`             // number of ticks that were skipped because another run was active, or that a newer tick superseded
	Missed    int             `json:"missed"`              // number of ticks that were later than the catch-up time
	Recent    []ScheduleStart `json:"recent,omitempty"`    // the last ten started runs or skipped ticks, the oldest first
	Run       string          `json:"run"`                 // the run that implements the schedule
	Unserved  bool            `json:"unserved,omitempty"`  // whether no live worker serves that run
}

// ScheduleStart is a run that a schedule started, or a tick that it skipped.
type ScheduleStart struct {
	Tick    time.Time `json:"tick"`
	Run     string    `json:"run"`
	Skipped string    `json:"skipped,omitempty"` // reason why no run was started
}

// Backfill is a range of past ticks for which runs are started as if the ticks were due at present.
type Backfill struct {
	From    time.Time `json:"from"`              // beginning, inclusive
	To      time.Time `json:"to"`                // end, exclusive
	Overlap string    `json:"overlap,omitempty"` // policy for overlapping runs; empty means the policy of the schedule
}

// ScheduleFilter selects a page of schedules. The zero value selects the first page.
type ScheduleFilter struct {
	Cursor string `json:"cursor,omitempty"` // cursor of the previous [SchedulePage]
	Limit  int    `json:"limit,omitempty"`  // entries per page; 0 means 100, the maximum is 1,000
}

// SchedulePage is a page of schedules. They are sorted by the creation time of their current run,
// the newest first.
type SchedulePage struct {
	Schedules []Schedule `json:"schedules"`
	Cursor    string     `json:"cursor,omitempty"` // cursor of the next page, which may have no entries; empty on the last page
}

// NewSchedule describes a schedule to create. The directive of the workflow does not apply to the
// runs of the schedule; see [Start].
type NewSchedule struct {
	Name string `json:"name"`
	Timing
	Workflow string            `json:"workflow"`         // stored name
	Input    Payload           `json:"input,omitempty"`  // input of each run, as in [Start]
	Queue    string            `json:"queue,omitempty"`  // queue of the runs; empty means workflow.DefaultQueue
	Tags     map[string]string `json:"tags,omitempty"`   // tags of the runs
	Reason   string            `json:"reason,omitempty"` // recorded in the journal; refused if the service has no journal
}

// ScheduleAction is an action to apply to a schedule.
type ScheduleAction struct {
	Verb   string    `json:"verb"`             // one of [ScheduleActions]
	Reason string    `json:"reason,omitempty"` // recorded in the journal; for pause, also the note of the schedule
	Timing *Timing   `json:"timing,omitempty"` // for update only: the complete new timing
	Fill   *Backfill `json:"fill,omitempty"`   // for backfill only: the range of ticks
	// Key is an idempotency key. Update, backfill and delete are idempotent and accept any key. The
	// other actions refuse a key as unsupported, because stores do not record the keys of these
	// actions.
	Key string `json:"-"`
}

// ScheduleActed reports that a request to a schedule is durable. A worker executes the request
// later.
type ScheduleActed struct {
	Name string `json:"name"`
	Verb string `json:"verb"`
	// Run is the ID of the run that a trigger will start. The run is not created if another run is
	// active and the overlap policy skips the trigger.
	Run string `json:"run,omitempty"`
}

// verbPause pauses a schedule, so that it starts no runs. The reason becomes the note of the
// schedule.
const verbPause = "pause"

// verbCreate creates a schedule or replaces an existing one.
const verbCreate = "create"

// ticksShown is the number of future ticks that are returned.
const ticksShown = 10

// Overlaps returns the policies for a tick that is due while a run of the schedule is active.
func Overlaps() []string {
	var all []string
	for _, o := range []schedule.Overlap{schedule.Skip, schedule.Replace, schedule.Queue, schedule.Latest, schedule.Allow} {
		all = append(all, string(o))
	}
	return all
}

// scheduleVerb is an action on schedules. The field again reports whether the action is idempotent.
type scheduleVerb struct {
	name  string
	again bool
	do    func(ctx context.Context, s *ops.Schedules, name string, a *ScheduleAction) (workflow.RunID, error)
}

// scheduleVerbs lists the actions on schedules.
var scheduleVerbs = []scheduleVerb{
	{verbPause, false, func(ctx context.Context, s *ops.Schedules, name string, a *ScheduleAction) (workflow.RunID, error) {
		return "", s.Pause(ctx, name, a.Reason)
	}},
	{"resume", false, func(ctx context.Context, s *ops.Schedules, name string, _ *ScheduleAction) (workflow.RunID, error) {
		return "", s.Resume(ctx, name)
	}},
	{"trigger", false, func(ctx context.Context, s *ops.Schedules, name string, _ *ScheduleAction) (workflow.RunID, error) {
		return s.Trigger(ctx, name)
	}},
	{"backfill", true, func(ctx context.Context, s *ops.Schedules, name string, a *ScheduleAction) (workflow.RunID, error) {
		return "", s.Backfill(ctx, name, schedule.Backfill{From: a.Fill.From, To: a.Fill.To, Overlap: schedule.Overlap(a.Fill.Overlap)})
	}},
	{"update", true, func(ctx context.Context, s *ops.Schedules, name string, a *ScheduleAction) (workflow.RunID, error) {
		to, err := a.Timing.schedule()
		if err != nil {
			return "", err
		}
		return "", s.Update(ctx, name, to)
	}},
	{verbDelete, true, func(ctx context.Context, s *ops.Schedules, name string, _ *ScheduleAction) (workflow.RunID, error) {
		return "", s.Delete(ctx, name)
	}},
}

// ScheduleActions returns the verbs of all actions on schedules.
func ScheduleActions() []string {
	var all []string
	for _, v := range scheduleVerbs {
		all = append(all, v.name)
	}
	return all
}

// check validates an action and returns its verb.
func (a *ScheduleAction) check() (*scheduleVerb, error) {
	i := slices.IndexFunc(scheduleVerbs, func(v scheduleVerb) bool { return v.name == a.Verb })
	switch {
	case i < 0:
		return nil, checkOneOf("action on schedules", a.Verb, ScheduleActions())
	case (a.Timing != nil) != (a.Verb == "update"):
		return nil, &InputError{What: "update takes a timing, and no other action does", Fix: "give all of it with update, and none with " + a.Verb}
	case (a.Fill != nil) != (a.Verb == "backfill"):
		return nil, &InputError{What: "backfill takes a range of ticks, and no other action does", Fix: "give from and to with backfill, and none with " + a.Verb}
	case a.Key != "" && !scheduleVerbs[i].again:
		return nil, NewProblem(CodeUnsupported, a.Verb+" is executed for each request: it supports no idempotency key", "remove the key, and check the schedule before repeating the request")
	}
	return &scheduleVerbs[i], checkReason(a.Verb, a.Reason, a.Verb == verbPause)
}

// schedule converts the timing to a schedule of package workflow, which validates the other fields.
func (t *Timing) schedule() (schedule.Spec, error) {
	for what, ms := range map[string]int64{"catch-up": t.CatchUpMs, "jitter": t.JitterMs} {
		if ms < 0 || ms > maxDelay {
			return schedule.Spec{}, &InputError{What: fmt.Sprintf("a %s of %d ms", what, ms), Fix: "give milliseconds, or nothing"}
		}
	}
	return schedule.Spec{
		When: t.When, Overlap: schedule.Overlap(t.Overlap),
		CatchUp: time.Duration(t.CatchUpMs) * time.Millisecond, Jitter: time.Duration(t.JitterMs) * time.Millisecond,
	}, nil
}

func timingOf(s *schedule.Spec) Timing {
	return Timing{When: s.When, Overlap: string(s.Overlap), CatchUpMs: s.CatchUp.Milliseconds(), JitterMs: s.Jitter.Milliseconds()}
}

func scheduleOf(i *schedule.Info) Schedule {
	s := Schedule{
		Name: i.Name, Timing: timingOf(&i.Spec), Workflow: i.Workflow, Queue: i.Queue, Paused: i.Paused, Note: i.Note, Next: utc(i.Next),
		Problem: i.Problem, Started: i.Started, Skipped: i.Skipped, Missed: i.Missed, Run: string(i.Run), Unserved: i.Unserved,
	}
	for _, b := range i.Backfills {
		s.Backfills = append(s.Backfills, Backfill{From: utc(b.From), To: utc(b.To), Overlap: string(b.Overlap)})
	}
	for _, r := range i.Recent {
		s.Recent = append(s.Recent, ScheduleStart{Tick: utc(r.Tick), Run: string(r.Run), Skipped: r.Skipped})
	}
	return s
}

// Schedules returns a page of schedules, sorted by name.
func (s *Service) Schedules(ctx context.Context, f ScheduleFilter) (SchedulePage, error) {
	if err := s.all(RoleViewer, "see schedules", ownRuns); err != nil {
		return SchedulePage{}, err
	}
	all, err := s.ops.Schedules().Names(ctx)
	if err != nil {
		return SchedulePage{}, err
	}
	page := SchedulePage{Schedules: []Schedule{}}
	var names []string
	if names, page.Cursor, err = fleetPage(FleetFilter{Cursor: f.Cursor, Limit: f.Limit}, "schedules", all, func(name *string) string { return *name }); err != nil {
		return SchedulePage{}, err
	}
	for _, name := range names {
		info, err := s.ops.Schedules().Get(ctx, name)
		if errors.Is(err, ops.ErrScheduleNotFound) {
			continue // the schedule was deleted after it was listed
		}
		if err != nil {
			return SchedulePage{}, err
		}
		page.Schedules = append(page.Schedules, scheduleOf(&info))
	}
	return page, nil
}

// Schedule returns a schedule with its next ten ticks.
func (s *Service) Schedule(ctx context.Context, name string) (Schedule, error) {
	if err := s.all(RoleViewer, "see schedules", ownRuns); err != nil {
		return Schedule{}, err
	}
	info, err := s.ops.Schedules().Get(ctx, name)
	if err != nil {
		return Schedule{}, err
	}
	got := scheduleOf(&info)
	for at := info.Next; !at.IsZero() && len(got.Ticks) < ticksShown; {
		got.Ticks = append(got.Ticks, at.UTC())
		if at, err = info.Spec.Next(at); err != nil { // for example, the time zone is unknown on this machine
			got.Problem = err.Error()
			break
		}
	}
	return got, nil
}

// PutSchedule creates a schedule or replaces the definition of an existing one. A schedule that was
// paused remains paused. When PutSchedule returns nil, the schedule is durable.
func (s *Service) PutSchedule(ctx context.Context, n NewSchedule) (ScheduleActed, error) {
	e := s.entry(JournalEntry{Action: "put", Target: "schedule:" + n.Name, Detail: n.Workflow, Reason: n.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (ScheduleActed, error) {
		n.Reason = left(&e, n.Reason, false)
		return s.putSchedule(ctx, n)
	}, actedOnSchedule)
}

// putSchedule is like [Service.PutSchedule], but does not write the journal.
func (s *Service) putSchedule(ctx context.Context, n NewSchedule) (ScheduleActed, error) {
	if err := s.all(RoleOperator, "make schedules", ownRuns); err != nil {
		return ScheduleActed{}, err
	}
	start := Start{Workflow: n.Workflow, Input: n.Input, Reason: n.Reason}
	if _, err := start.policy(); err != nil {
		return ScheduleActed{}, err
	}
	timing, err := n.schedule()
	if err == nil {
		err = s.fits(ctx, n.Workflow, n.Input)
	}
	if err != nil {
		return ScheduleActed{}, err
	}
	var opts []workflow.RunOption
	if n.Queue != "" {
		opts = append(opts, workflow.WithQueue(n.Queue))
	}
	if len(n.Tags) > 0 {
		opts = append(opts, workflow.WithTags(n.Tags))
	}
	if err := untyped(n.Workflow).Schedule(ctx, s.client, n.Name, timing, start.input(), opts...); err != nil {
		return ScheduleActed{}, err
	}
	return ScheduleActed{Name: n.Name, Verb: verbCreate}, nil
}

// ActOnSchedule applies an action to a schedule. When it returns nil, the request is durable. A
// deletion returns only after a worker has ended the schedule.
func (s *Service) ActOnSchedule(ctx context.Context, name string, a ScheduleAction) (ScheduleActed, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: "schedule:" + name, Reason: a.Reason, Key: a.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (ScheduleActed, error) {
		a.Reason = left(&e, a.Reason, a.Verb == verbPause)
		return s.actOnSchedule(ctx, name, a)
	}, actedOnSchedule)
}

// actOnSchedule is like [Service.ActOnSchedule], but does not write the journal.
func (s *Service) actOnSchedule(ctx context.Context, name string, a ScheduleAction) (ScheduleActed, error) {
	role := RoleOperator
	if a.Verb == verbDelete {
		role = RoleAdmin
	}
	if err := s.all(role, a.Verb+" schedules", ownRuns); err != nil {
		return ScheduleActed{}, err
	}
	v, err := a.check()
	if err != nil {
		return ScheduleActed{}, err
	}
	run, err := v.do(ctx, s.ops.Schedules(), name, &a)
	if err != nil {
		return ScheduleActed{}, err
	}
	return ScheduleActed{Name: name, Verb: a.Verb, Run: string(run)}, nil
}

func actedOnSchedule(done ScheduleActed, e *JournalEntry) { e.New = done.Run }
