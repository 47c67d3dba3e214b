package workflow

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Value is a name under which a run publishes its progress or state. Declare it once as a package
// variable and use it on both sides:
//
//	var Progress = workflow.NewValue[Percent]("progress")
//
// Readers get the newest value, not every one. A value belongs to the run and its continuations,
// which start with the values of the previous run. A rerun by [Handle.Fork], Retry or RetryCanceled
// has the values that were set in the copied prefix. Values can be read until the run is deleted.
type Value[T any] struct{ name string }

// NewValue returns the value with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewValue panics if the name is empty or longer.
func NewValue[T any](name string) Value[T] {
	checkName("NewValue", name)
	return Value[T]{name: name}
}

// maxName bounds the names of values, streams, asks, hooks and schedules, in bytes.
const maxName = 200

func checkName(what, name string) {
	if name == "" || len(name) > maxName {
		panic(fmt.Sprintf("workflow: %s: the name has %d bytes, want 1 to %d", what, len(name), maxName))
	}
}

// Name returns the value's name.
func (v Value[T]) Name() string { return v.name }

func (v Value[T]) what() string { return "value " + v.name }

func (v Value[T]) declared() {
	if v.name == "" {
		panic(&replay.MisuseError{Text: "workflow: zero Value: declare it with workflow.NewValue"})
	}
}

// Set publishes the value, from workflow code: readers see it once the commit that records it is
// durable, and a replay does not set it again. It does not wait, and works on a context that has
// ended. A value that cannot be encoded or is too large ends the run with a *[PayloadError]: the
// call does not return; deferred calls run, but durable operations in them do not; compensations
// are executed.
func (v Value[T]) Set(ctx Context, value T) {
	v.declared()
	b := ctx.branch()
	b.Gate(ctx.s)
	key := b.Key("set." + v.name)
	payload, err := ctx.encode(v.what(), value)
	if err != nil {
		b.Fail(ending(ctx.s, err).Failure)
	}
	b.SetValue(v.name, key, payload, func(recorded []byte) string { return differs(b, reflect.TypeFor[T](), recorded, payload) })
}

// Get returns the newest value of a run, which may have ended, and whether it was set. Get, Wait
// and Watch wait out an outage of the store. Errors: ErrRunNotFound; a *[PayloadError] if the value
// is not a T; the error of ctx.
func (v Value[T]) Get(ctx context.Context, of Target) (value T, ok bool, err error) {
	r, err := v.open(ctx, of)
	if err != nil {
		return value, false, err
	}
	page, err := r.newest(ctx)
	if err != nil || len(page.Chunks) == 0 {
		return value, false, err
	}
	err = decode(v.what(), page.Chunks[0].Body, &value)
	return value, err == nil, err
}

// Wait returns the newest value of a run, and waits until one is set; ctx bounds the wait. Errors:
// those of Get; the error of ctx; one that matches [ErrRunTerminal] if the run has ended without
// setting the value.
func (v Value[T]) Wait(ctx context.Context, of Target) (value T, err error) {
	r, err := v.open(ctx, of)
	if err != nil {
		return value, err
	}
	chunk, there, err := r.await(ctx, 0)
	if err != nil {
		return value, err
	}
	if !there {
		return value, fmt.Errorf("wait for value %s: run %s has not set it: %w", v.name, r.run, ErrRunTerminal)
	}
	err = decode(v.what(), chunk.Body, &value)
	return value, err
}

// Watch follows a value: it delivers the newest one if there is one, and then each new one; of
// values set in quick succession only the last may be delivered. The iterator ends silently with
// the run; an error, as of Get, is the last pair.
func (v Value[T]) Watch(ctx context.Context, of Target) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		r, err := v.open(ctx, of)
		if err != nil {
			yield(none, err)
			return
		}
		for seen := uint64(0); ; {
			chunk, there, err := r.await(ctx, seen)
			if err != nil {
				yield(none, err)
				return
			}
			if !there {
				return
			}
			seen = chunk.Index
			var value T
			if err := decode(v.what(), chunk.Body, &value); err != nil {
				yield(none, err)
				return
			}
			if !yield(value, nil) {
				return
			}
		}
	}
}

func (v Value[T]) open(ctx context.Context, of Target) (*reader, error) {
	v.declared()
	return of.target().read(ctx, v.what(), effects.ValueStream(v.name))
}
