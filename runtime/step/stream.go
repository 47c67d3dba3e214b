package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Write adds a chunk to a stream of the run to which the step belongs. When it returns nil, the
// chunk is durable, and readers receive it regardless of the outcome of the attempt. Chunks of an
// attempt that fails remain, and the next attempt appends to them. Each [workflow.Chunk] contains
// the number of the attempt that wrote it.
//
// Goroutines of one step may write concurrently. Write stores their chunks in batches, which makes
// many small writes cheap. The chunks of each goroutine stay in order. If the step runs on another
// queue than the run, the chunks go through the inbox of the run.
//
// Errors: an error that matches [workflow.ErrStreamClosed]; a *workflow.PayloadError; an error that
// matches [workflow.ErrClaimLost] if another worker has claimed the run, in which case the context
// of the attempt ends; or the cause of ctx, in which case the chunk may have been written.
func Write[T any](ctx context.Context, s workflow.Stream[T], v T) error {
	a := current(ctx, "Write")
	stream := flow.Stream(s).Spec()
	name := stream.Name
	data, err := flow.EncodePayload("chunk of stream ", name, v)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("write to stream %s: %w", name, err)
	}
	err = a.Streams.Write(ctx, name, data, stream.Keep)
	if _, payload := errors.AsType[*workflow.PayloadError](err); err == nil || payload {
		return err // err already contains the name of the stream
	}
	return fmt.Errorf("write to stream %s: %w", name, err)
}

// Close closes a stream when the step completes. From then on, no code can write to it. An attempt
// that fails closes no stream. Later writes of this attempt fail. Closing a closed stream does
// nothing. The error is the cause of ctx if the attempt should stop.
func Close[T any](ctx context.Context, s workflow.Stream[T]) error {
	a := current(ctx, "Close")
	name := flow.Stream(s).Spec().Name
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("close stream %s: %w", name, err)
	}
	if err := a.Streams.Close(name); err != nil {
		return fmt.Errorf("close stream %s: %w", name, err)
	}
	return nil
}
