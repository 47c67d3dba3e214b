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

// Schedules reads and changes the schedules of a store; [Definition.Schedule] makes
// them. Its calls are requests to the run of the schedule: when one returns nil the request
// is durable, and a worker carries it out. A tick that is due after the call does as the
// call says, even if no worker was there for long; one that is due just then may not.
//
// Errors: ErrScheduleNotFound; a *[ScheduleError] if what is asked for makes no sense.
type Schedules struct{ c *Client }

// Schedules returns the schedules of the store.
func (c *Client) Schedules() *Schedules { return &Schedules{c} }

// ScheduleInfo is a schedule as its run has shown it last.
type ScheduleInfo struct {
	Name string `json:"name"`
	Schedule
	Workflow string `json:"workflow"` // stored name of what it starts
	Queue    string `json:"queue"`    // of the runs
	Paused   bool   `json:"paused,omitempty"`
	Note     string `json:"note,omitempty"` // why it was paused
	// Next is the tick that comes next, without jitter; zero: it is paused, or there is none.
	Next time.Time `json:"next,omitzero"`
	// Problem says why no tick is known, such as a time zone that the worker does not have.
	Problem string `json:"problem,omitempty"`
	// Backfills are those that are not finished.
	Backfills []Backfill `json:"backfills,omitempty"`
	Started   int        `json:"started,omitempty"` // runs
	// Skipped counts the ticks that found another run active, or were passed over for a newer
	// one, and Missed those that were later than CatchUp.
	Skipped int             `json:"skipped,omitempty"`
	Missed  int             `json:"missed,omitempty"`
	Recent  []ScheduleStart `json:"recent,omitempty"` // the last ten, oldest first
	Run     RunID           `json:"run"`              // of the workflow "flowgen.schedule"
	// Unserved says that no worker that lives works on the schedule: see [RunInfo].
	Unserved bool `json:"-"`
}

// ScheduleStart is a run that a schedule has started, or wanted to.
type ScheduleStart struct {
	Tick    time.Time `json:"tick"`
	Run     RunID     `json:"run"`
	Skipped string    `json:"skipped,omitempty"` // why it was not started
}

// Backfill is a range of ticks of the past that are started as if they were due now, oldest
// first, by what the schedule says when it starts them. Those that have a run are not started again, as long as that run is kept.
type Backfill struct {
	From    time.Time `json:"from"`              // the first
	To      time.Time `json:"to"`                // the first that is not meant
	Overlap Overlap   `json:"overlap,omitempty"` // empty: that of the schedule
}

// find returns the run of a schedule.
func (s *Schedules) find(ctx context.Context, name string) (store.Record, error) {
	id, err := s.c.RunByID(event.ScheduleRunID(name)).resolve(ctx)
	var l store.Loaded
	var chain event.Loop
	for next := id; err == nil && next != ""; next = l.Record.Next { // it may continue just now
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

// info reads what the run of a schedule shows, or what it was created with if it has
// shown nothing yet.
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
	info.Run = r.Run // what it has not shown yet, the run before it has
	info.Unserved, err = s.c.unserved(ctx, r)
	return info, err
}

// List delivers the schedules, in no particular order. An error is the last pair.
// [ErrNotSupported]: the store cannot be searched.
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

// goingOn are the statuses of runs that have not ended.
var goingOn = []Status{StatusPending, StatusRunning, StatusHeld, StatusPaused, StatusSleeping, StatusWaiting, StatusBlocked}

// put creates a schedule, or replaces what it does. It writes nothing if the schedule does that already.
func (s *Schedules) put(ctx context.Context, name string, does *scheduled) error {
	if r, err := s.find(ctx, name); err == nil && r.Route.Queue == does.Queue {
		if now, err := s.does(ctx, r.Run); err == nil && now.same(does) {
			return nil
		}
	}
	_, err := s.begin(ctx, scheduleState{Name: name, Does: does}, scheduleOrder{Set: does})
	return err
}

// does returns what a run of a schedule does once it has obeyed all orders that it has.
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

// begin creates the run of a schedule with an order, or sends the order to the one that exists.
func (s *Schedules) begin(ctx context.Context, state scheduleState, o scheduleOrder) (*Run[None], error) {
	o.At = s.c.store.Clock().Now()
	run, err := schedules.Start(ctx, s.c, state, WithID(event.ScheduleRunID(state.Name)), WithQueue(state.Does.Queue), WithMessage(scheduleOrders, o))
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", state.Name, err)
	}
	return run, nil
}

// order sends something to the run of a schedule.
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

// Update replaces when the schedule fires and how, and leaves what it starts: for that see
// [Definition.Schedule].
func (s *Schedules) Update(ctx context.Context, name string, to Schedule) error {
	if err := to.check(name); err != nil {
		return err
	}
	return s.order(ctx, name, scheduleOrder{At: s.now(), Change: &to})
}

// Pause lets the ticks from now on pass, and says why. Runs that were started go on. A
// trigger and a backfill start runs nevertheless.
func (s *Schedules) Pause(ctx context.Context, name, note string) error {
	if err := store.CheckText("note", note, MaxReason); err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return s.order(ctx, name, scheduleOrder{At: s.now(), Pause: true, Note: note})
}

// Resume ends a pause. The ticks that were due meanwhile are not started; see
// [Schedules.Backfill].
func (s *Schedules) Resume(ctx context.Context, name string) error {
	return s.order(ctx, name, scheduleOrder{At: s.now(), Resume: true})
}

// Trigger starts a run now, beside the ticks, and returns its id. When it returns the run exists,
// unless another one is active and the schedule leaves it out, or no worker has obeyed within
// five seconds: then the order waits for one.
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

// awaitStart waits until the run of a trigger exists, or will not for now. The order is durable,
// so that no error matters here.
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
		// The log of the schedule grows when it obeys, and once more when the run exists.
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

// Delete ends the schedule and waits until its run has ended; then the name is free. The
// runs that it has started go on.
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
