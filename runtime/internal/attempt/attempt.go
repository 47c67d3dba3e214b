// Package attempt carries what a running step attempt knows from the worker to
// package step, inside of the step's context.
package attempt

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Attempt is one execution of a step.
type Attempt struct {
	Run        event.RunID
	WorkflowID string
	Step       string
	Key        string
	Number     int
	// Log is the run whose log holds the step, LogKey its key there and Ref the event
	// that created it: Run and Key, unless another run executes the step for that.
	Log    event.RunID
	LogKey string
	Ref    uint64
	Tags   map[string]string
	// Last holds the details of the last heartbeat of an earlier attempt, nil
	// if there is none.
	Last []byte
	// Heart stores the details of heartbeats.
	Heart Heart
	// Streams writes to the streams of the run.
	Streams StreamWriter
	// Hooks opens the hook by which the attempt may be finished from outside.
	Hooks HookOpener
	// Transaction is held by the transaction of package sqlstep that the attempt has begun.
	Transaction Slot
	// Client is the engine.Client of the worker, for steps of the runtime's own.
	Client any
}

// Slot is taken by one holder at a time, which keeps it or frees it.
type Slot struct{ taken atomic.Bool }

// Take takes the slot and reports whether it was free.
func (s *Slot) Take() bool { return s.taken.CompareAndSwap(false, true) }

// Free gives back the slot.
func (s *Slot) Free() { s.taken.Store(false) }

// Heart beats for the code of an attempt.
type Heart interface {
	// Beat stores details of a heartbeat. It returns the cause if the attempt should
	// stop.
	Beat(ctx context.Context, details []byte) error
}

// HeartFunc is a function that is a [Heart].
type HeartFunc func(ctx context.Context, details []byte) error

// Beat calls f.
func (f HeartFunc) Beat(ctx context.Context, details []byte) error { return f(ctx, details) }

// StreamWriter writes to streams for the code of an attempt.
type StreamWriter interface {
	// Write adds a chunk to a stream of the run, and returns nil once that is durable.
	// keep is how many chunks the stream keeps, 0 for all.
	Write(ctx context.Context, stream string, value []byte, keep int) error
	// Close ends a stream if the attempt completes.
	Close(stream string) error
}

// HookOpener opens hooks for the code of an attempt.
type HookOpener interface {
	// OpenHook returns the token of the hook once that is durable. The attempt has one hook:
	// asked for it again, it returns the same token, and refuses to open another one.
	OpenHook(ctx context.Context, h Hook) (token string, err error)
}

// Hook is what an attempt opens.
type Hook struct {
	Name  string
	Shape []byte // of what finishes the attempt; nil: anything
	Meta  []byte // what the hook says of itself
}

// PendingError is what the code of an attempt returns that leaves its outcome to whoever has the
// token of its hook.
type PendingError struct{ Token string }

// Error says what it means, where nobody expects it.
func (e *PendingError) Error() string {
	return "the outcome is left to whoever has the token of the hook that this attempt has opened"
}

type key struct{}

// With returns a context for the code of the attempt.
func With(ctx context.Context, a *Attempt) context.Context { return context.WithValue(ctx, key{}, a) }

// Is reports whether key asks a context for its attempt: a context that answers it
// with a [*Attempt] by itself needs no [With].
func Is(k any) bool {
	_, is := k.(key)
	return is
}

// From returns the attempt that ctx belongs to, or nil.
func From(ctx context.Context) *Attempt {
	a, _ := ctx.Value(key{}).(*Attempt)
	return a
}

// FatalError says that trying again is useless.
type FatalError struct{ Err error }

// Error is that of the cause.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError says when to try again.
type RetryAfterError struct {
	Err   error
	Delay time.Duration
	// Hold closes the rates that the step uses for the delay.
	Hold bool
}

// Error is that of the cause.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryAfterError) Unwrap() error { return e.Err }
