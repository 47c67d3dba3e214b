package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// policyRequest is what the policy of a workflow asks for. The zero value: a caller has asked.
type policyRequest struct {
	reruns   int       // by policies, one of the other, up to the new run
	due      time.Time // when its code goes on
	deadline time.Time // by which it must be made
}

// rerunPolicy is on whose behalf a policy has a run tried again.
const rerunPolicy = "rerun policy"

// rerunByPolicy makes the rerun that the last event of a run announces, as Retry does, unless the run was deleted or has one: a
// caller was faster. It may be called again. It returns why no rerun can be made.
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
	case errors.As(err, new(*PayloadError)), errors.As(err, new(*store.TooLargeError)): // refused before the store was asked
		return err.Error(), nil
	case store.Unknown(err), errors.Is(err, store.ErrStale), errors.Is(err, store.ErrLater), errors.Is(err, store.ErrClosed):
		return "", err
	}
	return err.Error(), nil
}

// delays reports whether a run with a first frame is a rerun that waits for its time.
func delays(first *event.Frame, r *store.Record) bool {
	last := &first.Events[len(first.Events)-1]
	return last.Type == event.RunDelayed && r.Status == StatusSleeping && last.Due.Equal(r.Due)
}
