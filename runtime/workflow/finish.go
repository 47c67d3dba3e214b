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

// A hook that an attempt of a step has opened takes one outcome. All that is sent to it goes into
// the inbox under one id, of which the store accepts the first, however many senders there are and
// whatever is lost on the way. Each of them then looks which it was: what was sent says so
// itself, in the inbox and later in the log.

// Fail lets the attempt of the step fail that has opened the hook with this token, see
// step.Later. What follows is decided as if the code of the step had returned err: it is tried
// again by its policy, with another token, unless err is a step.Fatal; a step.RetryAfter or
// step.HoldBack says when. The type of err survives as it does for errors of steps. When it returns nil, err is
// durable, and what [Hook.Send] says of payloads holds for it.
//
// Errors: those of Send; an *[InvalidError] for a nil err, or for a hook that no step has
// opened: what an error is to code that receives payloads, that must say in its payload type.
func (h Hook[T]) Fail(ctx context.Context, c *Client, token string, err error, opts ...SendOption) error {
	h.declared()
	if err := c.failHook(ctx, h.name, token, err, opts); err != nil {
		return fmt.Errorf("fail hook %s: %w", h.name, err)
	}
	return nil
}

// FailHook is [Hook.Fail] for generic endpoints, which know only the token.
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

// finishStep lets e be the outcome of the attempt that has opened a hook.
func (c *Client) finishStep(ctx context.Context, run RunID, h *openHook, e *event.Event, opts []SendOption) error {
	id := event.DerivedItemID(run, "finish:"+h.token)
	e.Key = outcomeKey(h.token, e, opts)
	if !h.closed {
		due := h.state.Step.Due
		err := c.persist(ctx, "deliver", func() error {
			err := c.deliverBy(ctx, run, store.Item{ID: id, Scope: store.ScopeRun}, e, due)
			if errors.Is(err, store.ErrStale) && !c.store.Clock().Now().Before(due) {
				return nil // too late: perhaps it was accepted before
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

// outcomeKey says what an outcome is, so that it is known again: a digest of it, and the
// idempotency key if there is one.
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

// sameOutcome reports whether two outcomes are the same, or have the same idempotency key.
func sameOutcome(a, b string) bool {
	digestA, keyA, _ := strings.Cut(a, " ")
	digestB, keyB, _ := strings.Cut(b, " ")
	return digestA == digestB || keyA != "" && keyA == keyB
}

// accepted returns what a run has accepted under the id of an item: as it lies in the inbox, or what the log
// says of it; nil: nothing. It reads the log from its end, where the answer mostly is.
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
	for until, n := l.Record.N, uint64(4); until > 0; n *= 2 { // what has left the inbox is in these
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
