package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
)

func (c *client) FindSchedule(ctx context.Context, name string) (store.Record, error) {
	id, err := c.handleByID(event.ScheduleRunID(name)).resolve(ctx)
	var l store.Loaded
	var chain event.Loop
	for next := id; err == nil && next != ""; next = l.Record.Next { // the run may be continuing as new
		if chain.Closed(next) {
			err = goesRound(next)
			break
		}
		l, err = c.load(ctx, store.Load{Run: next, Limit: -1})
	}
	switch {
	case errors.Is(err, ErrRunNotFound), err == nil && l.Record.Route.Workflow != event.ScheduleRun:
		err = flow.ErrScheduleNotFound
	case err == nil && l.Record.Status == StatusFailed:
		err = fmt.Errorf("%w: its run %s has failed: see its Result, and create the schedule again", flow.ErrScheduleNotFound, l.Record.Run)
	case err == nil && l.Record.QueueState == store.StateEnded:
		err = flow.ErrScheduleNotFound
	}
	if err != nil {
		return l.Record, fmt.Errorf("schedule %q: %w", name, err)
	}
	return l.Record, nil
}

// putSchedule creates a schedule, or replaces its definition. It writes nothing if the schedule
// already has this definition.
func (c *client) putSchedule(ctx context.Context, name string, does *scheduled) error {
	if r, err := c.FindSchedule(ctx, name); err == nil && r.Route.Queue == does.Queue {
		if now, err := c.scheduleDoes(ctx, r.Run); err == nil && now.same(does) {
			return nil
		}
	}
	_, err := c.beginSchedule(ctx, scheduleState{Name: name, Does: does}, scheduleOrder{Set: does})
	return err
}

// scheduleDoes returns the definition that a schedule will have when it has processed all its
// orders.
func (c *client) scheduleDoes(ctx context.Context, run RunID) (*scheduled, error) {
	l, err := c.load(ctx, store.Load{Run: run, Inbox: true})
	if err != nil {
		return nil, err
	}
	events, err := (&logReader{run: run}).all(&l)
	if err != nil {
		return nil, err
	}
	for i := range l.Inbox {
		e, err := event.DecodeItem(l.Inbox[i].Body)
		if err != nil {
			return nil, err
		}
		events = append(events, *e)
	}
	var state scheduleState
	if _, err := schedules.def().DecodeInput(events[0].Payload, &state); err != nil {
		return nil, err
	}
	for i := range events {
		if e := &events[i]; e.Type == event.MessageReceived && e.Name == scheduleOrders.name {
			var o scheduleOrder
			if err := flow.Decode(scheduleOrders.what(), e.Payload, &o); err != nil {
				return nil, err
			}
			state.take(&o)
		}
	}
	return state.Does, nil
}

// beginSchedule creates the run of a schedule with an order, or sends the order to the existing
// run.
func (c *client) beginSchedule(ctx context.Context, state scheduleState, o scheduleOrder) (*Run[None], error) {
	o.At = c.store.Clock().Now()
	run, err := schedules.Start(ctx, &c.face, state, WithID(event.ScheduleRunID(state.Name)), WithQueue(state.Does.Queue), WithMessage(scheduleOrders, o))
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", state.Name, err)
	}
	return run, nil
}

// declaration is a schedule that the code of workers declares.
type declaration struct {
	Does *scheduled `json:"does"`
	// Since is the time at which the worker that made the declaration last started, by the clock of
	// the store.
	Since time.Time `json:"since"`
}

// after reports whether the worker that made d started after the worker that made other. d may be
// nil.
func (d *declaration) after(other *declaration) bool {
	return d != nil && other.Since.Before(d.Since)
}

// take applies an order to the definition of the schedule.
func (s *scheduleState) take(o *scheduleOrder) {
	if does := s.ordered(o); does != nil {
		s.Does = does
	}
	if o.Declare != nil && !s.Declared.after(o.Declare) {
		s.Declared = o.Declare
	}
}

// ordered returns the new definition that an order gives the schedule, or nil if the definition
// does not change. Of several declarations, the one of the worker that started last applies. A
// repeated declaration changes nothing, so an update by an operator remains until the code changes.
func (s *scheduleState) ordered(o *scheduleOrder) *scheduled {
	switch {
	case o.Declare != nil:
		if last := s.Declared; last.after(o.Declare) || last != nil && last.Does.same(o.Declare.Does) {
			return nil
		}
		return o.Declare.Does
	case o.Set != nil:
		return o.Set
	case o.Change != nil:
		does := *s.Does
		does.Spec = *o.Change
		return &does
	}
	return nil
}

// Declare creates the schedules that directives declare, or sends the declarations to them. Each
// schedule has the name of its workflow.
func (c *client) Declare(ctx context.Context, r *flow.Registry, began time.Time) error {
	var failed error
	for _, d := range r.Scheduled() {
		does, err := definition{d}.scheduled(c, d.Name, schedule.Spec{When: d.Schedule}, None{}, nil)
		if err == nil {
			said := &declaration{Does: does, Since: began}
			_, err = c.beginSchedule(ctx, scheduleState{Name: d.Name, Does: does, Declared: said}, scheduleOrder{Declare: said})
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
