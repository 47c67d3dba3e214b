package store

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// Streams contains data that runs publish in addition to their logs: chunks of bytes, numbered
// under a name. A stream belongs to the chain. A run that continues another run writes to the same
// streams, and each run of the chain can be used to read them. A stream is kept until the first run
// of the chain is purged, which is purged last.
//
// A run writes by [Commit.Publish] in the same action as the frame that causes it, so a replay
// writes nothing twice. A step writes by Publish while it is executed.
type Streams interface {
	// Publish appends chunks to streams of an owned run, all of them or none. It returns ErrFenced
	// if the run is not owned under this fence, and ErrStreamClosed if one of the streams is
	// closed. It skips a chunk whose Writer has already written its Nth chunk to the stream, so the
	// caller can repeat a call whose result was lost. It does not permit Close and Drop, because
	// the end of a stream must be recorded in a log.
	Publish(ctx context.Context, run event.RunID, fence Fence, chunks []Publication) error
	// ReadStream reads a part of a stream. It returns ErrRunNotFound if the run does not exist. A
	// stream without any write is empty.
	ReadStream(ctx context.Context, r ReadStream) (StreamPage, error)
	// AwaitStream blocks until the last chunk of the stream has an index other than after, the
	// stream is closed, or the chain has ended. An index of 0 means that there is no chunk. It
	// returns ErrRunNotFound if the run does not exist, and ctx.Err() if ctx ends. The result is a
	// hint: AwaitStream may return too early.
	AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error
}

// StreamLister is a store that can list the streams of a chain.
type StreamLister interface {
	// StreamNames returns the names of the streams of the chain of a run, sorted. It returns
	// ErrRunNotFound if the run does not exist.
	StreamNames(ctx context.Context, run event.RunID) ([]string, error)
}

// Publication is a change of a stream. Its parts are applied in the order Drop, Body, Keep, Close.
type Publication struct {
	// Stream is the name of the stream. It may contain any bytes, at least one and at most
	// [MaxStreamName].
	Stream string
	// Drop removes the stream with all its chunks, even if the stream is closed. A Body in the same
	// publication becomes chunk 1 of a new stream.
	Drop bool
	// Body is appended as the next chunk. The first chunk of a stream has index 1. Nil appends
	// nothing. A commit that appends to a closed stream skips the chunk and succeeds.
	Body []byte
	// Keep is the number of chunks to keep at the end of the stream. All other chunks are removed,
	// even from a closed stream. 0 removes none.
	Keep int
	// Close closes the stream, so that no chunk can follow.
	Close bool
	// Writer and Nth identify the chunk, so that a store can detect a repeated call of
	// [Streams.Publish]. Each Writer counts its chunks from 1 for each stream, and begins a call
	// only after its previous call has returned. An empty Writer means that the call is never
	// repeated. Commits have no Writer, because they are identified by their CommitID.
	Writer string
	Nth    uint64
}

// MaxStreamName is the maximum length of the name of a stream, in bytes.
const MaxStreamName = 512

// CheckStreamName returns an error if the name of a stream is invalid. Stores call it first in all
// operations on streams.
func CheckStreamName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the stream has no name")
	case len(name) > MaxStreamName:
		return fmt.Errorf("the name of the stream has %d bytes, and may have %d", len(name), MaxStreamName)
	}
	return nil
}

// CheckPublish returns an error if publications of a step are invalid regardless of the state of
// the store. Stores call it first in [Streams.Publish].
func CheckPublish(chunks []Publication) error {
	for i := range chunks {
		c := &chunks[i]
		err := c.check()
		switch {
		case err != nil:
		case c.Drop || c.Close:
			err = fmt.Errorf("only a commit ends a stream")
		case c.Writer != "" && c.Nth == 0:
			err = fmt.Errorf("writer %q counts from 1", c.Writer)
		}
		if err != nil {
			return fmt.Errorf("stream %q: %w", c.Stream, err)
		}
	}
	return nil
}

// CheckPublish returns an error if the publications of the commit are invalid regardless of the
// state of the store. Stores call it first in [Store.Commit].
func (c *Commit) CheckPublish() error {
	for i := range c.Publish {
		p := &c.Publish[i]
		err := p.check()
		if err == nil && (p.Writer != "" || p.Nth != 0) {
			err = fmt.Errorf("a commit is identified by its CommitID, and must not name a writer")
		}
		if err != nil {
			return fmt.Errorf("publish to stream %q of run %s: %w", p.Stream, c.Run, err)
		}
	}
	if len(c.Publish) > 0 && c.Frame == nil && c.Consume == 0 {
		return fmt.Errorf("publish to streams of run %s: a commit that publishes must have a frame or consume items: otherwise a repetition could not be recognized", c.Run)
	}
	return nil
}

func (p *Publication) check() error {
	if err := CheckStreamName(p.Stream); err != nil {
		return err
	}
	if p.Keep < 0 {
		return fmt.Errorf("%d chunks cannot be stored", p.Keep)
	}
	return nil
}

// ReadStream is a request for a part of a stream.
type ReadStream struct {
	Run    event.RunID
	Stream string
	// From is the index of the first chunk to return. If this chunk was removed, the page begins
	// with the first kept chunk.
	From uint64
	// Tail, if positive, is the number of chunks to return from the end of the stream. From is then
	// ignored.
	Tail int
	// Limit is the maximum number of chunks to return. 0 means 256, and a negative number none. A
	// store may return fewer chunks to bound the size of a page, but at least one.
	Limit int
}

// DefaultStreamPage is the number of chunks of a page if ReadStream.Limit is 0.
const DefaultStreamPage = 256

// StreamPage is a part of a stream and the state of the stream.
type StreamPage struct {
	Chunks []Chunk // in order, without gaps
	// First is the index of the first kept chunk, or 0 if there is none. Last is the highest index
	// that was written, even if that chunk was removed.
	First, Last uint64
	// Closed reports that no chunk can follow Last.
	Closed bool
	// Ended reports that all runs of the chain have ended, so that the stream cannot grow.
	Ended bool
}

// Chunk is one entry of a stream.
type Chunk struct {
	Index uint64
	Body  []byte
}

// StreamState is the state of a stream in a snapshot.
type StreamState struct {
	Chunks []Chunk
	Last   uint64
	Closed bool
	// Writers contains the Nth of the last chunk of each writer. It is nil if there are no writers.
	Writers map[string]uint64
}
