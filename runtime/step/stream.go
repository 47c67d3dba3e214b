package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Write adds a chunk to a stream of the run that the step belongs to. When it
// returns nil the chunk is durable, and readers see it, whatever becomes of the
// attempt: chunks of an attempt that fails or dies stay, the next attempt writes
// behind them, and each [workflow.Chunk] says which attempt has written it.
//
// Goroutines of one step may write at the same time: their chunks are stored
// together, so that many of them cost little; each one's own stay in order. The
// chunks of a step that runs on another queue go through the inbox of the run.
//
// Errors: one that matches [workflow.ErrStreamClosed]; a *workflow.PayloadError; one
// that matches [workflow.ErrClaimLost] if the run belongs to another worker by now,
// and then the attempt's context ends; the cause of ctx, and then it is not known
// whether the chunk was written.
func Write[T any](ctx context.Context, s workflow.Stream[T], v T) error {
	a := current(ctx, "Write")
	name, keep := engine.StreamOf(s)
	data, err := engine.EncodePayload("chunk of stream ", name, v)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("write to stream %s: %w", name, err)
	}
	err = a.Streams.Write(ctx, name, data, keep)
	if _, payload := errors.AsType[*workflow.PayloadError](err); err == nil || payload {
		return err // which names the stream
	}
	return fmt.Errorf("write to stream %s: %w", name, err)
}

// Close says that nothing more is written to a stream. It takes effect together with
// the completion of the step, for readers as for everybody who writes; an attempt
// that fails closes nothing. Later writes of this attempt fail. Closing a stream
// that is closed already does nothing. The error is that of ctx if the attempt
// should stop.
func Close[T any](ctx context.Context, s workflow.Stream[T]) error {
	a := current(ctx, "Close")
	name, _ := engine.StreamOf(s)
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("close stream %s: %w", name, err)
	}
	if err := a.Streams.Close(name); err != nil {
		return fmt.Errorf("close stream %s: %w", name, err)
	}
	return nil
}
