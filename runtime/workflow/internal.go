package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// InternalRunError reports that a run is internal to the runtime, and accepts no commands,
// messages, questions or reruns: it executes a step, holds a token or permits for another run, or
// implements a schedule or a bulk action.
type InternalRunError struct {
	Verb     string // the requested operation
	Run      RunID
	Workflow string // stored name
	// Of is the run to address instead; empty for a schedule or bulk action.
	Of RunID
	// Schedule is the name of the schedule, and Bulk the ID of the bulk action, to address instead.
	Schedule, Bulk string
}

// Error returns a text with the run, its kind, and what to address instead.
func (e *InternalRunError) Error() string {
	return fmt.Sprintf("%s run %s: it is the runtime's own, of workflow %s: %s", e.Verb, e.Run, e.Workflow, e.Fix())
}

// Permanent returns true: a retry of the request is refused as well.
func (e *InternalRunError) Permanent() bool { return true }

// Fix describes what to address instead.
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

// refuseInternal returns an *InternalRunError if the run is internal to the runtime.
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

// access caches whether a handle may command its run.
type access int8

const (
	unknown access = iota // the run must be read before the first command
	allowed               // the run is not internal
	inside                // the handle belongs to code of the runtime, which may command its own runs
)

// commandable returns the ID of the run that a command is for, and an *InternalRunError if the run
// is internal to the runtime. If the run does not exist or its log cannot be read, the command
// itself reports that.
//
// The workflow of a run never changes, so a handle by run ID checks once. A workflow ID that is not
// reserved never belongs to an internal run.
func (h *Handle) commandable(ctx context.Context, verb string) (RunID, error) {
	run, err := h.resolve(ctx)
	if err != nil || h.access.Load() != int32(unknown) || h.workflowID != "" && !event.ReservedID(h.workflowID) {
		return run, err
	}
	l, err := h.c.load(ctx, store.Load{Run: run, Limit: -1})
	switch _, damaged := errors.AsType[*store.DamagedError](err); {
	case damaged || errors.Is(err, ErrRunNotFound): // the command has more details and reports the error
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

// refuseInternals checks several runs for a command, and returns one error or nil for each.
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

// of sets the access of a handle whose run belongs to workflow d. known reports that the run was
// started as d; otherwise the caller only claims so.
func (h *Handle) of(d *definition, known bool) *Handle {
	switch {
	case event.Internal(d.name):
		h.access.Store(int32(inside))
	case known:
		h.access.Store(int32(allowed))
	}
	return h
}

// checkTopic returns an *InvalidError for a topic that only the runtime may send to.
func (h *Handle) checkTopic(name string) error {
	if event.Reserved(name) && h.access.Load() != int32(inside) {
		return reservedTopic(name)
	}
	return nil
}

func reservedTopic(name string) error {
	return &InvalidError{What: "topic", Value: name, Reason: "is the runtime's own: only the runtime sends to it"}
}
