package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Chunks keeps the chunks that the implementation of a step writes to streams. The zero value is
// ready for use.
type Chunks struct {
	mu     sync.Mutex
	chunks map[string][]json.RawMessage
	closed []string
}

// Streams makes the attempt record in c which chunks it writes and which streams it closes. Without
// this option, writes succeed and are discarded.
func Streams(c *Chunks) StepOption {
	return func(a *stepOptions) { a.Streams = chunkWriter{c} }
}

// chunkWriter implements the stream operations of an attempt by recording them in c.
type chunkWriter struct{ c *Chunks }

func (w chunkWriter) Write(_ context.Context, stream string, value []byte, keep int) error {
	return w.c.write(stream, value, keep)
}

func (w chunkWriter) Close(stream string) error { return w.c.close(stream) }

func (c *Chunks) write(stream string, value []byte, keep int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.closed, stream) {
		return fmt.Errorf("%w by this attempt", workflow.ErrStreamClosed)
	}
	if c.chunks == nil {
		c.chunks = map[string][]json.RawMessage{}
	}
	c.chunks[stream] = append(c.chunks[stream], value)
	if all := c.chunks[stream]; keep > 0 && len(all) > keep {
		c.chunks[stream] = all[len(all)-keep:]
	}
	return nil
}

func (c *Chunks) close(stream string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(c.closed, stream)
	return nil
}

// Closed reports whether the step has closed a stream.
func (c *Chunks) Closed(stream string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.closed, stream)
}

// Written returns the chunks of a stream, in order. It panics if a chunk is
// not a T.
func Written[T any](c *Chunks, s workflow.Stream[T]) []T {
	name := flow.Stream(s).Spec().Name
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []T
	for i, stored := range c.chunks[name] {
		var v T
		if err := json.Unmarshal(stored, &v); err != nil {
			panic(fmt.Sprintf("workflowtest: Written: chunk %d of stream %s: %v", i+1, name, err))
		}
		all = append(all, v)
	}
	return all
}
