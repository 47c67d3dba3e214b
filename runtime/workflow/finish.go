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
	"github.com/flowgen/flowgen/runtime/store"
)

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
