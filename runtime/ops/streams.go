package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// StreamInfo describes the current state of a stream of a run and its chain.
type StreamInfo struct {
	ID   string // "strm_" and a ULID; the same for all runs of the chain
	Name string
	// First is the index of the first chunk that is kept. It is 0 if no chunk is kept. Last is the
	// highest index written.
	First, Last uint64
	// Ended reports that no chunk will follow, because the stream was closed or the last run of the
	// chain has ended.
	Ended bool
}

// Streams returns the streams to which the runs of a run's chain have written, sorted by name. It
// begins with the first name greater than after. During an outage of the store, it waits. The error
// matches workflow.ErrNotSupported if the store cannot list streams.
func (c *Client) Streams(ctx context.Context, run workflow.RunID, after string) iter.Seq2[StreamInfo, error] {
	return func(yield func(StreamInfo, error) bool) {
		if err := c.streams(ctx, run, after, yield); err != nil {
			yield(StreamInfo{}, fmt.Errorf("list streams: %w", err))
		}
	}
}

func (c *Client) streams(ctx context.Context, run workflow.RunID, after string, yield func(StreamInfo, error) bool) error {
	lister, ok := store.As[store.StreamLister](c.store)
	if !ok {
		return workflow.ErrNotSupported
	}
	l, err := c.load(ctx, store.Load{Run: run, Limit: -1})
	if err != nil {
		return err
	}
	var kept []string
	err = c.inner.Persist(ctx, "list streams", func() (err error) {
		kept, err = lister.StreamNames(ctx, run)
		return err
	})
	if err != nil {
		return err
	}
	for _, stored := range kept {
		name, is := effects.NameOfStream(stored)
		if !is || name <= after {
			continue
		}
		page, err := c.readStream(ctx, store.ReadStream{Run: run, Stream: stored, Tail: 1})
		if err != nil {
			return err
		}
		info := StreamInfo{ID: event.StreamID(l.Record.Chain, name), Name: name, First: page.First, Last: page.Last, Ended: page.Closed || page.Ended}
		if !yield(info, nil) {
			return nil
		}
	}
	return nil
}

func (c *Client) readStream(ctx context.Context, want store.ReadStream) (page store.StreamPage, err error) {
	err = c.inner.Persist(ctx, "read stream", func() error {
		page, err = c.store.ReadStream(ctx, want)
		return err
	})
	return page, err
}

// StreamPage is a part of a stream, with the state of the stream.
type StreamPage struct {
	Run workflow.RunID
	// Chunks are in order and without gaps. Values are in their stored form. The value of a chunk
	// that the client cannot open is the sealed chunk, which contains the origin of the value too.
	Chunks []workflow.Chunk[json.RawMessage]
	// First is the index of the first chunk that is kept. It is 0 if no chunk is kept. Last is the
	// index of the last chunk written, even if that chunk is not kept.
	First, Last uint64
	// Ended reports that no chunk will follow, because the stream was closed or the last run of the
	// chain has ended.
	Ended bool
}

// StreamPlace is the place of the sealed chunks of a stream.
func StreamPlace(chain workflow.RunID, name string) store.Place {
	return store.ChunkPlace(chain, effects.UserStream(name))
}

// StreamPage returns up to limit chunks of a stream of a run. It begins with the first kept chunk
// whose index is at least from. limit must be positive. StreamPage does not wait for chunks, but it
// waits during an outage of the store. It may return fewer chunks than limit to bound the size of a
// page, but it returns at least one if there is one. A stream without writes is empty. To follow a
// stream, use [workflow.Handle.ReadStream].
func (c *Client) StreamPage(ctx context.Context, run workflow.RunID, name string, from uint64, limit int) (StreamPage, error) {
	got, err := c.streamPage(ctx, run, name, from, limit)
	if err != nil {
		return StreamPage{}, fmt.Errorf("read stream %s: %w", name, err)
	}
	return got, nil
}

func (c *Client) streamPage(ctx context.Context, run workflow.RunID, name string, from uint64, limit int) (StreamPage, error) {
	if name == "" {
		return StreamPage{}, errors.New("the stream has no name")
	}
	stored := effects.UserStream(name)
	if err := errors.Join(store.CheckStreamName(stored), checkID(run)); err != nil {
		return StreamPage{}, err
	}
	page, err := c.readStream(ctx, store.ReadStream{Run: run, Stream: stored, From: from, Limit: limit})
	if err != nil {
		return StreamPage{}, err
	}
	got := StreamPage{Run: run, First: page.First, Last: page.Last, Ended: page.Closed || page.Ended}
	for i := range page.Chunks {
		if event.IsSealed(page.Chunks[i].Body) {
			got.Chunks = append(got.Chunks, workflow.Chunk[json.RawMessage]{Index: page.Chunks[i].Index, Value: page.Chunks[i].Body})
			continue
		}
		chunk, err := effects.DecodeChunk(page.Chunks[i].Body)
		if err != nil {
			return StreamPage{}, fmt.Errorf("chunk %d: %w", page.Chunks[i].Index, err)
		}
		got.Chunks = append(got.Chunks, workflow.Chunk[json.RawMessage]{
			Index: page.Chunks[i].Index, Value: chunk.Value, Run: chunk.Run, Step: chunk.Key, Attempt: chunk.Attempt,
		})
	}
	return got, nil
}
