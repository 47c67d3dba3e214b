package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Timing says when a schedule starts runs, and what becomes of a tick that finds the run before it at work.
type Timing struct {
	// When is a cron expression with the name of a time zone, as "30 2 * * * Europe/Zurich", or an interval, as
	// "every 10m": see [workflow.Schedule].
	When      string `json:"when"`
	Overlap   string `json:"overlap,omitempty"`   // one of [Overlaps]; empty: skip
	CatchUpMs int64  `json:"catchUpMs,omitempty"` // how late a tick may be started; 0: a year, which is the most
	JitterMs  int64  `json:"jitterMs,omitempty"`  // each tick is delayed by less than that
}

// Schedule is a schedule as it stands.
type Schedule struct {
	Name string `json:"name"`
	Timing
	Workflow string `json:"workflow"` // stored name of what it starts
	Queue    string `json:"queue"`    // of the runs
	Paused   bool   `json:"paused,omitempty"`
	Note     string `json:"note,omitempty"` // why it was paused
	// Next is the tick that comes next, without jitter; zero: it is paused, or there is none.
	Next time.Time `json:"next,omitzero"`
	// Ticks are the next ten, without jitter, by the time zones of who was asked. Lists leave them out.
	Ticks     []time.Time     `json:"ticks,omitempty"`
	Problem   string          `json:"problem,omitempty"`   // why no tick is known
	Backfills []Backfill      `json:"backfills,omitempty"` // that are not finished
	Started   int             `json:"started"`             // runs
	Skipped   int             `json:"skipped"`             // ticks that found another run active, or were passed over for a newer one
	Missed    int             `json:"missed"`              // ticks that were later than the catch-up
	Recent    []ScheduleStart `json:"recent,omitempty"`    // the last ten, oldest first
	Run       string          `json:"run"`                 // that keeps the schedule
	Unserved  bool            `json:"unserved,omitempty"`  // no worker that lives works on it
}

// ScheduleStart is a run that a schedule has started, or wanted to.
type ScheduleStart struct {
	Tick    time.Time `json:"tick"`
	Run     string    `json:"run"`
	Skipped string    `json:"skipped,omitempty"` // why it was not started
}

// Backfill is a range of ticks of the past that are started as if they were due now.
type Backfill struct {
	From    time.Time `json:"from"`              // the first
	To      time.Time `json:"to"`                // the first that is not meant
	Overlap string    `json:"overlap,omitempty"` // empty: that of the schedule
}

// ScheduleFilter selects a page of schedules. The zero value selects the first one.
type ScheduleFilter struct {
	Cursor string `json:"cursor,omitempty"` // of a [SchedulePage], for the next one
	Limit  int    `json:"limit,omitempty"`  // of a page; 0: 100, at most 1,000
}

// SchedulePage is a part of a list of schedules, those first that were made or changed to another run last.
type SchedulePage struct {
	Schedules []Schedule `json:"schedules"`
	Cursor    string     `json:"cursor,omitempty"` // of the next page, which may be empty; empty: there is none
}

// NewSchedule asks for a schedule. What the directive of the workflow says does not hold for its runs: see [Start].
type NewSchedule struct {
	Name string `json:"name"`
	Timing
	Workflow string            `json:"workflow"`         // stored name
	Input    Payload           `json:"input,omitempty"`  // of each run, as that of [Start]
	Queue    string            `json:"queue,omitempty"`  // of the runs; empty: workflow.DefaultQueue
	Tags     map[string]string `json:"tags,omitempty"`   // of the runs
	Reason   string            `json:"reason,omitempty"` // kept in the journal; refused where there is no journal
}

// ScheduleAction says what to do with a schedule.
type ScheduleAction struct {
	Verb   string    `json:"verb"`             // one of [ScheduleActions]
	Reason string    `json:"reason,omitempty"` // kept in the journal; that of pause is the note of the schedule, too
	Timing *Timing   `json:"timing,omitempty"` // of update, which replaces all of it
	Fill   *Backfill `json:"fill,omitempty"`   // of backfill
	// Key says that asking again with it is the same request. Update, backfill and delete take any, for
	// asking again does nothing more; the others refuse one as unsupported, for no store keeps it.
	Key string `json:"-"`
}

// ScheduleActed says that a request to a schedule is durable. A worker carries it out.
type ScheduleActed struct {
	Name string `json:"name"`
	Verb string `json:"verb"`
	// Run is that of a trigger: it will exist, unless another run is active and the overlap says that it is left
	// out then.
	Run string `json:"run,omitempty"`
}

// verbPause lets ticks pass; its reason is the note of the schedule.
const verbPause = "pause"

// verbCreate makes a schedule, or replaces what one of its name does.
const verbCreate = "create"

// ticksShown is how many ticks of a schedule are foretold.
const ticksShown = 10

// Overlaps returns what can become of a tick while a run of its schedule is active.
func Overlaps() []string {
	var all []string
	for _, o := range []workflow.Overlap{workflow.OverlapSkip, workflow.OverlapReplace, workflow.OverlapQueue, workflow.OverlapLatest, workflow.OverlapAllow} {
		all = append(all, string(o))
	}
	return all
}

// scheduleVerb is an action on schedules. Again says that asking for it once more changes nothing.
type scheduleVerb struct {
	name  string
	again bool
	do    func(ctx context.Context, s *workflow.Schedules, name string, a *ScheduleAction) (workflow.RunID, error)
}

// scheduleVerbs are all of them.
var scheduleVerbs = []scheduleVerb{
	{verbPause, false, func(ctx context.Context, s *workflow.Schedules, name string, a *ScheduleAction) (workflow.RunID, error) {
		return "", s.Pause(ctx, name, a.Reason)
	}},
	{"resume", false, func(ctx context.Context, s *workflow.Schedules, name string, _ *ScheduleAction) (workflow.RunID, error) {
		return "", s.Resume(ctx, name)
	}},
	{"trigger", false, func(ctx context.Context, s *workflow.Schedules, name string, _ *ScheduleAction) (workflow.RunID, error) {
		return s.Trigger(ctx, name)
	}},
	{"backfill", true, func(ctx context.Context, s *workflow.Schedules, name string, a *ScheduleAction) (workflow.RunID, error) {
		return "", s.Backfill(ctx, name, workflow.Backfill{From: a.Fill.From, To: a.Fill.To, Overlap: workflow.Overlap(a.Fill.Overlap)})
	}},
	{"update", true, func(ctx context.Context, s *workflow.Schedules, name string, a *ScheduleAction) (workflow.RunID, error) {
		to, err := a.Timing.schedule()
		if err != nil {
			return "", err
		}
		return "", s.Update(ctx, name, to)
	}},
	{verbDelete, true, func(ctx context.Context, s *workflow.Schedules, name string, _ *ScheduleAction) (workflow.RunID, error) {
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

// check refuses what an action does not take, and returns what does it.
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

// schedule returns the timing as the runtime has it, which checks the rest.
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

// goingOn are the statuses of runs that keep schedules which are there.
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
		info, err := s.client.Schedules().Get(ctx, name)
		if errors.Is(err, workflow.ErrScheduleNotFound) {
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
	info, err := s.client.Schedules().Get(ctx, name)
	if err != nil {
		return Schedule{}, err
	}
	got := scheduleOf(&info)
	for at := info.Next; !at.IsZero() && len(got.Ticks) < ticksShown; {
		got.Ticks = append(got.Ticks, at.UTC())
		if at, err = info.Schedule.Next(at); err != nil { // such as a time zone that is not known here
			got.Problem = err.Error()
			break
		}
	}
	return got, nil
}

// PutSchedule makes a schedule, or replaces what the one of its name does; then a pause stays. When it returns nil the
// schedule is durable.
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

// ActOnSchedule controls a schedule. When it returns nil the request is durable. To delete one waits
// until a worker has ended it.
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
	run, err := v.do(ctx, s.client.Schedules(), name, &a)
	if err != nil {
		return ScheduleActed{}, err
	}
	return ScheduleActed{Name: name, Verb: a.Verb, Run: string(run)}, nil
}

func actedOnSchedule(done ScheduleActed, e *JournalEntry) { e.New = done.Run }
