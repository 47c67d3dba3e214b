package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// policyRequest contains the parameters of an automatic rerun. The zero value stands for a rerun
// requested by a caller.
type policyRequest struct {
	reruns   int       // number of consecutive automatic reruns, including the new run
	due      time.Time // when its code continues
	deadline time.Time // when it must be created at the latest
}

// rerunPolicy is recorded as the actor of automatic reruns.
const rerunPolicy = "rerun policy"

// rerunByPolicy makes the rerun announced by the last event of a run, as Retry does, unless the run
// was deleted or already has a rerun. It may be called repeatedly. why is the reason if no rerun
// can be made.
func (c *Client) rerunByPolicy(ctx context.Context, run RunID, deadline time.Time) (why string, err error) {
	const verb = "rerun"
	h := c.Run(run)
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

// delays reports whether a run with this first frame is a rerun that waits for its time. If an item
// has arrived, the record has no due time until a worker has recorded the item; then the log is read.
func (c *Client) delays(ctx context.Context, first *event.Frame, r *store.Record) (bool, error) {
	last := &first.Events[len(first.Events)-1]
	switch {
	case last.Type != event.RunDelayed || r.Status != StatusSleeping:
		return false, nil
	case r.QueueState == store.StateParked:
		return last.Due.Equal(r.Due), nil
	}
	l, err := c.load(ctx, store.Load{Run: r.Run})
	if err != nil {
		return false, err
	}
	return !readable(l.Frames).Delayed.IsZero(), nil
}
