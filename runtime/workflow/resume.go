package workflow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
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

// A hook opened by an attempt of a step accepts one outcome. All outcomes sent to it enter the
// inbox under one item ID, of which the store accepts only the first, regardless of the number of
// senders and of lost responses. Each sender then reads which outcome was accepted: the item itself
// identifies it, in the inbox and later in the log.

// Fail fails the attempt that has opened the hook with this token; see step.Later. The consequences
// are the same as if the code of the step had returned err: the step is retried by its policy, with
// another token, unless err is a step.Fatal; a step.RetryAfter or step.HoldBack sets the time. The
// type of err is preserved as for errors of steps. When Fail returns nil, err is durable. The
// guarantees of [Hook.Send] for payloads apply to it.
//
// Errors: those of Send; an *[InvalidError] for a nil err, or for a hook that was not opened by a
// step. A hook of workflow code expresses errors in its payload type.
func (h Hook[T]) Fail(ctx context.Context, c *Client, token string, err error, opts ...SendOption) error {
	h.declared()
	if err := c.failHook(ctx, h.name, token, err, opts); err != nil {
		return fmt.Errorf("fail hook %s: %w", h.name, err)
	}
	return nil
}

// FailHook is like [Hook.Fail], for generic endpoints that have only the token.
func (c *Client) FailHook(ctx context.Context, token string, err error, opts ...SendOption) error {
	if err := c.failHook(ctx, "", token, err, opts); err != nil {
		return fmt.Errorf("fail a hook: %w", err)
	}
	return nil
}

func (c *Client) failHook(ctx context.Context, name, token string, why error, opts []SendOption) error {
	if why == nil {
		return &InvalidError{What: "error", Value: "<nil>", Reason: "lets nothing fail"}
	}
	e := &event.Event{Type: event.HookReceived, Failure: failure.Encode(why, event.CodeError)}
	var hint effects.RetryHint
	var fatal *attempt.FatalError
	hint.Fatal = errors.As(why, &fatal)
	if later, ok := errors.AsType[*attempt.RetryAfterError](why); ok {
		hint.After, hint.Hold = &later.Delay, later.Hold
	}
	var err error
	if e.Payload, err = json.Marshal(hint); err != nil {
		return err
	}
	return c.sendToHook(ctx, name, token, e, opts)
}

// finishStep makes e the outcome of the attempt that has opened a hook.
func (c *Client) finishStep(ctx context.Context, run RunID, h *openHook, e *event.Event, opts []SendOption) error {
	id := event.DerivedItemID(run, "finish:"+h.token)
	e.Key = outcomeKey(h.token, e, opts)
	if !h.closed {
		due := h.state.Step.Due
		err := c.persist(ctx, "deliver", func() error {
			err := c.deliverBy(ctx, run, store.Item{ID: id, Scope: store.ScopeRun}, e, due)
			if errors.Is(err, store.ErrStale) && !c.store.Clock().Now().Before(due) {
				return nil // too late, unless it was accepted earlier
			}
			return err
		})
		switch {
		case errors.Is(err, ErrRunNotFound):
			return fmt.Errorf("run %s does not exist: %w", run, ErrHookNotFound)
		case err != nil && !errors.Is(err, ErrRunTerminal):
			return err
		}
	}
	first, err := c.accepted(ctx, run, id)
	switch {
	case errors.Is(err, ErrRunNotFound):
		return fmt.Errorf("run %s does not exist: %w", run, ErrHookNotFound)
	case err != nil:
		return fmt.Errorf("look which outcome was accepted: %w", err)
	case first == nil || first.Type == event.HookMissed:
		return fmt.Errorf("attempt %d of a step of run %s is over: %w", h.state.Step.Attempt, run, ErrHookDisposed)
	case sameOutcome(first.Key, e.Key):
		return nil
	}
	return fmt.Errorf("attempt %d of a step of run %s: %w: %w", h.state.Step.Attempt, run, ErrHookAnswered, ErrHookDisposed)
}

// outcomeKey identifies an outcome: a digest of its content, and the idempotency key if there is
// one.
func outcomeKey(token string, e *event.Event, opts []SendOption) string {
	sum := sha256.New()
	payload := bytes.Buffer{}
	if json.Compact(&payload, e.Payload) != nil {
		payload.Write(e.Payload)
	}
	_, _ = sum.Write(payload.Bytes())
	if f := e.Failure; f != nil {
		for _, part := range []string{"failure", f.Message, f.Type, string(f.Data)} {
			_, _ = fmt.Fprintf(sum, "\x00%d:%s", len(part), part)
		}
	}
	key := hex.EncodeToString(sum.Sum(nil)[:16])
	if id, keyed := itemOf("hook "+token, opts); keyed {
		key += " " + string(id)
	}
	return key
}

// sameOutcome reports whether two outcomes have the same content or the same idempotency key.
func sameOutcome(a, b string) bool {
	digestA, keyA, _ := strings.Cut(a, " ")
	digestB, keyB, _ := strings.Cut(b, " ")
	return digestA == digestB || keyA != "" && keyA == keyB
}

// accepted returns the item with this ID that a run has accepted, read from the inbox or the log,
// or nil if there is none. It reads the log backwards, because the item is usually near its end.
func (c *Client) accepted(ctx context.Context, run RunID, id event.ItemID) (*event.Event, error) {
	l, err := c.loadAgain(ctx, store.Load{Run: run, Limit: -1, Inbox: true})
	if err != nil {
		return nil, err
	}
	for i := range l.Inbox {
		if l.Inbox[i].ID == id {
			return event.DecodeItem(l.Inbox[i].Body)
		}
	}
	for until, n := l.Record.N, uint64(4); until > 0; n *= 2 { // the log contains the items that have left the inbox
		after := until - min(until, n, 256)
		page, err := c.loadAgain(ctx, store.Load{Run: run, After: after, Limit: int(until - after)})
		if err != nil {
			return nil, err
		}
		for i, b := range slices.Backward(page.Frames) {
			f, err := event.DecodeFrame(b)
			if err != nil {
				return nil, &EventError{Run: run, Frame: after + uint64(i) + 1, Err: err}
			}
			for _, e := range slices.Backward(f.Events) {
				if e.Item == id {
					return &e, nil
				}
				if slices.Contains(e.Unread, id) {
					return &event.Event{Type: event.HookMissed, Item: id}, nil
				}
			}
		}
		until = after
	}
	return nil, nil
}
