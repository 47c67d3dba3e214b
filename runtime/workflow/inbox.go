package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Inbox returns the items that were sent to the run and not yet taken, in the order in which the
// run will take them: messages, cancel requests, results of children. The run takes them with its
// next commit, so items that remain wait for a worker that serves the run, for the end of a pause,
// or for compatible code. The events have no numbers and times yet. The inbox of a run that has
// ended is empty. The error matches ErrRunNotFound if the run does not exist, and is an
// *[EventError] if an item cannot be read.
func (h *Handle) Inbox(ctx context.Context) ([]event.Event, error) {
	run, err := h.resolve(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	l, err := h.c.load(ctx, store.Load{Run: run, Limit: -1, Inbox: true})
	if err != nil {
		return nil, fmt.Errorf("read the inbox of run %s: %w", run, err)
	}
	all := make([]event.Event, 0, len(l.Inbox))
	for i := range l.Inbox {
		e, err := event.DecodeItem(l.Inbox[i].Body)
		if err != nil {
			return nil, fmt.Errorf("read the inbox: %w", &EventError{Run: run, Frame: l.Record.N + 1, Err: err})
		}
		e.Item = l.Inbox[i].ID
		all = append(all, *e)
	}
	return all, nil
}
