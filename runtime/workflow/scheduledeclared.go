package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/engine"
)

// declaration is a schedule declared in the code of workers.
type declaration struct {
	Does *scheduled `json:"does"`
	// Since is when the worker that made the declaration last started, by the store's clock.
	Since time.Time `json:"since"`
}

// after reports whether d was made by a worker that started after the worker of other. d may be
// nil.
func (d *declaration) after(other *declaration) bool {
	return d != nil && other.Since.Before(d.Since)
}

// ordered returns the new definition that an order gives the schedule, or nil for no change. Of
// several declarations, the one of the worker that started last applies. A repeated declaration
// changes nothing, so a manual update lasts until the code changes.
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
		does.Schedule = *o.Change
		return &does
	}
	return nil
}

// Scheduled reports whether the directive of a workflow declares a schedule.
func (r *registry) Scheduled() bool { return len(r.scheduled()) > 0 }

func (r *registry) scheduled() []*definition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*definition
	for _, w := range r.workflows {
		if w.def.schedule != "" {
			all = append(all, w.def)
		}
	}
	return all
}

// Declare creates or updates the schedules declared by directives. Each has the name of its
// workflow.
func (e engineClient) Declare(ctx context.Context, r engine.Registry, began time.Time) error {
	var failed error
	for _, d := range r.(*registry).scheduled() {
		failed = errors.Join(failed, e.c.declareSchedule(ctx, d, began))
	}
	return failed
}

// declareSchedule creates the schedule of a workflow, or sends it the declaration.
func (c *Client) declareSchedule(ctx context.Context, d *definition, began time.Time) error {
	does, err := d.scheduled(c, d.name, Schedule{When: d.schedule}, None{}, nil)
	if err != nil {
		return err
	}
	said := &declaration{Does: does, Since: began}
	_, err = c.beginSchedule(ctx, scheduleState{Name: d.name, Does: does, Declared: said}, scheduleOrder{Declare: said})
	return err
}
