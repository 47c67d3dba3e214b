package workflow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Schedules reads and changes the schedules of a store; [Definition.Schedule] creates them. Its
// methods send requests to the run of the schedule: when a method returns nil the request is
// durable, and a worker executes it. A request applies to all ticks that are due after the call,
// even if no worker was running for a long time; it may miss a tick that is due at that moment.
//
// Errors: ErrScheduleNotFound; a *[ScheduleError] for an invalid request.
type Schedules struct{ c *Client }

// Schedules returns the interface to the schedules of the store.
func (c *Client) Schedules() *Schedules { return &Schedules{c} }

// ScheduleInfo is the state of a schedule as last published by its run.
type ScheduleInfo struct {
	Name string `json:"name"`
	Schedule
	Workflow string `json:"workflow"` // stored name of the workflow to start
	Queue    string `json:"queue"`    // queue of the runs
	Paused   bool   `json:"paused,omitempty"`
	Note     string `json:"note,omitempty"` // why it was paused
	// Next is the next tick, without jitter; zero: the schedule is paused, or there is none.
	Next time.Time `json:"next,omitzero"`
	// Problem describes why no tick is known, for example a time zone that the worker does not
	// have.
	Problem string `json:"problem,omitempty"`
	// Backfills are those that are not finished.
	Backfills []Backfill `json:"backfills,omitempty"`
	Started   int        `json:"started,omitempty"` // number of runs
	// Skipped counts the ticks that found another run active, or were skipped for a newer tick.
	// Missed counts the ticks that were later than CatchUp.
	Skipped int             `json:"skipped,omitempty"`
	Missed  int             `json:"missed,omitempty"`
	Recent  []ScheduleStart `json:"recent,omitempty"` // the last ten, oldest first
	Run     RunID           `json:"run"`              // run of the workflow "flowgen.schedule"
	// Unserved reports that no live worker executes the schedule: see [RunInfo].
	Unserved bool `json:"-"`
}

// ScheduleStart is a run that a schedule has started, or tried to start.
type ScheduleStart struct {
	Tick    time.Time `json:"tick"`
	Run     RunID     `json:"run"`
	Skipped string    `json:"skipped,omitempty"` // why it was not started
}

// Backfill is a range of past ticks that are started as if they were due now, oldest first, with
// the definition that the schedule has when it starts them. A tick that already has a run is not
// started again, as long as that run is kept.
type Backfill struct {
	From    time.Time `json:"from"`              // the first tick
	To      time.Time `json:"to"`                // exclusive end of the range
	Overlap Overlap   `json:"overlap,omitempty"` // empty: the policy of the schedule
}

// find returns the run of a schedule.
func (s *Schedules) find(ctx context.Context, name string) (store.Record, error) {
	id, err := s.c.RunByID(event.ScheduleRunID(name)).resolve(ctx)
	var l store.Loaded
	var chain event.Loop
	for next := id; err == nil && next != ""; next = l.Record.Next { // it may be continuing as new
		if chain.Closed(next) {
			err = goesRound(next)
			break
		}
		l, err = s.c.load(ctx, store.Load{Run: next, Limit: -1})
	}
	switch {
	case errors.Is(err, ErrRunNotFound):
		err = ErrScheduleNotFound
	case err == nil && l.Record.Route.Workflow != event.ScheduleRun:
		err = ErrScheduleNotFound
	case err == nil && l.Record.Status == StatusFailed:
		err = fmt.Errorf("%w: its run %s has failed: see its Result, and create the schedule again", ErrScheduleNotFound, l.Record.Run)
	case err == nil && l.Record.QueueState == store.StateEnded:
		err = ErrScheduleNotFound
	}
	if err != nil {
		return l.Record, fmt.Errorf("schedule %q: %w", name, err)
	}
	return l.Record, nil
}

// Get returns a schedule.
func (s *Schedules) Get(ctx context.Context, name string) (ScheduleInfo, error) {
	r, err := s.find(ctx, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	return s.info(ctx, &r)
}

// info reads the published state of a schedule, or its initial state if it has published nothing
// yet.
func (s *Schedules) info(ctx context.Context, r *store.Record) (ScheduleInfo, error) {
	info, there, err := scheduleShown.Get(ctx, s.c.Run(r.Run))
	if err != nil {
		return info, err
	}
	if !there {
		first, err := s.c.lastEvent(ctx, r.Run, 1)
		if err != nil {
			return info, err
		}
		var state scheduleState
		if _, err := schedules.d.decodeInput(first.Payload, &state); err != nil {
			return info, err
		}
		info = state.info(r.Run)
	}
	info.Run = r.Run // the published state may be from the previous run
	info.Unserved, err = s.c.unserved(ctx, r)
	return info, err
}

// List delivers the schedules, in no particular order. An error is the last pair. The error matches
// [ErrNotSupported] if the store cannot be searched.
func (s *Schedules) List(ctx context.Context) iter.Seq2[ScheduleInfo, error] {
	return func(yield func(ScheduleInfo, error) bool) {
		going := Filter{Workflow: event.ScheduleRun, Statuses: goingOn}
		for run, err := range s.c.List(ctx, going) {
			var info ScheduleInfo
			var l store.Loaded
			if err == nil {
				l, err = s.c.load(ctx, store.Load{Run: run.ID, Limit: -1})
			}
			if err == nil {
				info, err = s.info(ctx, &l.Record)
			}
			if errors.Is(err, ErrRunNotFound) {
				continue // it was purged meanwhile
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// goingOn contains the statuses of runs that have not ended.
var goingOn = []Status{StatusPending, StatusRunning, StatusHeld, StatusPaused, StatusSleeping, StatusWaiting, StatusBlocked}

// put creates a schedule, or replaces its definition. It writes nothing if the schedule already has
// this definition.
func (s *Schedules) put(ctx context.Context, name string, does *scheduled) error {
	if r, err := s.find(ctx, name); err == nil && r.Route.Queue == does.Queue {
		if now, err := s.does(ctx, r.Run); err == nil && now.same(does) {
			return nil
		}
	}
	_, err := s.begin(ctx, scheduleState{Name: name, Does: does}, scheduleOrder{Set: does})
	return err
}

// does returns the definition that a schedule will have after it has processed all its orders.
func (s *Schedules) does(ctx context.Context, run RunID) (*scheduled, error) {
	l, err := s.c.load(ctx, store.Load{Run: run, Inbox: true})
	if err != nil {
		return nil, err
	}
	var state scheduleState
	obey := func(e *event.Event) error {
		if e.Type != event.MessageReceived || e.Name != scheduleOrders.name {
			return nil
		}
		var o scheduleOrder
		if err := decode(scheduleOrders.what(), e.Payload, &o); err != nil {
			return err
		}
		if does := state.ordered(&o); does != nil {
			state.Does = does
		}
		if o.Declare != nil && !state.Declared.after(o.Declare) {
			state.Declared = o.Declare
		}
		return nil
	}
	for n, frame := range l.Frames {
		f, err := event.DecodeFrame(frame)
		if err != nil {
			return nil, &EventError{Run: run, Frame: uint64(n) + 1, Err: err}
		}
		for i := range f.Events {
			e := &f.Events[i]
			if e.Type == event.RunCreated {
				_, err = schedules.d.decodeInput(e.Payload, &state)
			} else {
				err = obey(e)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for i := range l.Inbox {
		e, err := event.DecodeItem(l.Inbox[i].Body)
		if err == nil {
			err = obey(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return state.Does, nil
}

// begin creates the run of a schedule with an order, or sends the order to the existing run.
func (s *Schedules) begin(ctx context.Context, state scheduleState, o scheduleOrder) (*Run[None], error) {
	o.At = s.c.store.Clock().Now()
	run, err := schedules.Start(ctx, s.c, state, WithID(event.ScheduleRunID(state.Name)), WithQueue(state.Does.Queue), WithMessage(scheduleOrders, o))
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", state.Name, err)
	}
	return run, nil
}

// order sends an order to the run of a schedule.
func (s *Schedules) order(ctx context.Context, name string, o scheduleOrder) error {
	r, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	err = scheduleOrders.Send(ctx, schedules.Get(s.c, r.Run), o)
	if errors.Is(err, ErrRunNotFound) || errors.Is(err, ErrRunTerminal) {
		err = ErrScheduleNotFound
	}
	if err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return nil
}

func (s *Schedules) now() time.Time { return s.c.store.Clock().Now() }

// Update replaces the times and policies of the schedule. It keeps the workflow and its input; to
// change these see [Definition.Schedule].
func (s *Schedules) Update(ctx context.Context, name string, to Schedule) error {
	if err := to.check(name); err != nil {
		return err
	}
	return s.order(ctx, name, scheduleOrder{At: s.now(), Change: &to})
}

// Pause makes the schedule skip all ticks from now on, and records the reason. Runs that were
// started continue. Trigger and Backfill still start runs.
func (s *Schedules) Pause(ctx context.Context, name, note string) error {
	if err := store.CheckText("note", note, MaxReason); err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return s.order(ctx, name, scheduleOrder{At: s.now(), Pause: true, Note: note})
}

// Resume ends a pause. Ticks that were due during the pause are not started; see
// [Schedules.Backfill].
func (s *Schedules) Resume(ctx context.Context, name string) error {
	return s.order(ctx, name, scheduleOrder{At: s.now(), Resume: true})
}

// Trigger starts a run now, in addition to the ticks, and returns its ID. When it returns the run
// exists, unless another run is active and the overlap policy skips this one, or no worker has
// processed the order within five seconds: then the order remains pending.
func (s *Schedules) Trigger(ctx context.Context, name string) (RunID, error) {
	o := scheduleOrder{At: event.Instant(s.now()), Trigger: "trigger " + string(event.NewItemID())}
	if err := s.order(ctx, name, o); err != nil {
		return "", err
	}
	run := event.TickRunID(name, o.Trigger, o.At)
	s.awaitStart(ctx, name, run)
	return run, nil
}

// triggerPatience bounds how long Trigger waits for a worker.
const triggerPatience = 5 * time.Second

// awaitStart waits until the run of a trigger exists or was skipped. The order is durable, so
// errors are ignored.
func (s *Schedules) awaitStart(ctx context.Context, name string, run RunID) {
	ctx, cancel := context.WithTimeout(ctx, triggerPatience)
	defer cancel()
	for {
		r, err := s.find(ctx, name)
		if err != nil {
			return
		}
		if _, err := s.c.load(ctx, store.Load{Run: run, Limit: -1}); !errors.Is(err, ErrRunNotFound) {
			return
		}
		info, err := s.info(ctx, &r)
		if err != nil || slices.ContainsFunc(info.Recent, func(t ScheduleStart) bool { return t.Run == run && t.Skipped != "" }) {
			return
		}
		// The log of the schedule grows when it processes the order, and again when the run exists.
		if s.c.store.Watch(ctx, r.Run, r.N) != nil {
			return
		}
	}
}

// Backfill starts ticks of the past.
func (s *Schedules) Backfill(ctx context.Context, name string, b Backfill) error {
	now := s.now()
	problem := ""
	switch {
	case b.Overlap != "" && (Schedule{When: "every 1h", Overlap: b.Overlap}).check(name) != nil:
		problem = fmt.Sprintf("overlap %q is not known: want one of %q", b.Overlap, overlaps)
	case b.From.IsZero() || !b.From.Before(b.To):
		problem = fmt.Sprintf("a backfill from %v to %v has no ticks: To is the first time that is not meant", b.From, b.To)
	case b.From.After(now):
		problem = fmt.Sprintf("a backfill from %v is about the future, which needs none", b.From)
	}
	if problem != "" {
		return &ScheduleError{Name: name, Problem: problem}
	}
	if b.To.After(now) {
		b.To = now
	}
	return s.order(ctx, name, scheduleOrder{At: now, Backfill: &b})
}

// Delete ends the schedule and waits until its run has ended; then the name is free. Runs that it
// has started continue.
func (s *Schedules) Delete(ctx context.Context, name string) error {
	r, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	run := schedules.Get(s.c, r.Run)
	if err := run.Cancel(ctx, "the schedule was deleted"); err != nil && !errors.Is(err, ErrRunTerminal) {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	if _, err := run.Result(ctx); err != nil && !errors.Is(err, ErrCanceled) {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}
