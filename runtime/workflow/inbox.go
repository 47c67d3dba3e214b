package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Inbox returns what was sent to the run and that it has not taken yet, in the order in which it will: messages, requests to cancel,
// results of children. The run takes it with its next commit, so what stays there waits for something else: for a
// worker that serves the run, for the end of a pause, for code that fits. The events have no numbers and no times yet. A run that has ended has
// none. The error matches ErrRunNotFound if there is no such run, and is an *[EventError] if an item cannot be read.
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
