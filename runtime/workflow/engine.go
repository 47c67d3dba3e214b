package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/pins"
	"github.com/flowgen/flowgen/runtime/store"
)

var _ flow.Engine = (*client)(nil)

// The exported methods of client implement flow.Engine, which documents them.

func (c *client) Store() store.Store                       { return c.store }
func (c *client) Logger() *slog.Logger                     { return c.logger }
func (c *client) Limits() *flow.Limits                     { return &c.limits }
func (c *client) ScheduleCode() flow.Code                  { return scheduleCode }
func (c *client) AddHost(h localstart.Host) (leave func()) { return c.hosts.add(h) }
func (c *client) SetBuild(build string)                    { c.build.Store(&build) }
func (c *client) Pins() *pins.Picker                       { return c.pins }

func (c *client) CheckPayload(kind, name string, size int) error {
	l := &c.limits
	if size <= l.Warn && size <= l.Max {
		return nil // return early to avoid building the name
	}
	return l.Check(kind+name, size, false)
}

// InternalRunError reports that a run is internal to the runtime. Such a run executes a step, holds
// a token or permits for another run, implements a schedule or a bulk action, or delivers an alert. It accepts no
// commands, messages, questions or reruns.
type InternalRunError struct {
	Verb     string // requested operation
	Run      RunID
	Workflow string // stored name of the workflow
	// Of is the run to use instead. It is empty for a schedule or a bulk action.
	Of RunID
	// Schedule is the name of the schedule to use instead. Bulk is the ID of the bulk action to use
	// instead.
	Schedule, Bulk string
}

// Error returns a text that contains the run, its workflow and what to use instead.
func (e *InternalRunError) Error() string {
	return fmt.Sprintf("%s run %s: it is the runtime's own, of workflow %s: %s", e.Verb, e.Run, e.Workflow, e.Fix())
}

// Permanent returns true, because a retry of the request would also be refused.
func (e *InternalRunError) Permanent() bool { return true }

// Fix describes what to use instead.
func (e *InternalRunError) Fix() string {
	switch {
	case e.Schedule != "":
		return fmt.Sprintf("address the schedule %q: see schedules", e.Schedule)
	case e.Bulk != "":
		return fmt.Sprintf("address the bulk action %s: see bulk", e.Bulk)
	case e.Workflow == event.AlertRun:
		return "its delivery ends when its target accepts the alert, or after a day: see alerts"
	case e.Of != "":
		return fmt.Sprintf("address run %s, to which it belongs", e.Of)
	}
	return "address the run that has started it"
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

// access records whether a handle may control its run.
type access int8

const (
	unknown access = iota // the run must be read before the first command
	allowed               // the run is not internal
	inside                // the handle belongs to code of the runtime, which may control its internal runs
)

// commandable returns the ID of the run to which a command applies. It returns an *InternalRunError
// if the run is internal to the runtime. If the run does not exist or its log cannot be read, it
// returns no error, because the command reports that.
//
// The workflow of a run never changes, so a handle by run ID is checked only once. A workflow ID
// that is not reserved never belongs to an internal run.
func (h *Handle) commandable(ctx context.Context, verb string) (RunID, error) {
	run, err := h.resolve(ctx)
	if err != nil || h.access.Load() != int32(unknown) || h.workflowID != "" && !event.ReservedID(h.workflowID) {
		return run, err
	}
	l, err := h.c.load(ctx, store.Load{Run: run, Limit: -1})
	switch _, damaged := errors.AsType[*store.DamagedError](err); {
	case damaged || errors.Is(err, ErrRunNotFound): // the command reports this error with more details
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

// refuseInternals checks several runs for a command. It returns one element for each run, which is
// nil if the command is allowed.
func (c *client) refuseInternals(ctx context.Context, verb string, runs []RunID) []error {
	errs := make([]error, len(runs))
	loaded, err := c.records(ctx, runs)
	for i := range runs {
		if errs[i] = err; err == nil && loaded[i].Err == nil {
			errs[i] = refuseInternal(verb, &loaded[i].Record)
		}
	}
	return errs
}

// of sets the access of a handle whose run belongs to workflow d. known reports that the run is
// known to belong to d. Otherwise it may belong to another workflow.
func (h *Handle) of(d definition, known bool) *Handle {
	switch {
	case event.Internal(d.Name):
		h.access.Store(int32(inside))
	case known:
		h.access.Store(int32(allowed))
	}
	return h
}

// checkTopic returns an *InvalidError if only the runtime may send to the topic.
func (h *Handle) checkTopic(name string) error {
	if event.Reserved(name) && h.access.Load() != int32(inside) {
		return reservedTopic(name)
	}
	return nil
}

func reservedTopic(name string) error {
	return &InvalidError{What: "topic", Value: name, Reason: "is the runtime's own: only the runtime sends to it"}
}

// policyRequest contains the parameters of an automatic rerun. It is zero for a rerun that a caller
// requests.
type policyRequest struct {
	reruns   int       // number of consecutive automatic reruns, including the new run
	due      time.Time // time at which its code continues
	deadline time.Time // time by which it must be created
}

// rerunPolicy is the actor that the logs of automatic reruns record.
const rerunPolicy = "rerun policy"

// Rerun makes the rerun that the last event of a run announces, as Retry does. It does
// nothing if the run was deleted or has a rerun, so it may be called repeatedly. If no rerun can be
// made, it returns the reason as why.
func (c *client) Rerun(ctx context.Context, run RunID, deadline time.Time) (why string, err error) {
	const verb = "rerun"
	h := c.handle(run)
	old, err := h.earlier(ctx, verb)
	switch {
	case errors.Is(err, ErrRunNotFound):
		return "", nil
	case err != nil:
		return "", err
	case old.record.Rerun != "", old.last.Type != event.RunFailed, old.last.Due.IsZero():
		return "", nil
	}
	old.asked.reason = old.last.Reason
	old.policy = policyRequest{reruns: old.last.Attempt, due: old.last.Due, deadline: deadline}
	_, err = h.retry(OnBehalfOf(ctx, rerunPolicy), verb, old)
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, new(*PayloadError)), errors.As(err, new(*store.TooLargeError)): // refused before the request was sent to the store
		return err.Error(), nil
	case store.Unknown(err), errors.Is(err, store.ErrStale), errors.Is(err, store.ErrLater), errors.Is(err, store.ErrClosed):
		return "", err
	}
	return err.Error(), nil
}

// delays reports whether a run is a rerun that waits for its time. first is its first frame. If the
// run is parked, the due time of the record shows that. Otherwise an item has arrived that no
// worker has recorded, and the log shows it.
func (c *client) delays(ctx context.Context, first *event.Frame, r *store.Record) (bool, error) {
	last := &first.Events[len(first.Events)-1]
	switch {
	case last.Type != event.RunDelayed || r.Status != StatusSleeping:
		return false, nil
	case r.QueueState == store.StateParked:
		return last.Due.Equal(r.Due), nil
	}
	l, err := c.load(ctx, store.Load{Run: r.Run})
	return err == nil && !readable(l.Frames).Delayed.IsZero(), err
}
