// Package attempt passes the data of a running step attempt from the worker to package step, in the
// step's context.
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
	// Log is the run whose log contains the step, LogKey is its key there, and Ref is the number of
	// the event that created it. Log and LogKey equal Run and Key unless another run executes the
	// step.
	Log    event.RunID
	LogKey string
	Ref    uint64
	Tags   map[string]string
	// Last contains the details of the last heartbeat of an earlier attempt, or nil.
	Last []byte
	// Heart stores the details of heartbeats.
	Heart Heart
	// Streams writes to the streams of the run.
	Streams StreamWriter
	// Hooks opens the hook through which the attempt may be finished from outside.
	Hooks HookOpener
	// Transaction is taken by the transaction of package sqlstep that the attempt has begun.
	Transaction Slot
	// Client is the engine.Client of the worker, for the runtime's own steps.
	Client any
}

// Slot can be taken by one holder at a time, which keeps it or frees it.
type Slot struct{ taken atomic.Bool }

// Take takes the slot and reports whether it was free.
func (s *Slot) Take() bool { return s.taken.CompareAndSwap(false, true) }

// Free gives back the slot.
func (s *Slot) Free() { s.taken.Store(false) }

// Heart sends heartbeats for the code of an attempt.
type Heart interface {
	// Beat stores details of a heartbeat. If the attempt should stop, it returns the cause.
	Beat(ctx context.Context, details []byte) error
}

// HeartFunc is a function that implements [Heart].
type HeartFunc func(ctx context.Context, details []byte) error

// Beat calls f.
func (f HeartFunc) Beat(ctx context.Context, details []byte) error { return f(ctx, details) }

// StreamWriter writes to streams for the code of an attempt.
type StreamWriter interface {
	// Write adds a chunk to a stream of the run, and returns nil once it is durable. keep is how
	// many chunks the stream keeps, 0 for all.
	Write(ctx context.Context, stream string, value []byte, keep int) error
	// Close closes a stream if the attempt completes.
	Close(stream string) error
}

// HookOpener opens hooks for the code of an attempt.
type HookOpener interface {
	// OpenHook returns the token of the hook once it is durable. An attempt has at most one hook: a
	// second call for it returns the same token, and a call for another hook fails.
	OpenHook(ctx context.Context, h Hook) (token string, err error)
}

// Hook describes a hook that an attempt opens.
type Hook struct {
	Name  string
	Shape []byte // shape of the payloads that finish the attempt; nil: any
	Meta  []byte // description of the hook
}

// PendingError is returned by the code of an attempt that leaves its outcome to the holder of its
// hook's token.
type PendingError struct{ Token string }

// Error describes the error where a caller does not handle it.
func (e *PendingError) Error() string {
	return "the outcome is left to whoever has the token of the hook that this attempt has opened"
}

type key struct{}

// With returns a context for the code of the attempt.
func With(ctx context.Context, a *Attempt) context.Context { return context.WithValue(ctx, key{}, a) }

// Is reports whether k is the key by which From asks a context for its attempt. A context that
// returns a [*Attempt] for it needs no [With].
func Is(k any) bool {
	_, is := k.(key)
	return is
}

// From returns the attempt that ctx belongs to, or nil.
func From(ctx context.Context) *Attempt {
	a, _ := ctx.Value(key{}).(*Attempt)
	return a
}

// FatalError reports that another attempt is useless.
type FatalError struct{ Err error }

// Error returns the text of the cause.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError sets the delay before the next attempt.
type RetryAfterError struct {
	Err   error
	Delay time.Duration
	// Hold closes the rates that the step uses for the delay.
	Hold bool
}

// Error returns the text of the cause.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryAfterError) Unwrap() error { return e.Err }
