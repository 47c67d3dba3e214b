// Package step is the API for the code of steps: the number of the attempt, its idempotency key,
// heartbeats, errors that change the retry policy, and transitions of state machines ([Next]).
//
// A step is a plain Go function with a context.Context. Its dependencies are in its receiver. The
// functions of this package that take a context panic if they are called outside of a step. The
// panic contains the fix. Only [Current] may be called anywhere.
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
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Call describes the current attempt of a step.
type Call struct {
	RunID      workflow.RunID
	WorkflowID string // workflow ID of the run; empty: none
	Workflow   string // stored name of the workflow; empty if an earlier version of the runtime has requested a step on another queue
	Step       string // stored name of the step
	Key        string // key of the step within the run
	Attempt    int    // number of the attempt, from 1
	Tags       map[string]string
}

// Current returns the attempt to which ctx belongs. It returns false outside of a step.
func Current(ctx context.Context) (Call, bool) {
	a := attempt.From(ctx)
	if a == nil {
		return Call{}, false
	}
	return Call{RunID: a.Run, WorkflowID: a.WorkflowID, Workflow: a.Workflow, Step: a.Step, Key: a.Key, Attempt: a.Number, Tags: maps.Clone(a.Tags)}, true
}

// Attributes returns the attributes of the run that has called the step, see
// [workflow.WithAttribute]. The caller may change the map. It is nil if there are none.
func Attributes(ctx context.Context) map[string]string {
	a := current(ctx, "Attributes")
	if a.Spec == nil {
		return nil
	}
	return a.Spec.Origin()
}

func current(ctx context.Context, what string) *attempt.Attempt {
	a := attempt.From(ctx)
	if a == nil {
		panic("step: " + what + " was called outside of a step: pass the context that the step function got, " +
			"or check step.Current first")
	}
	return a
}

// Attempt returns the number of this attempt, counted from 1. It counts all started attempts. This
// includes attempts that do not count towards the retry policy because their worker was shut down.
func Attempt(ctx context.Context) int { return current(ctx, "Attempt").Number }

// IdempotencyKey returns a key that is the same for all attempts of this step, including after
// crashes and replays. It differs from the keys of all other steps of all runs. It has 32
// hexadecimal characters. Pass it to services that accept such a key.
func IdempotencyKey(ctx context.Context) string {
	a := current(ctx, "IdempotencyKey")
	h := sha256.New()
	h.Write([]byte(a.Run))
	h.Write([]byte{0})
	h.Write([]byte(a.Key))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Heartbeat stores details of the progress of this attempt. If the attempt fails or its worker
// crashes, the next attempt can read the details with [LastHeartbeat]. A long step keeps its claim
// without heartbeats. details are encoded as JSON. If the attempt should stop, the error is the
// cause of ctx. Otherwise the error is the reason why the details were not stored.
func Heartbeat(ctx context.Context, details any) error {
	a := current(ctx, "Heartbeat")
	if err := context.Cause(ctx); err != nil {
		return err
	}
	data, err := flow.EncodePayload("heartbeat of step ", a.Step, details)
	if err != nil {
		return err
	}
	if err := a.Heart.Beat(ctx, data); err != nil {
		return fmt.Errorf("heartbeat of step %s: %w", a.Step, err)
	}
	return nil
}

// LastHeartbeat returns the details of the last heartbeat of an earlier attempt. It returns false
// if there is no heartbeat or if its details cannot be decoded as a T.
func LastHeartbeat[T any](ctx context.Context) (T, bool) {
	var v T
	a := current(ctx, "LastHeartbeat")
	if a.Last == nil || json.Unmarshal(a.Last, &v) != nil {
		var zero T
		return zero, false
	}
	return v, true
}

// Fatal returns an error that fails the step with err, without further attempts, with code "fatal".
// The step may return the error wrapped. Fatal returns nil if err is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &attempt.FatalError{Err: err}
}

// RetryAfter returns an error that fails the attempt with err and sets the time until the next
// attempt to d, instead of the delay of the retry policy. If d is negative, the next attempt begins
// at once.
//
// A busy service is not a failure of the step. Therefore the first 100 attempts that return a
// RetryAfter do not count towards the number of attempts of the retry policy. Waits of
// [workflow.RetryPolicy] sets another number than 100. The total time of the policy applies in all
// cases. If an attempt returns a RetryAfter after its timeout, the attempt has timed out.
// RetryAfter returns nil if err is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &attempt.RetryAfterError{Err: err, Delay: max(d, 0)}
}

// HoldBack is like [RetryAfter]. It also closes the rates of the limits that the step uses for d,
// but at most for a day. While a rate is closed, no step or run that uses it begins on any worker.
// Afterwards the rates apply without a burst. Use HoldBack if a service asks all its clients to
// pause, for example with status 429.
//
// If the step uses no limits, HoldBack closes the rates of its workflow. Limits without a rate stay
// open. All limits stay open if the worker has lost the claim of the run. The commit that records
// the attempt closes the rates, even if it was the last attempt. HoldBack returns nil if err is
// nil.
func HoldBack(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &attempt.RetryAfterError{Err: err, Delay: max(d, 0), Hold: true}
}
