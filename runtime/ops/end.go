package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// CancelMany requests the cancellation of several runs, like [workflow.Handle.Cancel] but with fewer
// requests to the store: it finds and ends unserved runs together. The errors are those of Cancel,
// in the order of the runs; nil for each run whose request is durable.
func (c *Client) CancelMany(ctx context.Context, reason string, runs ...workflow.RunID) []error {
	return c.inner.CancelMany(ctx, reason, runs)
}

// Terminate ends a run without executing its code: nothing is cleaned up or undone. Use it for a
// run that cannot end otherwise, because it is blocked, its log is damaged or too large, or no
// worker serves it; for any other run use [workflow.Handle.Cancel]. The run ends as canceled, and
// the code of its error is "terminated". As at any other end, its children are asked to cancel and
// its parent is notified, as far as a damaged log contains them. An attempt of a step that is
// running is asked to stop; its external effects remain.
//
// When Terminate returns nil the run has ended. A worker that has claimed the run is notified and
// ends it. If it does not do so within about a second, because the code of the run blocks it or it
// has died, Terminate takes the run from the worker. If ctx ends first, the request is durable, and
// the next worker that claims the run executes it; calling Terminate again continues. A second call
// does nothing and returns nil. Workers of a release without Terminate treat the request as Cancel.
//
// Errors: one that matches workflow.ErrRunTerminal if the run has ended without a request to
// terminate it; workflow.ErrRunNotFound; a *[workflow.InvalidError] for a reason that is longer
// than workflow.MaxReason bytes or not UTF-8.
func (c *Client) Terminate(ctx context.Context, run workflow.RunID, reason string) error {
	return c.inner.Terminate(ctx, run, reason)
}

// Delete deletes a run that has ended, before its retention is over. From then on no query returns
// the run, and its workflow ID is free as if the run had not existed; workers remove the stored
// data within minutes. Deleting the run again does nothing. Delete also ends and deletes a run that
// was canceled and has not begun if no worker serves it. Children and other runs with the same
// workflow ID are not affected.
//
// Errors: a *[workflow.StatusError] if the run has not ended, which matches workflow.ErrRunUnserved
// if the run waits for a worker and none serves it; workflow.ErrRunNotFound;
// workflow.ErrNotSupported if the store cannot delete runs.
func (c *Client) Delete(ctx context.Context, run workflow.RunID) error {
	if err := checkID(run); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	p, err := capability[store.Purger](c, "delete run "+string(run))
	if err != nil {
		return err
	}
	err = p.Delete(ctx, run) // the error names the operation and the run
	open, ok := errors.AsType[*store.NotEndedError](err)
	if !ok {
		return err
	}
	if ended, failed := c.inner.EndUnserved(ctx, run); failed == nil && ended {
		return p.Delete(ctx, run)
	}
	return c.inner.ExplainUnserved(ctx, run, &workflow.StatusError{Run: open.Run, Verb: "delete", Status: open.Status, Fix: notEnded})
}

const notEnded = "it has not ended: cancel it and wait for its end, for which some worker has to run; once it has begun, one that serves its workflow and queue"

// DeleteMany deletes all runs that match the filter and have ended, and returns their number. Runs
// that have not ended are skipped. It deletes each run as [Client.Delete] does. The zero Filter
// deletes every run that has ended. Runs selected by Filter.Internal are always included. If it
// returns an error, the number counts the runs deleted before it; a repeated call deletes the rest.
func (c *Client) DeleteMany(ctx context.Context, f workflow.Filter) (int, error) {
	p, err := capability[store.Purger](c, "delete runs")
	if err != nil {
		return 0, err
	}
	if f.Statuses = ends(f.Statuses); len(f.Statuses) == 0 {
		return 0, nil // no run that has ended can match
	}
	f.Internal = true // internal runs hold data of the runs that are deleted
	deleted := 0
	for run, err := range c.client.List(ctx, f) {
		if err == nil {
			err = p.Delete(ctx, run.ID)
		}
		switch {
		case err == nil:
			deleted++
		case errors.Is(err, workflow.ErrRunNotFound): // another caller deleted it first
		case errors.As(err, new(*store.NotEndedError)):
		default:
			return deleted, fmt.Errorf("delete runs: %w", err)
		}
	}
	return deleted, nil
}

// ends returns the terminal statuses among the given ones. For none it returns all terminal
// statuses.
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
