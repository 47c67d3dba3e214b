package worker

import (
	"context"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
)

// Follow waits for the end of a run that this worker works on. What it tells is
// durable: the commit that ends the run was answered.
func (h host) Follow(ctx context.Context, run event.RunID) (*handover.End, bool) {
	w := h.Worker
	told := make(chan *handover.End, 1)
	w.mu.Lock()
	t := w.tasks[run]
	if t == nil {
		w.mu.Unlock()
		return nil, false
	}
	t.mu.Lock()
	t.followers = append(t.followers, told)
	t.mu.Unlock()
	w.mu.Unlock()
	select {
	case end := <-told:
		return end, end != nil
	case <-ctx.Done():
	case <-w.io.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = slices.DeleteFunc(t.followers, func(c chan *handover.End) bool { return c == told })
	return nil, false
}

// tellFollowers tells those who wait how the run has ended, or that it is no longer
// here. The task was taken from those that are owned before: nobody comes after that.
func (t *task) tellFollowers() {
	t.mu.Lock()
	all := t.followers
	t.followers = nil
	t.mu.Unlock()
	end := t.ended
	t.ended = nil
	for _, told := range all {
		told <- end
	}
}
