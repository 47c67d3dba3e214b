package worker

import (
	"context"
	"errors"
	"slices"

	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// OpenHook opens the hook of the attempt and returns the token. It is called by the attempt's code.
func (a *attempt) OpenHook(ctx context.Context, h at.Hook) (string, error) {
	o, err := a.openingOf(h)
	if err != nil {
		return "", err
	}
	select {
	case <-o.Done:
		return o.Token, o.Err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-a.ending().Done(): // ctx may be a context that is not derived from the attempt's
		return "", a.endCause()
	}
}

// openingOf returns the hook of the attempt. At the first call it requests the hook from the run
// loop.
func (a *attempt) openingOf(h at.Hook) (*runloop.Opening, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return nil, errAttemptEnded
	case a.hook == nil:
		a.hook = &runloop.Opening{Ref: a.info.Ref, Attempt: a.id, Hook: h, Done: make(chan struct{})}
		a.by.opens(a.hook)
	case a.hook.Hook.Name != h.Name:
		return nil, &workflow.InvalidError{What: "hook", Value: h.Name, Reason: "is opened by an attempt that has opened hook " + a.hook.Hook.Name + ": an attempt is finished by one hook"}
	}
	return a.hook, nil
}

// leaves reports whether err, which the code has returned, leaves the outcome to the holder of the
// token.
func (a *attempt) leaves(err error) bool {
	p, ok := errors.AsType[*at.PendingError](err)
	a.mu.Lock()
	o := a.hook
	a.mu.Unlock()
	if !ok || o == nil {
		return false
	}
	select {
	case <-o.Done:
		return p.Token != "" && p.Token == o.Token
	default:
		return false // the code does not have the token yet
	}
}

// closedStreams returns the streams that the code of a running attempt has closed.
func (a *attempt) closedStreams() []string {
	a.mu.Lock()
	p := a.stream
	a.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.closed)
}
