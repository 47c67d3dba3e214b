package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// Delete forgets a run that has ended, before its retention is over. From then
// on nobody finds it, and its workflow id is as if the run had not been; workers
// remove what is stored of it within some minutes. Deleting it again does
// nothing. A run that was canceled and has not begun is ended by it if no worker serves it. Children and other runs of the same workflow id are not touched.
//
// Errors: a *[StatusError] if the run has not ended, which matches ErrRunUnserved if it waits
// for a worker and none serves it; ErrRunNotFound; [ErrNotSupported]
// if the store keeps everything.
func (h *Handle) Delete(ctx context.Context) error {
	id, err := h.resolve(ctx)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	p, err := h.c.purger()
	if err != nil {
		return fmt.Errorf("delete run %s: %w", id, err)
	}
	err = p.Delete(ctx, id) // says what and which
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

// Delete forgets all runs that match and have ended, and returns how many; those
// that have not ended are left alone. It does to each what [Handle.Delete] does.
// The zero Filter deletes every run that has ended. Runs that [Filter].Internal is about
// are deleted like others, asked for or not. After an error the number is
// that of the runs that were deleted before it; calling Delete again goes on.
func (c *Client) Delete(ctx context.Context, f Filter) (int, error) {
	p, err := c.purger()
	if err != nil {
		return 0, fmt.Errorf("delete runs: %w", err)
	}
	if f.Statuses = ends(f.Statuses); len(f.Statuses) == 0 {
		return 0, nil // nothing that has ended can match
	}
	f.Internal = true // what they hold is of the runs that are deleted
	deleted := 0
	for run, err := range c.List(ctx, f) {
		if err == nil {
			err = p.Delete(ctx, run.ID)
		}
		switch {
		case err == nil:
			deleted++
		case errors.Is(err, ErrRunNotFound): // somebody else was faster
		case errors.As(err, new(*store.NotEndedError)):
		default:
			return deleted, fmt.Errorf("delete runs: %w", err)
		}
	}
	return deleted, nil
}

// ends returns those of the statuses with which a run can end; none asks for
// all of them.
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
