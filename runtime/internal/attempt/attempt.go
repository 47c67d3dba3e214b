// Package attempt passes the data of a running step attempt from the worker to package step, in the
// step's context.
package attempt

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Attempt is one execution of a step.
type Attempt struct {
	Run        event.RunID
	WorkflowID string
	Workflow   string
	Step       string
	Key        string
	Number     int
	// Log is the run whose log contains the step. LogKey is the key of the step in that log, and
	// Ref is the number of the event that created the step. Log and LogKey equal Run and Key unless
	// another run executes the step.
	Log    event.RunID
	LogKey string
	Ref    uint64
	Tags   map[string]string
	Spec   *event.Spec // of the run Log, which has the attributes of the run; nil in a test
	// Last contains the details of the last heartbeat of an earlier attempt, or nil.
	Last []byte
	// Heart stores the details of heartbeats.
	Heart Heart
	// Streams writes to the streams of the run.
	Streams StreamWriter
	// Hooks opens the hook through which an outside caller may finish the attempt.
	Hooks HookOpener
	// Transaction is taken while the attempt has an open transaction of package sqlstep.
	Transaction Slot
	// Logger is the logger of the worker.
	Logger *slog.Logger
	// Client is the flow.Engine of the worker, for the runtime's own steps.
	Client any
}

// Slot can be taken by one holder at a time.
type Slot struct{ taken atomic.Bool }

// Take takes the slot. It reports false if the slot was taken before.
func (s *Slot) Take() bool { return s.taken.CompareAndSwap(false, true) }

// Free makes the slot available.
func (s *Slot) Free() { s.taken.Store(false) }

// Heart sends heartbeats for the code of an attempt.
type Heart interface {
	// Beat stores the details of a heartbeat. If the attempt must stop, Beat returns the cause.
	Beat(ctx context.Context, details []byte) error
}

// HeartFunc is a function as a [Heart].
type HeartFunc func(ctx context.Context, details []byte) error

// Beat calls f.
func (f HeartFunc) Beat(ctx context.Context, details []byte) error { return f(ctx, details) }

// StreamWriter writes to streams for the code of an attempt.
type StreamWriter interface {
	// Write adds a chunk to a stream of the run. It returns nil once the chunk is durable. The
	// stream keeps the last keep chunks, or all chunks if keep is 0.
	Write(ctx context.Context, stream string, value []byte, keep int) error
	// Close closes a stream when the attempt completes. If the attempt fails, the stream stays
	// open.
	Close(stream string) error
}

// HookOpener opens hooks for the code of an attempt.
type HookOpener interface {
	// OpenHook returns the token of the hook once the hook is durable. An attempt has at most one
	// hook: a second call for the same hook returns the same token, and a call for another hook
	// fails.
	OpenHook(ctx context.Context, h Hook) (token string, err error)
}

// Hook describes a hook that an attempt opens.
type Hook struct {
	Name  string
	Shape []byte // shape of the payloads that finish the attempt; nil accepts any payload
	Meta  []byte // description of the hook
}

// PendingError is returned by the code of an attempt that leaves its outcome to the holder of its
// hook's token.
type PendingError struct{ Token string }

// Error returns a text for callers that do not handle the error.
func (e *PendingError) Error() string {
	return "the holder of the token of the hook that this attempt has opened reports the outcome"
}

type key struct{}

// With returns a context that belongs to the attempt.
func With(ctx context.Context, a *Attempt) context.Context { return context.WithValue(ctx, key{}, a) }

// Is reports whether k is the key under which From looks up the attempt of a context. A context
// that returns a [*Attempt] for this key does not need [With].
func Is(k any) bool {
	_, is := k.(key)
	return is
}

// From returns the attempt to which ctx belongs. It returns nil if ctx belongs to none.
func From(ctx context.Context) *Attempt {
	a, _ := ctx.Value(key{}).(*Attempt)
	return a
}

// PanicError is the error that an interceptor receives if the code of the step has panicked.
type PanicError struct {
	Value any
	Stack []byte // stack of the goroutine at the panic
}

// Error returns the text of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// FatalError is an error after which the step must not be attempted again.
type FatalError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *FatalError) Unwrap() error { return e.Err }

// RetryAfterError is an error that sets the delay before the next attempt.
type RetryAfterError struct {
	Err   error
	Delay time.Duration
	// Hold also closes the rates that the step uses, for the delay.
	Hold bool
}

// Error returns the text of the wrapped error.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *RetryAfterError) Unwrap() error { return e.Err }
