package store

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// Streams are data that runs publish beside their logs: numbered chunks of
// bytes under a name. They belong to the chain: a continuation writes to the
// streams of the run before, and each run of the chain names them.
// They are kept as long as the first run of the chain, which is purged last.
//
// Runs write by [Commit.Publish], in one action with the frame that records why,
// so that a replay writes nothing twice; their steps write by Publish, while they
// are executed.
type Streams interface {
	// Publish appends chunks to streams of an owned run, all of them or none. ErrFenced: the run is
	// not owned under this fence. ErrStreamClosed: one of the streams is closed. A chunk whose
	// Writer has already written its Nth chunk to that stream is skipped, so the caller can repeat
	// a call whose result was lost. Close and Drop are not allowed, because the end of a stream is
	// recorded in a log.
	Publish(ctx context.Context, run event.RunID, fence Fence, chunks []Publication) error
	// ReadStream reads a part of a stream. ErrRunNotFound: there is no such run. A stream that was
	// never written is empty.
	ReadStream(ctx context.Context, r ReadStream) (StreamPage, error)
	// AwaitStream blocks while the stream's last chunk is the one with that index (0:
	// there is none), it is open, and the chain has not ended; or until the run does
	// not exist (ErrRunNotFound), or ctx ends (ctx.Err()). It is a hint: it may return
	// too early.
	AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error
}

// StreamLister is a store that lists the streams of a chain.
type StreamLister interface {
	// StreamNames returns the names of the streams of the chain of a run, sorted. ErrRunNotFound: there is no such run.
	StreamNames(ctx context.Context, run event.RunID) ([]string, error)
}

// Publication is a change of a stream. Its parts are applied in this order: Drop, Body, Keep,
// Close.
type Publication struct {
	// Stream is its name: any bytes, at least one and at most [MaxStreamName].
	Stream string
	// Drop removes the stream with all its chunks, even if it is closed. If a
	// Body follows, that is chunk 1 of a new stream.
	Drop bool
	// Body is appended as the next chunk; the first chunk of a stream has index 1. Nil appends
	// nothing. A commit that appends to a closed stream skips the chunk and succeeds.
	Body []byte
	// Keep is the number of last chunks to keep; all others are removed, even from a closed stream.
	// 0 removes none.
	Keep int
	// Close closes the stream: no chunk follows.
	Close bool
	// Writer and Nth identify the chunk, so that a repeated call of [Streams.Publish] is
	// recognized. Each Writer counts from 1 for each stream and begins a call only after the
	// previous one has returned. An empty Writer means that the call is never repeated. Commits
	// have no Writer, because their CommitID identifies them.
	Writer string
	Nth    uint64
}

// MaxStreamName is the maximum length of the name of a stream, in bytes.
const MaxStreamName = 512

// CheckStreamName returns an error for an invalid name of a stream. Stores call it before
// everything else, in all operations on streams.
func CheckStreamName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the stream has no name")
	case len(name) > MaxStreamName:
		return fmt.Errorf("the name of the stream has %d bytes, and may have %d", len(name), MaxStreamName)
	}
	return nil
}

// CheckPublish returns an error for publications of steps that are invalid in any state of the
// store. Stores call it first in [Streams.Publish].
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

// CheckPublish returns an error if the publications of the commit are invalid in any state of the
// store. Stores call it first in [Store.Commit].
func (c *Commit) CheckPublish() error {
	for i := range c.Publish {
		p := &c.Publish[i]
		err := p.check()
		if err == nil && (p.Writer != "" || p.Nth != 0) {
			err = fmt.Errorf("a commit is known by its CommitID, and names no writer")
		}
		if err != nil {
			return fmt.Errorf("publish to stream %q of run %s: %w", p.Stream, c.Run, err)
		}
	}
	if len(c.Publish) > 0 && c.Frame == nil && c.Consume == 0 {
		return fmt.Errorf("publish to streams of run %s: a commit that publishes has a frame, or consumes items: it could not be recognized if it is repeated", c.Run)
	}
	return nil
}

func (p *Publication) check() error {
	if err := CheckStreamName(p.Stream); err != nil {
		return err
	}
	if p.Keep < 0 {
		return fmt.Errorf("%d chunks cannot be kept", p.Keep)
	}
	return nil
}

// ReadStream is a request for a part of a stream.
type ReadStream struct {
	Run    event.RunID
	Stream string
	// From is the first index to return. Chunks that are not kept any more are
	// left out: the page begins with the first that is.
	From uint64
	// Tail, if positive, returns the last so many chunks instead, or all if there
	// are fewer.
	Tail int
	// Limit is the greatest number of chunks to return; 0: 256, negative: none.
	// A store may return fewer to bound the size of a page, but at least one.
	Limit int
}

// DefaultStreamPage is the number of chunks of a page if ReadStream.Limit is 0.
const DefaultStreamPage = 256

// StreamPage is a part of a stream, and the state of the stream.
type StreamPage struct {
	Chunks []Chunk // in order, without gaps
	// First is the index of the first chunk that is kept, 0 if there is none. Last is the greatest
	// index that was written, even if that chunk has been removed.
	First, Last uint64
	// Closed reports that no chunk follows Last.
	Closed bool
	// Ended reports that all runs of the chain have ended, so the stream cannot grow.
	Ended bool
}

// Chunk is one entry of a stream.
type Chunk struct {
	Index uint64
	Body  []byte
}

// StreamState is a stream as a snapshot shows it.
type StreamState struct {
	Chunks []Chunk
	Last   uint64
	Closed bool
	// Writers contains the Nth of the last chunk of each writer; it is nil if there are none.
	Writers map[string]uint64
}
