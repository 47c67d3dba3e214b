package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// InternalRunError says that a run is one of the runtime's own, which takes no commands, messages
// or questions, and of which no new run is made: it executes a step or holds a token or permits
// for another run, or is that of a schedule or a bulk action.
type InternalRunError struct {
	Verb     string // what was asked for
	Run      RunID
	Workflow string // its stored name
	// Of is the run to address instead; empty: there is none, for it is a schedule or a bulk action.
	Of RunID
	// Schedule is the name of the schedule, and Bulk the id of the bulk action, to address instead.
	Schedule, Bulk string
}

// Error names the run, what it is, and what to address instead.
func (e *InternalRunError) Error() string {
	return fmt.Sprintf("%s run %s: it is the runtime's own, of workflow %s: %s", e.Verb, e.Run, e.Workflow, e.Fix())
}

// Permanent returns true: the same request will be refused again.
func (e *InternalRunError) Permanent() bool { return true }

// Fix names what to address instead.
func (e *InternalRunError) Fix() string {
	switch {
	case e.Schedule != "":
		return fmt.Sprintf("address the schedule %q: see schedules", e.Schedule)
	case e.Bulk != "":
		return fmt.Sprintf("address the bulk action %s: see bulk", e.Bulk)
	case e.Of != "":
		return fmt.Sprintf("address run %s, to which it belongs", e.Of)
	}
	return "address what has started it"
}

// refuseInternal returns an *InternalRunError if a run is one of the runtime's own.
func refuseInternal(verb string, r *store.Record) error {
	name := r.Route.Workflow
	if !event.Internal(name) {
		return nil
	}
	e := &InternalRunError{Verb: verb, Run: r.Run, Workflow: name}
	switch name {
	case event.ScheduleRun:
		e.Schedule = strings.TrimPrefix(r.WorkflowID, event.ScheduleRunID(""))
	case event.BulkRun:
		e.Bulk = r.WorkflowID
	default:
		e.Of = r.Parent
	}
	return e
}

// access is what a handle knows of the right to command its run.
type access int8

const (
	unknown access = iota // the run is looked at before the first command
	allowed               // it is a user's run
	inside                // the handle is that of the runtime's own code, by the definition of one of its workflows
)

// commandable returns the id of the run that a command is for, and an *InternalRunError if that
// is one of the runtime's own. A run that is not there, or cannot be read, is left to the command.
//
// The workflow of a run never changes, so a handle by a run id looks once; and a workflow id that
// is not reserved is never that of a run of the runtime.
func (h *Handle) commandable(ctx context.Context, verb string) (RunID, error) {
	run, err := h.resolve(ctx)
	if err != nil || h.access.Load() != int32(unknown) || h.workflowID != "" && !event.ReservedID(h.workflowID) {
		return run, err
	}
	l, err := h.c.load(ctx, store.Load{Run: run, Limit: -1})
	switch _, damaged := errors.AsType[*store.DamagedError](err); {
	case damaged || errors.Is(err, ErrRunNotFound): // of which more is known where the command is accepted
		return run, nil
	case err != nil:
		return run, fmt.Errorf("read run %s: %w", run, err)
	}
	if err := refuseInternal(verb, &l.Record); err != nil {
		return run, err
	}
	if h.workflowID == "" {
		h.access.Store(int32(allowed))
	}
	return run, nil
}

// refuseInternals returns the error that the command has for each of the runs.
func (c *Client) refuseInternals(ctx context.Context, verb string, runs []RunID) []error {
	errs := make([]error, len(runs))
	loaded, err := c.records(ctx, runs)
	for i := range runs {
		if errs[i] = err; err == nil && loaded[i].Err == nil {
			errs[i] = refuseInternal(verb, &loaded[i].Record)
		}
	}
	return errs
}

// of notes that a handle is that of a run of a workflow, as its user says, or, if the run was
// started for it, as is known.
func (h *Handle) of(d *definition, known bool) *Handle {
	switch {
	case event.Internal(d.name):
		h.access.Store(int32(inside))
	case known:
		h.access.Store(int32(allowed))
	}
	return h
}

// checkTopic returns an *InvalidError if a name is no topic that others send to.
func (h *Handle) checkTopic(name string) error {
	if event.Reserved(name) && h.access.Load() != int32(inside) {
		return reservedTopic(name)
	}
	return nil
}

func reservedTopic(name string) error {
	return &InvalidError{What: "topic", Value: name, Reason: "is the runtime's own: only the runtime sends to it"}
}
