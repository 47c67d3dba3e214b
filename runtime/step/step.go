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

// Call describes the attempt that code belongs to.
type Call struct {
	RunID      workflow.RunID
	WorkflowID string // empty: none
	Step       string // stored name
	Key        string // within the run
	Attempt    int    // counts from 1
	Tags       map[string]string
}

// Current returns the attempt that ctx belongs to; false outside of a step.
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

// Attempt returns the number of this attempt, counted from 1. It counts
// all that were started, also those that do not count against the retry policy because
// their worker stopped.
func Attempt(ctx context.Context) int { return current(ctx, "Attempt").Number }

// IdempotencyKey returns a key that is the same for all attempts of this step,
// over crashes and replays, and differs from that of every other step of every
// other run: 32 hexadecimal characters. Pass it to services that take one.
func IdempotencyKey(ctx context.Context) string {
	a := current(ctx, "IdempotencyKey")
	h := sha256.New()
	h.Write([]byte(a.Run))
	h.Write([]byte{0})
	h.Write([]byte(a.Key))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Heartbeat stores details, which the next attempt can read with [LastHeartbeat]
// if this one fails or its worker dies. It is for progress; the claim of a long
// step is kept without it. details are encoded as JSON. The error is that of ctx
// if the attempt should stop, or says why the details were not stored.
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

// LastHeartbeat returns the details of the last heartbeat of an earlier attempt;
// false if there is none, or if it is not a T.
func LastHeartbeat[T any](ctx context.Context) (T, bool) {
	var v T
	a := current(ctx, "LastHeartbeat")
	if a.Last == nil || json.Unmarshal(a.Last, &v) != nil {
		var zero T
		return zero, false
	}
	return v, true
}

// Fatal marks err as not worth another attempt: the step fails with it, with the
// code "fatal". It may be wrapped. A nil err stays nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &attempt.FatalError{Err: err}
}

// RetryAfter asks for the next attempt after d instead of the policy's delay; a
// negative d means at once. A service that is busy is no failure of the step: the first 100
// attempts of a step that return a RetryAfter ([workflow.RetryPolicy] has Waits for another number) do not
// count against the policy's number of attempts, further ones do. The policy's total time holds
// for all. An attempt that has returned it after its timeout has timed out. A nil err stays nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &attempt.RetryAfterError{Err: err, Delay: max(d, 0)}
}

// HoldBack is [RetryAfter], and for d closes the rates that the step uses: until then no
// worker begins anything by them, and then one after the other, without a burst. It is for a service that says
// to all of the fleet that it wants to be left alone: a 429. d is a day at most for the
// rates. If the step uses no limit of its own, the rates are those that its workflow uses. A limit that has no rate stays open, and
// so do all if the attempt has lost its run. The rates are closed with the commit that
// records the attempt, even if it was the last one. A nil err stays nil.
func HoldBack(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &attempt.RetryAfterError{Err: err, Delay: max(d, 0), Hold: true}
}
