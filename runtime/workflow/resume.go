package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/shape"
	"github.com/flowgen/flowgen/runtime/store"
)

// tokenMark separates the run ID from the secret in a token.
const tokenMark = "."

// secretSize is the length of the secret in a token.
const secretSize = 22

// checkToken returns an error if a user-defined token is not valid.
func checkToken(token string) error {
	switch {
	case token == "" || len(token) > maxName:
		return badToken(token, fmt.Sprintf("has %d bytes, want 1 to %d", len(token), maxName))
	case strings.HasPrefix(token, event.PrefixRun+"_"):
		return badToken(token, "begins like a run id, as tokens do that the runtime makes")
	}
	return nil
}

// badToken returns an error that contains the token, truncated to the maximum length.
func badToken(token, why string) error {
	return &InvalidError{What: "token", Value: fmt.Sprintf("%.*s", maxName, token), Reason: why}
}

// runOf returns the run whose ID is part of a token made by the runtime.
func runOf(token string) (run RunID, made bool, err error) {
	if !strings.HasPrefix(token, event.PrefixRun+"_") {
		return "", false, checkToken(token)
	}
	id, secret, _ := strings.Cut(token, tokenMark)
	run, err = event.ParseRunID(id)
	if err != nil || len(secret) != secretSize {
		return "", true, badToken(id, "begins like a token that the runtime has made, and is none")
	}
	return run, true, nil
}

// Send delivers a payload to the run that has the hook with this token. When it returns nil the
// payload is durable, and is kept until the run takes it. With an [IdempotencyKey] it arrives once,
// regardless of how often and from where it is sent, even if the run or its continuation opens its
// user-defined token again.
//
// If the run closes the hook while a payload arrives, the payload is refused if the store already
// has the closing event. Otherwise it is accepted, and the run, which cannot take it any more,
// records a hook_missed event and lists it as unread in its last event: a payload is never lost
// silently.
//
// A payload that does not fit the type with which the run opened the hook is refused with a
// *[PayloadError], and nothing is sent. The types differ if the programs differ, or if the token
// belongs to a hook of the same name in another program. If only a method of the type can detect
// the error, such as an UnmarshalJSON, it is detected when the payload arrives at the run: the
// payload is skipped, recorded as hook_missed and logged, like one for a closed hook. It never
// fails the run.
//
// A hook opened by a step, see step.Later, accepts one payload: the result of the attempt, which
// completes the step. The first accepted payload, or failure sent by [Hook.Fail], counts.
// Repeating it, or sending anything with the same IdempotencyKey, returns nil; anything else
// returns an error that matches both ErrHookAnswered and ErrHookDisposed. The hook is closed when
// its attempt is over, because it timed out, the step was canceled, or its code ended it. A result
// that is accepted at that moment may be too late: then it is recorded as for other hooks.
//
// Errors: one that matches ErrHookNotFound if no hook of this name has or had that token, if its
// run was deleted, or if the token is not valid (in that case it is also an *[InvalidError]); one
// that matches ErrHookDisposed if the hook is closed or its run has ended; a *[PayloadError]. Send
// waits out an outage of the store; ctx bounds the wait. After any other error, such as the error
// of ctx, it is unknown whether the payload arrived: send it again with the same key.
func (h Hook[T]) Send(ctx context.Context, c *Client, token string, v T, opts ...SendOption) error {
	h.declared()
	payload, err := c.limits.encode(h.what(), v)
	if err != nil {
		return fmt.Errorf("send to hook %s: %w", h.name, err)
	}
	if err := c.sendToHook(ctx, h.name, token, &event.Event{Type: event.HookReceived, Payload: payload}, opts); err != nil {
		return fmt.Errorf("send to hook %s: %w", h.name, err)
	}
	return nil
}

// SendToHook is like [Hook.Send], for generic endpoints that have only the token. The payload is
// JSON; if it does not fit the type of the hook, the error is a *[PayloadError].
func (c *Client) SendToHook(ctx context.Context, token string, payload json.RawMessage, opts ...SendOption) error {
	const what = "payload of a hook"
	err := c.limits.check(what, len(payload), false)
	if err == nil {
		if bad := validJSON(payload); bad != nil {
			err = &PayloadError{What: what, Err: bad}
		}
	}
	if err == nil {
		err = c.sendToHook(ctx, "", token, &event.Event{Type: event.HookReceived, Payload: payload}, opts)
	}
	if err != nil {
		return fmt.Errorf("send to a hook: %w", err)
	}
	return nil
}

// openHook is the state of a hook as read by a sender.
type openHook struct {
	run    RunID
	token  string
	state  effects.HookState
	meta   []byte // set if it was requested
	closed bool
	ended  bool // the run has ended
}

// openHook finds the hook with a token. With two chunks it also reads the description of the hook.
func (c *Client) openHook(ctx context.Context, token string, chunks int) (*openHook, error) {
	run, err := c.holder(ctx, token)
	if err != nil {
		return nil, err
	}
	page, err := c.readHook(ctx, run, token, chunks)
	if err != nil {
		return nil, err
	}
	n := len(page.Chunks)
	h := &openHook{run: run, token: token, closed: page.Closed, ended: page.Ended}
	if n > 1 {
		h.meta = page.Chunks[0].Body
	}
	if h.state, err = effects.DecodeHook(page.Chunks[n-1].Body); err != nil {
		return nil, fmt.Errorf("run %s: %w", run, err)
	}
	return h, nil
}

// sendToHook delivers a payload or a failure. An empty name matches any hook.
func (c *Client) sendToHook(ctx context.Context, name, token string, e *event.Event, opts []SendOption) error {
	h, err := c.openHook(ctx, token, 1)
	if err != nil {
		return err
	}
	if was := h.state.Name; name != "" && was != name {
		return fmt.Errorf("the token is one of hook %s: %w", was, ErrHookNotFound)
	}
	id, keyed := itemOf("hook "+token, opts)
	return c.deliverToHook(ctx, h, id, keyed, e, opts)
}

// deliverToHook delivers a payload or a failure to a hook.
func (c *Client) deliverToHook(ctx context.Context, h *openHook, id event.ItemID, keyed bool, e *event.Event, opts []SendOption) error {
	run := h.run
	e.Token = h.token
	switch {
	case e.Failure != nil && h.state.Step == nil:
		return &InvalidError{What: "hook", Value: h.state.Name, Reason: "was opened by the code of a workflow, and takes payloads only: only what a step has opened can fail"}
	case e.Failure == nil:
		if err := shape.Check(h.state.Shape, e.Payload); err != nil {
			return &PayloadError{What: "payload of hook " + h.state.Name, Err: err}
		}
	}
	if h.state.Step != nil {
		return c.finishStep(ctx, run, h, e, opts)
	}
	switch {
	case !h.closed:
	case !keyed:
		return fmt.Errorf("the hook of run %s: %w", run, ErrHookDisposed)
	case !h.ended: // otherwise Deliver detects an item that was accepted before
		there, err := c.received(ctx, run, id)
		if !there && err == nil {
			err = fmt.Errorf("the hook of run %s: %w", run, ErrHookDisposed)
		}
		return err
	}
	err := c.deliverAgain(ctx, run, store.Item{ID: id, Scope: store.ScopeRun}, e)
	switch {
	case errors.Is(err, ErrRunTerminal):
		return fmt.Errorf("the hook of run %s: %w: %w", run, ErrHookDisposed, err)
	case errors.Is(err, ErrRunNotFound):
		return fmt.Errorf("run %s does not exist: %w", run, ErrHookNotFound)
	}
	return err
}

// holder returns the run whose hook has the token.
func (c *Client) holder(ctx context.Context, token string) (RunID, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	run, made, err := runOf(token)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrHookNotFound, err)
	}
	if made {
		return run, nil
	}
	id, err := c.RunByID(event.HookRunID(token)).find(ctx)
	if err == nil {
		var l store.Loaded
		if l, err = c.loadAgain(ctx, store.Load{Run: id, Limit: -1}); err == nil && l.Record.Route.Workflow == event.HookRun {
			return l.Record.Parent, nil
		}
	}
	if err == nil || errors.Is(err, ErrRunNotFound) {
		return "", fmt.Errorf("token %q: %w", token, ErrHookNotFound)
	}
	return "", fmt.Errorf("find the hook of token %q: %w", token, err)
}

// received reports whether a run has received an item that it cannot accept again. The original
// sender got a success response or no response.
func (c *Client) received(ctx context.Context, run RunID, id event.ItemID) (bool, error) {
	l, err := c.loadAgain(ctx, store.Load{Run: run, Inbox: true})
	if err != nil {
		return false, fmt.Errorf("read run %s: %w", run, err)
	}
	events, err := (&logReader{run: run}).all(&l)
	if err != nil {
		return false, err
	}
	for i := range events {
		if e := &events[i]; e.Item == id || slices.Contains(e.Unread, id) {
			return true, nil
		}
	}
	return slices.ContainsFunc(l.Inbox, func(i store.Item) bool { return i.ID == id }), nil
}
