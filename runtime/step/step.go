// Package step is the API for step code: the number of the attempt, its idempotency key,
// heartbeats, errors that change the retry policy, and the results of steps of a state machine
// ([Next]).
//
// A step is a plain Go function with a context.Context; its dependencies are in its receiver. The
// functions of this package that take a context panic, with the fix, if they are called outside of
// a step; only [Current] may be called anywhere.
package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Call describes the current attempt.
type Call struct {
	RunID      workflow.RunID
	WorkflowID string // empty: none
	Step       string // stored name
	Key        string // within the run
	Attempt    int    // counts from 1
	Tags       map[string]string
}

// Current returns the attempt to which ctx belongs. It returns false outside of a step.
func Current(ctx context.Context) (Call, bool) {
	a := attempt.From(ctx)
	if a == nil {
		return Call{}, false
	}
	return Call{RunID: a.Run, WorkflowID: a.WorkflowID, Step: a.Step, Key: a.Key, Attempt: a.Number, Tags: maps.Clone(a.Tags)}, true
}

func current(ctx context.Context, what string) *attempt.Attempt {
	a := attempt.From(ctx)
	if a == nil {
		panic("step: " + what + " was called outside of a step: pass the context that the step function got, " +
			"or ask step.Current first")
	}
	return a
}

// Attempt returns the number of this attempt, counted from 1. It counts all started attempts,
// including those that do not count towards the retry policy because their worker stopped.
func Attempt(ctx context.Context) int { return current(ctx, "Attempt").Number }

// IdempotencyKey returns a key that is the same for all attempts of this step, including after
// crashes and replays, and that differs from the keys of all other steps of all runs. It has 32
// hexadecimal characters. Pass it to services that accept such a key.
func IdempotencyKey(ctx context.Context) string {
	a := current(ctx, "IdempotencyKey")
	h := sha256.New()
	h.Write([]byte(a.Run))
	h.Write([]byte{0})
	h.Write([]byte(a.Key))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Heartbeat stores details, which the next attempt can read with [LastHeartbeat] if this one fails
// or its worker dies. It is meant for progress; a long step keeps its claim without it. details are
// encoded as JSON. The error is the cause of ctx if the attempt should stop, or the reason why the
// details were not stored.
func Heartbeat(ctx context.Context, details any) error {
	a := current(ctx, "Heartbeat")
	if err := context.Cause(ctx); err != nil {
		return err
	}
	data, err := engine.EncodePayload("heartbeat of step ", a.Step, details)
	if err != nil {
		return err
	}
	if err := a.Heart.Beat(ctx, data); err != nil {
		return fmt.Errorf("heartbeat of step %s: %w", a.Step, err)
	}
	return nil
}

// LastHeartbeat returns the details of the last heartbeat of an earlier attempt. It returns false
// if there is none, or if it is not a T.
func LastHeartbeat[T any](ctx context.Context) (T, bool) {
	var v T
	a := current(ctx, "LastHeartbeat")
	if a.Last == nil || json.Unmarshal(a.Last, &v) != nil {
		var zero T
		return zero, false
	}
	return v, true
}

// Fatal marks err as permanent: the step fails with it without further attempts, with code "fatal".
// It may be wrapped. For nil it returns nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &attempt.FatalError{Err: err}
}

// RetryAfter sets the time until the next attempt to d instead of the policy's delay; a negative d
// means at once. Because a busy service is not a failure of the step, the first 100 attempts that
// return a RetryAfter (or another number, set by Waits of [workflow.RetryPolicy]) do not count
// towards the policy's number of attempts; further ones do. The policy's total time applies in all
// cases. If an attempt returns it after its timeout, the attempt has timed out. For a nil err it
// returns nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &attempt.RetryAfterError{Err: err, Delay: max(d, 0)}
}

// HoldBack is like [RetryAfter], and also closes the rates that the step uses for d: until then
// nothing that uses them begins on any worker, and afterwards the rates apply without a burst. It
// is meant for a service that asks the whole fleet to pause, for example with status 429. The rates
// are closed for at most a day. If the step uses no limit itself, the rates are those of its
// workflow. Limits without a rate stay open, and all stay open if the attempt has lost its run. The
// rates are closed by the commit that records the attempt, even if it was the last one. For a nil
// err it returns nil.
func HoldBack(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &attempt.RetryAfterError{Err: err, Delay: max(d, 0), Hold: true}
}
