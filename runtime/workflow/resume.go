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
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/shape"
	"github.com/flowgen/flowgen/runtime/store"
)

// secretSize is the length of the random part of a token.
const secretSize = 22

// checkToken returns an error if a user-defined token is not valid.
func checkToken(token string) error {
	switch {
	case token == "" || len(token) > flow.MaxName:
		return flow.BadToken(token, fmt.Sprintf("has %d bytes, want 1 to %d", len(token), flow.MaxName))
	case strings.HasPrefix(token, event.PrefixRun+"_"):
		return flow.BadToken(token, "begins like a run id, which is reserved for tokens that the runtime makes")
	}
	return nil
}

// runOf returns the run whose ID a token contains. made is false for a user-defined token, which
// contains no run ID.
func runOf(token string) (run RunID, made bool, err error) {
	if !strings.HasPrefix(token, event.PrefixRun+"_") {
		return "", false, checkToken(token)
	}
	id, secret, _ := strings.Cut(token, flow.TokenMark)
	run, err = event.ParseRunID(id)
	if err != nil || len(secret) != secretSize {
		return "", true, flow.BadToken(id, "begins like a token that the runtime has made, but is not one")
	}
	return run, true, nil
}

// Send delivers a payload to the run that has the hook with this token. When it returns nil, the
// payload is durable, and it is kept until the code of the run receives it. With an
// [IdempotencyKey], the payload arrives once, regardless of the number of sends and their senders,
// even if the run or its continuation opens a hook with the same user-defined token again.
//
// If the run closes the hook while a payload arrives, the payload is refused if the store already
// has the closing event. Otherwise it is accepted, although the code cannot receive it. In that
// case the run records a hook_missed event and lists the payload as unread in its last event, so
// that no payload is lost silently.
//
// If a payload does not match the type with which the run opened the hook, Send returns a
// *[PayloadError] and sends nothing. The types differ if the programs differ, or if the token
// belongs to a hook of the same name in another program. An error that only a method of the type
// can detect, such as UnmarshalJSON, is detected when the payload arrives at the run. The run then
// skips the payload, records it as hook_missed and logs it. The run does not fail.
//
// A hook opened by a step, see step.Later, accepts one outcome of the attempt: a payload, which
// completes the step, or a failure sent by [Hook.Fail]. Only the first accepted outcome counts.
// Send returns nil if it repeats that outcome or has the same IdempotencyKey. Any other outcome is
// refused with an error that matches both ErrHookAnswered and ErrHookDisposed. The hook is closed
// when the attempt ends, because it timed out, the step was canceled, or the code returned an
// outcome. A payload that is accepted at that moment may be too late, and is then recorded as for
// other hooks.
//
// Errors: an error that matches ErrHookNotFound if no hook with this name has or had the token, if
// its run was deleted, or if the token is not valid (in that case it is also an *[InvalidError]);
// an error that matches ErrHookDisposed if the hook is closed or its run has ended; or a
// *[PayloadError]. During an outage of the store, Send waits until ctx ends. After any other error,
// such as the error of ctx, it is unknown whether the payload has arrived. In that case, send it
// again with the same key.
func (h Hook[T]) Send(ctx context.Context, c *Client, token string, v T, opts ...SendOption) error {
	flow.Hook(h).Declared()
	in := c.inner()
	payload, err := in.limits.Encode(h.what(), v, false)
	if err == nil {
		err = in.sendToHook(ctx, h.Name(), token, &event.Event{Type: event.HookReceived, Payload: payload}, opts)
	}
	if err != nil {
		return fmt.Errorf("send to hook %s: %w", h.Name(), err)
	}
	return nil
}

// SendToHook is like [Hook.Send], for generic endpoints that have only the token. The payload is
// JSON. If it does not match the type of the hook, the error is a *[PayloadError].
func (c *Client) SendToHook(ctx context.Context, token string, payload json.RawMessage, opts ...SendOption) error {
	const what = "payload of a hook"
	in := c.inner()
	err := in.limits.Check(what, len(payload), false)
	if err == nil {
		if bad := flow.ValidJSON(payload); bad != nil {
			err = &PayloadError{What: what, Err: bad}
		}
	}
	if err == nil {
		err = in.sendToHook(ctx, "", token, &event.Event{Type: event.HookReceived, Payload: payload}, opts)
	}
	if err != nil {
		return fmt.Errorf("send to a hook: %w", err)
	}
	return nil
}

// openHook is the state of a hook that a sender has read.
type openHook struct {
	run    RunID
	token  string
	state  effects.HookState
	meta   []byte // stored form of the description, if it was requested
	closed bool
	ended  bool // the run has ended
}

// openHook reads the state of the hook with a token. If chunks is 2, it also reads the description
// of the hook.
func (c *client) openHook(ctx context.Context, token string, chunks int) (*openHook, error) {
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

// sendToHook delivers a payload or a failure to the hook with a token, through the interceptors. It
// returns an error if the hook has another name. An empty name matches any hook.
func (c *client) sendToHook(ctx context.Context, name, token string, e *event.Event, opts []SendOption) error {
	call := &ClientCall{Operation: OperationHook, Name: name}
	if !c.intercepts() {
		return c.sendToken(ctx, call, token, e, opts)
	}
	return c.intercept(ctx, call, func(ctx context.Context) error { return c.sendToken(ctx, call, token, e, opts) })
}

func (c *client) sendToken(ctx context.Context, call *ClientCall, token string, e *event.Event, opts []SendOption) error {
	var err error
	if e.Attributes, err = flow.Attributes(ctx); err != nil {
		return err
	}
	h, err := c.openHook(ctx, token, 1)
	if err != nil {
		return err
	}
	was := h.state.Name
	if call.Name != "" && was != call.Name {
		return fmt.Errorf("the token is one of hook %s: %w", was, ErrHookNotFound)
	}
	call.Name, call.Run = was, h.run
	id, keyed := itemOf("hook "+token, opts)
	return c.deliverToHook(ctx, h, id, keyed, e, opts)
}

// deliverToHook delivers a payload or a failure to a hook.
func (c *client) deliverToHook(ctx context.Context, h *openHook, id event.ItemID, keyed bool, e *event.Event, opts []SendOption) error {
	run := h.run
	e.Token = h.token
	switch {
	case e.Failure != nil && h.state.Step == nil:
		return &InvalidError{What: "hook", Value: h.state.Name, Reason: "was opened by the code of a workflow, and takes payloads only: only a hook that a step has opened can fail"}
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
	case !h.ended: // an accepted item must have the same result as the first time; if the run has ended, Deliver recognizes the item
		first, err := c.accepted(ctx, run, id)
		if first == nil && err == nil {
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
func (c *client) holder(ctx context.Context, token string) (RunID, error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	run, made, err := runOf(token)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrHookNotFound, err)
	}
	if made {
		return run, nil
	}
	id, err := c.handleByID(event.HookRunID(token)).find(ctx)
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

// A hook that an attempt of a step has opened accepts one outcome. All outcomes that are sent to it
// have the same item ID, so the store accepts only the first one, regardless of the number of
// senders and of lost responses. Each sender then reads the accepted item, from the inbox or from
// the log, to determine whether its own outcome was accepted.

// Fail fails the attempt that has opened the hook with this token, see step.Later. The consequences
// are the same as if the code of the step had returned err. The step is retried according to its
// policy, with another token, unless err is a step.Fatal. A step.RetryAfter or step.HoldBack sets
// the time of the next attempt. The type of err is preserved, as for errors that steps return. When
// Fail returns nil, err is durable. The guarantees of [Hook.Send] for payloads apply to err.
//
// Errors: those of Send; or an *[InvalidError] if err is nil, or if workflow code has opened the
// hook. To send an error to workflow code, use a payload type that contains it.
func (h Hook[T]) Fail(ctx context.Context, c *Client, token string, err error, opts ...SendOption) error {
	flow.Hook(h).Declared()
	if err := c.inner().failHook(ctx, h.Name(), token, err, opts); err != nil {
		return fmt.Errorf("fail hook %s: %w", h.Name(), err)
	}
	return nil
}

// FailHook is like [Hook.Fail], for generic endpoints that have only the token.
func (c *Client) FailHook(ctx context.Context, token string, err error, opts ...SendOption) error {
	if err := c.inner().failHook(ctx, "", token, err, opts); err != nil {
		return fmt.Errorf("fail a hook: %w", err)
	}
	return nil
}

func (c *client) failHook(ctx context.Context, name, token string, why error, opts []SendOption) error {
	if why == nil {
		return &InvalidError{What: "error", Value: "<nil>", Reason: "must not be empty"}
	}
	e := &event.Event{Type: event.HookReceived, Failure: failure.Encode(why, event.CodeError)}
	hint := effects.RetryHint{Fatal: errors.As(why, new(*attempt.FatalError))}
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
func (c *client) finishStep(ctx context.Context, run RunID, h *openHook, e *event.Event, opts []SendOption) error {
	id := event.DerivedItemID(run, "finish:"+h.token)
	e.Key = outcomeKey(h.token, e, opts)
	var err error
	if !h.closed {
		due := h.state.Step.Due
		err = c.Persist(ctx, "deliver", func() error {
			err := c.deliver(ctx, run, store.Item{ID: id, Scope: store.ScopeRun}, e, due)
			if errors.Is(err, store.ErrStale) && !c.store.Clock().Now().Before(due) {
				return nil // too late, unless the store has accepted the outcome of an earlier request
			}
			return err
		})
	}
	var first *event.Event
	if err == nil || errors.Is(err, ErrRunTerminal) {
		first, err = c.accepted(ctx, run, id)
	}
	switch {
	case errors.Is(err, ErrRunNotFound):
		return fmt.Errorf("run %s does not exist: %w", run, ErrHookNotFound)
	case err != nil:
		return err
	case first == nil || first.Type == event.HookMissed:
		return fmt.Errorf("attempt %d of a step of run %s is over: %w", h.state.Step.Attempt, run, ErrHookDisposed)
	case sameOutcome(first.Key, e.Key):
		return nil
	}
	return fmt.Errorf("attempt %d of a step of run %s: %w: %w", h.state.Step.Attempt, run, ErrHookAnswered, ErrHookDisposed)
}

// outcomeKey returns a text that identifies an outcome. It contains a digest of the content, and
// the item ID of the idempotency key if there is one.
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

// accepted returns the item with this ID that a run has accepted, or nil if there is none. It reads
// the inbox, and then the log backwards, because the item is usually near the end of the log.
func (c *client) accepted(ctx context.Context, run RunID, id event.ItemID) (*event.Event, error) {
	l, err := c.loadAgain(ctx, store.Load{Run: run, Limit: -1, Inbox: true})
	if err != nil {
		return nil, err
	}
	for i := range l.Inbox {
		if l.Inbox[i].ID == id {
			return event.DecodeItem(l.Inbox[i].Body)
		}
	}
	for until, n := l.Record.N, uint64(4); until > 0; n *= 2 { // items that have left the inbox are in the log
		after := until - min(until, n, 256)
		page, err := c.loadAgain(ctx, store.Load{Run: run, After: after, Limit: int(until - after)})
		if err != nil {
			return nil, err
		}
		if err := (&logReader{run: run, read: after + uint64(len(page.Frames))}).complete(until); err != nil {
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
