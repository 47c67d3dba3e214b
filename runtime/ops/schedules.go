package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ErrScheduleNotFound means that no schedule has this name, or that the schedule was deleted.
var ErrScheduleNotFound = flow.ErrScheduleNotFound

// Schedules reads and changes the schedules of a store. [workflow.Definition.Schedule] creates
// them. Its methods send requests to the run of the schedule, which a worker executes. When a
// method returns nil, its request is durable. A request applies to all ticks that are due after the
// call, even if no worker executes it for a long time. It may not apply to a tick that is due at
// the time of the call.
//
// Errors: ErrScheduleNotFound; or a *[schedule.Error] for an invalid request.
type Schedules struct{ c *Client }

// Schedules returns an object that reads and changes the schedules of the store.
func (c *Client) Schedules() *Schedules { return &Schedules{c} }

type order = flow.ScheduleOrder[schedule.Spec, schedule.Backfill]

// The topics and values through which this package and the run of a schedule communicate.
var (
	scheduleRuns   = scheduleDefinition()
	scheduleOrders = workflow.NewTopic[order](event.ScheduleRun)
	scheduleShown  = workflow.NewValue[schedule.Info](event.ScheduleRun)
)

// scheduleDefinition returns the definition of the runs of schedules. Handles from this definition
// may control these runs.
func scheduleDefinition() workflow.Definition[workflow.None, workflow.None] {
	return workflow.Definition[workflow.None, workflow.None](flow.NewDefinition(&flow.DefinitionSpec{Name: event.ScheduleRun}))
}

// Get returns a schedule.
func (s *Schedules) Get(ctx context.Context, name string) (schedule.Info, error) {
	r, err := s.c.inner.FindSchedule(ctx, name)
	if err != nil {
		return schedule.Info{}, err
	}
	return s.info(ctx, &r)
}

// info returns the published state of a schedule. If the schedule has not published a state, it
// returns the initial state.
func (s *Schedules) info(ctx context.Context, r *store.Record) (schedule.Info, error) {
	info, there, err := scheduleShown.Get(ctx, s.c.client.Run(r.Run))
	if err == nil && !there {
		info, err = s.initial(ctx, r.Run)
	}
	if err != nil {
		return info, err
	}
	info.Run = r.Run // the previous run may have published the state
	info.Unserved, err = s.c.inner.Unserved(ctx, r)
	return info, err
}

// initial returns the state that the input of a schedule's run contains. The input has the fields
// of the published state. Only the definition of the schedule is in a separate field.
func (s *Schedules) initial(ctx context.Context, run workflow.RunID) (schedule.Info, error) {
	events, err := s.c.client.Run(run).ReadEvents(ctx, 1, 1)
	if err != nil {
		return schedule.Info{}, err
	}
	var state struct {
		schedule.Info
		Does struct {
			schedule.Spec
			Workflow string `json:"workflow"`
			Queue    string `json:"queue"`
		} `json:"does"`
	}
	for i := range events {
		if err := flow.DecodePayload("input of run ", string(run), events[i].Payload, &state); err != nil {
			return schedule.Info{}, err
		}
	}
	info := state.Info
	info.Spec, info.Workflow, info.Queue = state.Does.Spec, state.Does.Workflow, state.Does.Queue
	if info.Paused {
		info.Next = time.Time{}
	}
	return info, nil
}

// Names returns the names of all schedules, sorted. The error matches workflow.ErrNotSupported if the
// store cannot be searched.
//
// The run of a schedule may continue as a new run while Names reads the runs page by page. Names
// reads the oldest runs first, so a new run is on one of the following pages.
func (s *Schedules) Names(ctx context.Context) ([]string, error) {
	var names []string
	for run, err := range s.c.client.List(ctx, workflow.Filter{Workflow: event.ScheduleRun, Statuses: open, Oldest: true}) {
		if err != nil {
			return nil, err
		}
		names = append(names, strings.TrimPrefix(run.WorkflowID, event.ScheduleRunID("")))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// List returns the schedules, sorted by name. If an error occurs, it is in the last pair. The error
// matches workflow.ErrNotSupported if the store cannot be searched.
func (s *Schedules) List(ctx context.Context) iter.Seq2[schedule.Info, error] {
	return func(yield func(schedule.Info, error) bool) {
		names, err := s.Names(ctx)
		if err != nil {
			yield(schedule.Info{}, err)
			return
		}
		for _, name := range names {
			info, err := s.Get(ctx, name)
			if errors.Is(err, ErrScheduleNotFound) {
				continue // the schedule was deleted after it was listed
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// open contains the statuses of runs that have not ended.
var open = []workflow.Status{
	workflow.StatusPending, workflow.StatusRunning, workflow.StatusHeld, workflow.StatusPaused, workflow.StatusSleeping,
	workflow.StatusWaiting, workflow.StatusBlocked,
}

// order sends an order to the run of a schedule.
func (s *Schedules) order(ctx context.Context, name string, o order) error {
	r, err := s.c.inner.FindSchedule(ctx, name)
	if err != nil {
		return err
	}
	err = scheduleOrders.Send(ctx, scheduleRuns.Get(s.c.client, r.Run), o)
	if errors.Is(err, workflow.ErrRunNotFound) || errors.Is(err, workflow.ErrRunTerminal) {
		err = ErrScheduleNotFound
	}
	if err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return nil
}

func (s *Schedules) now() time.Time { return s.c.store.Clock().Now() }

// Update replaces the times and policies of the schedule. It keeps the workflow and its input. To
// change these, call [workflow.Definition.Schedule].
func (s *Schedules) Update(ctx context.Context, name string, to schedule.Spec) error {
	if problem := s.problem(to); problem != "" {
		return &schedule.Error{Name: name, Problem: problem}
	}
	return s.order(ctx, name, order{At: s.now(), Change: &to})
}

// problem describes why a schedule is not valid. It is empty if the schedule is valid.
func (s *Schedules) problem(of schedule.Spec) string {
	_, err := of.Next(s.now())
	if bad, ok := errors.AsType[*schedule.Error](err); ok {
		return bad.Problem
	}
	return ""
}

// Pause makes the schedule skip all ticks until Resume is called, and records the reason. Runs that
// the schedule has started continue. Trigger and Backfill start runs even during a pause.
func (s *Schedules) Pause(ctx context.Context, name, note string) error {
	if err := store.CheckText("note", note, store.MaxReason); err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return s.order(ctx, name, order{At: s.now(), Pause: true, Note: note})
}

// Resume ends a pause. Runs for ticks that were due during the pause are not started. To start
// them, call [Schedules.Backfill].
func (s *Schedules) Resume(ctx context.Context, name string) error {
	return s.order(ctx, name, order{At: s.now(), Resume: true})
}

// Trigger starts a run now, in addition to the ticks, and returns its ID. When Trigger returns, the
// run usually exists. It does not exist if another run is active and the overlap policy skips this
// one. It does not exist yet if no worker has processed the request within five seconds. In that
// case, the request remains durable.
func (s *Schedules) Trigger(ctx context.Context, name string) (workflow.RunID, error) {
	o := order{At: event.Instant(s.now()), Trigger: "trigger " + string(event.NewItemID())}
	if err := s.order(ctx, name, o); err != nil {
		return "", err
	}
	run := event.TickRunID(name, o.Trigger, o.At)
	s.awaitStart(ctx, name, run)
	return run, nil
}

// triggerPatience is the maximum time for which Trigger waits for a worker.
const triggerPatience = 5 * time.Second

// awaitStart waits until the run of a trigger exists or was skipped. It ignores errors, because the
// request is durable.
func (s *Schedules) awaitStart(ctx context.Context, name string, run workflow.RunID) {
	ctx, cancel := context.WithTimeout(ctx, triggerPatience)
	defer cancel()
	for {
		r, err := s.c.inner.FindSchedule(ctx, name)
		if err != nil {
			return
		}
		if _, err := s.c.load(ctx, store.Load{Run: run, Limit: -1}); !errors.Is(err, workflow.ErrRunNotFound) {
			return
		}
		info, err := s.info(ctx, &r)
		if err != nil || slices.ContainsFunc(info.Recent, func(t schedule.Start) bool { return t.Run == run && t.Skipped != "" }) {
			return
		}
		// The log of the schedule grows when the schedule processes the request, and when the run
		// exists.
		if s.c.store.Watch(ctx, r.Run, r.N) != nil {
			return
		}
	}
}

// Backfill starts runs for ticks in the past.
func (s *Schedules) Backfill(ctx context.Context, name string, b schedule.Backfill) error {
	now := s.now()
	problem := s.problem(schedule.Spec{When: "every 1h", Overlap: b.Overlap})
	switch {
	case problem != "":
	case b.From.IsZero() || !b.From.Before(b.To):
		problem = fmt.Sprintf("a backfill from %v to %v has no ticks: To is exclusive, and must be after From", b.From, b.To)
	case b.From.After(now):
		problem = fmt.Sprintf("a backfill from %v is in the future: a backfill is for past ticks", b.From)
	}
	if problem != "" {
		return &schedule.Error{Name: name, Problem: problem}
	}
	if b.To.After(now) {
		b.To = now
	}
	return s.order(ctx, name, order{At: now, Backfill: &b})
}

// Delete ends the schedule and waits until its run has ended, so that the name is free. Runs that
// the schedule has started continue.
func (s *Schedules) Delete(ctx context.Context, name string) error {
	r, err := s.c.inner.FindSchedule(ctx, name)
	if err != nil {
		return err
	}
	run := scheduleRuns.Get(s.c.client, r.Run)
	if err := run.Cancel(ctx, "the schedule was deleted"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	if _, err := run.Result(ctx); err != nil && !errors.Is(err, workflow.ErrCanceled) {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}
