package workflow

import (
	"bytes"
	"context"
	"encoding/json"
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

// declared takes note of what a worker declares: that which began last knows best. What is
// declared again changes nothing, so that an update by hand lasts until the code is changed.
func (r *scheduling) declared(d *declaration, at time.Time) error {
	last := r.state.Declared
	if last != nil && d.Since.Before(last.Since) {
		return nil
	}
	r.state.Declared, r.changed = d, true
	if last != nil && last.same(d) {
		return nil
	}
	return r.become(d.Does, at)
}

// same reports whether two declarations say the same.
func (d *declaration) same(other *declaration) bool {
	a, _ := json.Marshal(d.Does)     //nolint:musttag // it is only compared; plain data always encodes
	b, _ := json.Marshal(other.Does) //nolint:musttag // as above
	return bytes.Equal(a, b)
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
