package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Write adds a chunk to a stream of the run to which the step belongs. When it returns nil the
// chunk is durable, and readers see it regardless of the outcome of the attempt: chunks of an
// attempt that fails or dies remain, the next attempt appends to them, and each [workflow.Chunk]
// names the attempt that wrote it.
//
// Goroutines of one step may write concurrently. Their chunks are stored in batches, which makes
// many small writes cheap; the chunks of each goroutine stay in order. The chunks of a step that
// runs on another queue go through the inbox of the run.
//
// Errors: one that matches [workflow.ErrStreamClosed]; a *workflow.PayloadError; one that matches
// [workflow.ErrClaimLost] if another worker has the run, in which case the attempt's context ends;
// the cause of ctx, in which case it is unknown whether the chunk was written.
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
		return err // the error already names the stream
	}
	return fmt.Errorf("write to stream %s: %w", name, err)
}

// Close closes a stream. It takes effect with the completion of the step, for readers and for all
// writers; an attempt that fails closes nothing. Later writes of this attempt fail. Closing a
// closed stream does nothing. The error is the cause of ctx if the attempt should stop.
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
