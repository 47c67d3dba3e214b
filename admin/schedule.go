package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Timing describes when a schedule starts runs, and what happens at a tick while the previous run
// is active.
type Timing struct {
	// When is a cron expression with the name of a time zone, such as "30 2 * * * Europe/Zurich",
	// or an interval, such as "every 10m", see [workflow.Schedule].
	When      string `json:"when"`
	Overlap   string `json:"overlap,omitempty"`   // one of [Overlaps]; empty means skip
	CatchUpMs int64  `json:"catchUpMs,omitempty"` // maximum delay with which a tick is started; 0 means a year, the maximum
	JitterMs  int64  `json:"jitterMs,omitempty"`  // upper bound of the random delay of each tick
}

// Schedule is the state of a schedule.
type Schedule struct {
	Name string `json:"name"`
	Timing
	Workflow string `json:"workflow"` // stored name of the workflow that it starts
	Queue    string `json:"queue"`    // of the runs
	Paused   bool   `json:"paused,omitempty"`
	Note     string `json:"note,omitempty"` // why it was paused
	// Next is the next tick, without jitter. It is zero if the schedule is paused or has no further
	// tick.
	Next time.Time `json:"next,omitzero"`
	// Ticks are the next ten ticks, without jitter, computed with the time zones of the process
	// that answers. Lists omit them.
	Ticks     []time.Time     `json:"ticks,omitempty"`
	Problem   string          `json:"problem,omitempty"`   // why no tick is known
	Backfills []Backfill      `json:"backfills,omitempty"` // that are not finished
	Started   int             `json:"started"`             // number of runs
	Skipped   int             `json:"skipped"`             // ticks at which another run was active, or that were superseded by a newer one
	Missed    int             `json:"missed"`              // ticks that were later than the catch-up time
	Recent    []ScheduleStart `json:"recent,omitempty"`    // the last ten, the oldest first
	Run       string          `json:"run"`                 // the run that implements the schedule
	Unserved  bool            `json:"unserved,omitempty"`  // no live worker serves it
}

// ScheduleStart is a run that a schedule started, or a tick that it skipped.
type ScheduleStart struct {
	Tick    time.Time `json:"tick"`
	Run     string    `json:"run"`
	Skipped string    `json:"skipped,omitempty"` // why it was not started
}

// Backfill is a range of past ticks that are started as if they were due now.
type Backfill struct {
	From    time.Time `json:"from"`              // beginning, inclusive
	To      time.Time `json:"to"`                // end, exclusive
	Overlap string    `json:"overlap,omitempty"` // empty means that of the schedule
}

// ScheduleFilter selects a page of schedules. The zero value selects the first page.
type ScheduleFilter struct {
	Cursor string `json:"cursor,omitempty"` // of the previous [SchedulePage]
	Limit  int    `json:"limit,omitempty"`  // entries per page; 0 means 100, the maximum is 1,000
}

// SchedulePage is a page of schedules, those whose current run was created last first.
type SchedulePage struct {
	Schedules []Schedule `json:"schedules"`
	Cursor    string     `json:"cursor,omitempty"` // of the next page, which may be empty; empty for the last page
}

// NewSchedule describes a schedule to create. The directive of the workflow does not apply to its
// runs, see [Start].
type NewSchedule struct {
	Name string `json:"name"`
	Timing
	Workflow string            `json:"workflow"`         // stored name
	Input    Payload           `json:"input,omitempty"`  // of each run, as in [Start]
	Queue    string            `json:"queue,omitempty"`  // of the runs; empty means workflow.DefaultQueue
	Tags     map[string]string `json:"tags,omitempty"`   // of the runs
	Reason   string            `json:"reason,omitempty"` // kept in the journal; refused if there is no journal
}

// ScheduleAction describes what to do with a schedule.
type ScheduleAction struct {
	Verb   string    `json:"verb"`             // one of [ScheduleActions]
	Reason string    `json:"reason,omitempty"` // kept in the journal; for pause it is also the note of the schedule
	Timing *Timing   `json:"timing,omitempty"` // the complete new timing for update
	Fill   *Backfill `json:"fill,omitempty"`   // for backfill
	// Key is an idempotency key. Update, backfill and delete accept any key, because they are
	// idempotent. The other actions refuse it as unsupported, because stores do not record it.
	Key string `json:"-"`
}

// ScheduleActed reports that a request to a schedule is durable. A worker executes it.
type ScheduleActed struct {
	Name string `json:"name"`
	Verb string `json:"verb"`
	// Run is the run of a trigger. It will be created, unless another run is active and the overlap
	// policy skips it then.
	Run string `json:"run,omitempty"`
}

// verbPause stops a schedule from starting runs; its reason becomes the note of the schedule.
const verbPause = "pause"

// verbCreate creates a schedule or replaces an existing one.
const verbCreate = "create"

// ticksShown is the number of future ticks that are returned.
const ticksShown = 10

// Overlaps returns the policies for a tick while a run of its schedule is active.
func Overlaps() []string {
	var all []string
	for _, o := range []workflow.Overlap{workflow.OverlapSkip, workflow.OverlapReplace, workflow.OverlapQueue, workflow.OverlapLatest, workflow.OverlapAllow} {
		all = append(all, string(o))
	}
	return all
}

// scheduleVerb is an action on schedules. again means that it is idempotent.
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
		return "", s.Backfill(ctx, name, workflow.Backfill{From: a.Fill.From, To: a.Fill.To, Overlap: workflow.Overlap(a.Fill.Overlap)})
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
		return nil, NewProblem(CodeUnsupported, a.Verb+" is done each time that it is asked for: a store keeps no key for it", "leave the key out, and look at the schedule before asking again")
	}
	return &scheduleVerbs[i], checkReason(a.Verb, a.Reason, a.Verb == verbPause)
}

// schedule converts the timing for package workflow, which validates the rest.
func (t *Timing) schedule() (workflow.Schedule, error) {
	for what, ms := range map[string]int64{"catch-up": t.CatchUpMs, "jitter": t.JitterMs} {
		if ms < 0 || ms > maxDelay {
			return workflow.Schedule{}, &InputError{What: fmt.Sprintf("a %s of %d ms", what, ms), Fix: "give milliseconds, or nothing"}
		}
	}
	return workflow.Schedule{
		When: t.When, Overlap: workflow.Overlap(t.Overlap),
		CatchUp: time.Duration(t.CatchUpMs) * time.Millisecond, Jitter: time.Duration(t.JitterMs) * time.Millisecond,
	}, nil
}

func timingOf(s *workflow.Schedule) Timing {
	return Timing{When: s.When, Overlap: string(s.Overlap), CatchUpMs: s.CatchUp.Milliseconds(), JitterMs: s.Jitter.Milliseconds()}
}

func scheduleOf(i *workflow.ScheduleInfo) Schedule {
	s := Schedule{
		Name: i.Name, Timing: timingOf(&i.Schedule), Workflow: i.Workflow, Queue: i.Queue, Paused: i.Paused, Note: i.Note, Next: utc(i.Next),
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

// goingOn lists the statuses of runs that implement existing schedules.
var goingOn = []workflow.Status{
	workflow.StatusPending, workflow.StatusRunning, workflow.StatusHeld, workflow.StatusPaused, workflow.StatusSleeping, workflow.StatusWaiting, workflow.StatusBlocked,
}

// Schedules returns a page of schedules.
func (s *Service) Schedules(ctx context.Context, f ScheduleFilter) (SchedulePage, error) {
	if err := s.all(RoleViewer, "see schedules", ownRuns); err != nil {
		return SchedulePage{}, err
	}
	asked := workflow.Filter{Workflow: event.ScheduleRun, Statuses: goingOn, Cursor: f.Cursor}
	_, _, badCursor := (&store.Query{Cursor: f.Cursor}).After()
	if err := checkPage("schedules", f.Limit, 0, badCursor); err != nil {
		return SchedulePage{}, err
	}
	runs, err := s.client.Page(ctx, asked, f.Limit)
	if err != nil {
		return SchedulePage{}, err
	}
	page := SchedulePage{Schedules: []Schedule{}, Cursor: runs.Cursor}
	for i := range runs.Runs {
		name := strings.TrimPrefix(runs.Runs[i].WorkflowID, event.ScheduleRunID(""))
		info, err := s.ops.Schedules().Get(ctx, name)
		if errors.Is(err, ops.ErrScheduleNotFound) {
			continue // it has ended meanwhile
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
		if at, err = info.Schedule.Next(at); err != nil { // for example, the time zone is unknown on this machine
			got.Problem = err.Error()
			break
		}
	}
	return got, nil
}

// PutSchedule creates a schedule, or replaces the definition of an existing one, which stays paused
// if it was. When it returns nil, the schedule is durable.
func (s *Service) PutSchedule(ctx context.Context, n NewSchedule) (ScheduleActed, error) {
	e := s.entry(JournalEntry{Action: "put", Target: "schedule:" + n.Name, Detail: n.Workflow, Reason: n.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (ScheduleActed, error) {
		n.Reason = left(&e, n.Reason, false)
		return s.putSchedule(ctx, n)
	}, actedOnSchedule)
}

// putSchedule is [Service.PutSchedule] without the journal.
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

// ActOnSchedule controls a schedule. When it returns nil, the request is durable. Deleting a
// schedule waits until a worker has ended it.
func (s *Service) ActOnSchedule(ctx context.Context, name string, a ScheduleAction) (ScheduleActed, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: "schedule:" + name, Reason: a.Reason, Key: a.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (ScheduleActed, error) {
		a.Reason = left(&e, a.Reason, a.Verb == verbPause)
		return s.actOnSchedule(ctx, name, a)
	}, actedOnSchedule)
}

// actOnSchedule is [Service.ActOnSchedule] without the journal.
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
