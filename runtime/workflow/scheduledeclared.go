package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/engine"
)

// declaration is a schedule that stands in the code of workers.
type declaration struct {
	Does *scheduled `json:"does"`
	// Since is when the worker began that has said it last, by the clock of the store.
	Since time.Time `json:"since"`
}

// after reports whether a declaration, which may be nil, is of a worker that began after that of another one.
func (d *declaration) after(other *declaration) bool {
	return d != nil && other.Since.Before(d.Since)
}

// ordered returns what an order makes the schedule do; nil: what it does. Of declarations that of the worker
// that began last holds. What is declared again changes nothing, so that an update by hand lasts until the
// code is changed.
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

// Scheduled reports whether the directive of a workflow names a schedule.
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

// Declare makes the schedules of directives what they say. Each has the name of its workflow.
func (e engineClient) Declare(ctx context.Context, r engine.Registry, began time.Time) error {
	var failed error
	for _, d := range r.(*registry).scheduled() {
		failed = errors.Join(failed, e.c.Schedules().declare(ctx, d, began))
	}
	return failed
}

// declare creates the schedule of a workflow, or tells it what the code says.
func (s *Schedules) declare(ctx context.Context, d *definition, began time.Time) error {
	does, err := d.scheduled(s.c, d.name, Schedule{When: d.schedule}, None{}, nil)
	if err != nil {
		return err
	}
	said := &declaration{Does: does, Since: began}
	_, err = s.begin(ctx, scheduleState{Name: d.name, Does: does, Declared: said}, scheduleOrder{Declare: said})
	return err
}
