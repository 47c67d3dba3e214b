package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// CancelMany requests the cancellation of several runs, like [workflow.Handle.Cancel], but with
// fewer requests to the store. It finds all runs that no worker serves, and ends them together. The
// errors are those of Cancel, in the order of the runs. The error of a run is nil if its request is
// durable.
func (c *Client) CancelMany(ctx context.Context, reason string, runs ...workflow.RunID) []error {
	return c.inner.CancelMany(ctx, reason, runs)
}

// Terminate ends a run without executing its code, so the code cannot clean up or compensate. Use
// it for a run that cannot end otherwise, because it is blocked, its log is damaged or too large,
// or no worker serves it. For any other run use [workflow.Handle.Cancel].
//
// The run ends as canceled, and the code of its error is "terminated". As at any end of a run, its
// children are asked to cancel and its parent is notified, if the log can be read that far. A
// running attempt of a step is asked to stop. Its external effects remain.
//
// When Terminate returns nil, the run has ended. If a worker has claimed the run, the worker is
// notified and ends it. If the worker has not ended the run after about a second, because the code
// of the run blocks it or the worker has crashed, Terminate takes the run from the worker. If ctx
// ends before the run has ended, the request is durable, and the next worker that claims the run
// ends it. A further call of Terminate continues the request. A call for a terminated run does
// nothing and returns nil. Workers of a release without Terminate treat the request as Cancel.
//
// Errors: an error that matches workflow.ErrRunTerminal if the run has ended and was not
// terminated; workflow.ErrRunNotFound; or a *[workflow.InvalidError] if the reason is longer than
// store.MaxReason bytes or is not UTF-8.
func (c *Client) Terminate(ctx context.Context, run workflow.RunID, reason string) error {
	return c.inner.Terminate(ctx, run, reason)
}

// Delete deletes a run that has ended, before its retention has passed. From then on, no query
// returns the run, and its workflow ID is free as if the run had never existed. Workers remove the
// stored data within minutes. Deleting a deleted run does nothing. If no worker serves a run that
// was canceled and has not begun, Delete ends and deletes it. Delete does not affect children and
// other runs with the same workflow ID.
//
// Errors: a *[workflow.StatusError] if the run has not ended, which matches workflow.ErrRunUnserved
// if the run waits for a worker and none serves it; workflow.ErrRunNotFound; or
// workflow.ErrNotSupported if the store cannot delete runs.
func (c *Client) Delete(ctx context.Context, run workflow.RunID) error {
	if err := checkID(run); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	p, err := capability[store.Purger](c, "delete run "+string(run))
	if err != nil {
		return err
	}
	err = p.Delete(ctx, run) // err already contains the operation and the run
	open, ok := errors.AsType[*store.NotEndedError](err)
	if !ok {
		return err
	}
	if ended, failed := c.inner.EndUnserved(ctx, run); failed == nil && ended {
		return p.Delete(ctx, run)
	}
	return c.inner.ExplainUnserved(ctx, run, &workflow.StatusError{Run: open.Run, Verb: "delete", Status: open.Status, Fix: notEnded})
}

const notEnded = "it has not ended: cancel it and wait for its end, which needs a running worker, and after the run has begun a worker that serves its workflow and queue"

// DeleteMany deletes all runs that match the filter and have ended, and returns the number of
// deleted runs. It skips runs that have not ended. It deletes each run as [Client.Delete] does. The
// zero Filter selects all runs. Internal runs that match are included, whatever the value of
// Filter.Internal. If DeleteMany returns an error, it has deleted the returned number of runs. A
// repeated call deletes the rest.
func (c *Client) DeleteMany(ctx context.Context, f workflow.Filter) (int, error) {
	p, err := capability[store.Purger](c, "delete runs")
	if err != nil {
		return 0, err
	}
	if f.Statuses = ends(f.Statuses); len(f.Statuses) == 0 {
		return 0, nil // the filter selects only runs that have not ended
	}
	f.Internal = true // internal runs hold data of the deleted runs
	deleted := 0
	for run, err := range c.client.List(ctx, f) {
		if err == nil {
			err = p.Delete(ctx, run.ID)
		}
		switch {
		case err == nil:
			deleted++
		case errors.Is(err, workflow.ErrRunNotFound): // another caller has deleted the run
		case errors.As(err, new(*store.NotEndedError)):
		default:
			return deleted, fmt.Errorf("delete runs: %w", err)
		}
	}
	return deleted, nil
}

// ends returns the terminal statuses among the given ones. If none are given, it returns all
// terminal statuses.
func ends(statuses []workflow.Status) []workflow.Status {
	if len(statuses) == 0 {
		return []workflow.Status{workflow.StatusCompleted, workflow.StatusFailed, workflow.StatusCanceled, workflow.StatusContinued}
	}
	var terminal []workflow.Status
	for _, s := range statuses {
		if s.Terminal() {
			terminal = append(terminal, s)
		}
	}
	return terminal
}
