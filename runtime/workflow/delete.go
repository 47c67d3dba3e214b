package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// Delete deletes a run that has ended, before its retention is over. From then on no query returns
// the run, and its workflow ID is free as if the run had not existed; workers remove the stored
// data within minutes. Deleting the run again does nothing. Delete also ends and deletes a run that
// was canceled and has not begun if no worker serves it. Children and other runs with the same
// workflow ID are not affected.
//
// Errors: a *[StatusError] if the run has not ended, which matches ErrRunUnserved if the run waits
// for a worker and none serves it; ErrRunNotFound; [ErrNotSupported] if the store cannot delete
// runs.
func (h *Handle) Delete(ctx context.Context) error {
	id, err := h.resolve(ctx)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	p, err := h.c.purger()
	if err != nil {
		return fmt.Errorf("delete run %s: %w", id, err)
	}
	err = p.Delete(ctx, id) // the error names the operation and the run
	open, ok := errors.AsType[*store.NotEndedError](err)
	if !ok {
		return err
	}
	if ended, failed := h.c.endUnserved(ctx, id); failed == nil && len(ended) > 0 {
		return p.Delete(ctx, id)
	}
	return h.c.explainUnserved(ctx, id, &StatusError{Run: open.Run, Verb: "delete", Status: open.Status, Fix: notEnded})
}

const notEnded = "it has not ended: cancel it and wait for its end, for which some worker has to run; once it has begun, one that serves its workflow and queue"

// Delete deletes all runs that match the filter and have ended, and returns their number. Runs that
// have not ended are skipped. It deletes each run as [Handle.Delete] does. The zero Filter deletes
// every run that has ended. Runs selected by [Filter].Internal are always included. If it returns
// an error, the number counts the runs deleted before it; a repeated call deletes the rest.
func (c *Client) Delete(ctx context.Context, f Filter) (int, error) {
	p, err := c.purger()
	if err != nil {
		return 0, fmt.Errorf("delete runs: %w", err)
	}
	if f.Statuses = ends(f.Statuses); len(f.Statuses) == 0 {
		return 0, nil // no run that has ended can match
	}
	f.Internal = true // internal runs hold data of the runs that are deleted
	deleted := 0
	for run, err := range c.List(ctx, f) {
		if err == nil {
			err = p.Delete(ctx, run.ID)
		}
		switch {
		case err == nil:
			deleted++
		case errors.Is(err, ErrRunNotFound): // another caller deleted it first
		case errors.As(err, new(*store.NotEndedError)):
		default:
			return deleted, fmt.Errorf("delete runs: %w", err)
		}
	}
	return deleted, nil
}

// ends returns the terminal statuses among the given ones. For none it returns all terminal
// statuses.
func ends(statuses []Status) []Status {
	if len(statuses) == 0 {
		return []Status{StatusCompleted, StatusFailed, StatusCanceled, StatusContinued}
	}
	var terminal []Status
	for _, s := range statuses {
		if s.Terminal() {
			terminal = append(terminal, s)
		}
	}
	return terminal
}

func (c *Client) purger() (store.Purger, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p, ok := store.As[store.Purger](c.store)
	if !ok {
		return nil, ErrNotSupported
	}
	return p, nil
}
