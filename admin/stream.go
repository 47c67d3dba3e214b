package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// StreamFilter selects a page of the streams of a run. The zero value selects the first 100.
type StreamFilter struct {
	After string `json:"after,omitempty"` // selects names after this one; set it to StreamList.Next for the next page
	Limit int    `json:"limit,omitempty"` // entries per page; 0 means 100, the maximum is 1,000
}

// StreamState is the state of a stream.
type StreamState struct {
	ID    string `json:"id"` // strm_ and 26 characters; it never changes and is the same in all runs of a chain
	Name  string `json:"name"`
	First uint64 `json:"first"` // index of the first retained chunk; 0 if no chunk is retained
	Last  uint64 `json:"last"`  // index of the last chunk that was written, even if it is not retained
	Ended bool   `json:"ended"` // whether the stream is closed, so that no chunks follow
}

// StreamList is a page of the streams of a run, sorted by name.
type StreamList struct {
	Streams []StreamState `json:"streams"`
	Next    string        `json:"next,omitempty"` // value of StreamFilter.After for the next page; empty on the last page
}

// Chunk is one entry of a stream.
type Chunk struct {
	Index uint64  `json:"index"` // starts at 1
	Value Payload `json:"value"`
	// Run, Step and Attempt identify the attempt of a step that wrote the chunk. They are empty if
	// the code of the run wrote the chunk. The chunks of failed attempts are kept.
	Run     string `json:"run,omitempty"`
	Step    string `json:"step,omitempty"` // key of the step
	Attempt int    `json:"attempt,omitempty"`
}

// ChunkPage is a page of a stream.
type ChunkPage struct {
	Run    string  `json:"run"`
	Name   string  `json:"name"`
	Chunks []Chunk `json:"chunks"`
	First  uint64  `json:"first"` // index of the first retained chunk; 0 if no chunk is retained
	Last   uint64  `json:"last"`  // index of the last chunk that was written, even if it is not retained
	Ended  bool    `json:"ended"` // whether the stream is closed, so that no chunks follow
	// Next is the index of the first chunk of the next page. It is 0 if no chunk followed when the
	// page was read.
	Next uint64 `json:"next,omitempty"`
}

// Lag is the position at which a reader must continue if it cannot continue at its own position.
type Lag struct {
	Wanted uint64 `json:"wanted"` // number of the event or chunk that the reader needs next
	Next   uint64 `json:"next"`   // number of the event or chunk to continue with
}

// LagError ends an iteration over a stream or a log. If Next is greater than Wanted, the next
// entries are not retained. Otherwise the store has lost writes, so that entries before Wanted are
// missing. The reader should follow from Next.
type LagError struct {
	Run    string
	Stream string // name of the stream; empty for a log
	Lag
}

// Error names the stream or log, and the position to continue at.
func (e *LagError) Error() string {
	what := "the log"
	if e.Stream != "" {
		what = "stream " + e.Stream
	}
	if e.Next < e.Wanted {
		return fmt.Sprintf("%s of run %s has no %d, after which it was to continue: it continues with %d", what, e.Run, e.Wanted-1, e.Next)
	}
	return fmt.Sprintf("%s of run %s no longer stores %d: it continues with %d", what, e.Run, e.Wanted, e.Next)
}

// defaultChunks is the default number of chunks per page.
const defaultChunks = 256

// Streams returns a page of the streams that a run and its continuations have written to, sorted by
// name. It returns a problem with the code unsupported if the store cannot list streams. The result
// contains names and numbers, but no contents.
func (s *Service) Streams(ctx context.Context, ref string, f StreamFilter) (StreamList, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return StreamList{}, err
	}
	if err := checkPage("streams", f.Limit, 0, nil); err != nil {
		return StreamList{}, err
	}
	run, err := s.runID(ctx, ref)
	if err != nil {
		return StreamList{}, err
	}
	list := StreamList{Streams: []StreamState{}}
	for stream, err := range s.ops.Streams(ctx, run, f.After) {
		if err != nil {
			return StreamList{}, err
		}
		if n := len(list.Streams); n == cmp.Or(f.Limit, 100) {
			list.Next = list.Streams[n-1].Name
			break
		}
		list.Streams = append(list.Streams, StreamState{ID: stream.ID, Name: stream.Name, First: stream.First, Last: stream.Last, Ended: stream.Ended})
	}
	return list, nil
}

// Stream returns up to limit chunks of a stream, beginning with the first retained chunk whose
// index is at least from. A limit of 0 means 256, and the maximum is 1,000. Stream does not wait
// for further chunks. A stream that was never written to is empty.
func (s *Service) Stream(ctx context.Context, ref, name string, from uint64, limit int) (ChunkPage, error) {
	ref, err := s.ownStream(ctx, ref)
	if err != nil {
		return ChunkPage{}, err
	}
	if limit < 0 || limit > maxLimit {
		return ChunkPage{}, &InputError{What: fmt.Sprintf("a page of %d chunks", limit), Fix: fmt.Sprintf("request 1 to %d, and the next page by its number", maxLimit)}
	}
	if err := checkName("stream", name); err != nil {
		return ChunkPage{}, err
	}
	run, err := s.runID(ctx, ref)
	if err != nil {
		return ChunkPage{}, err
	}
	got, err := s.ops.StreamPage(ctx, run, name, from, cmp.Or(limit, defaultChunks))
	if err != nil {
		return ChunkPage{}, err
	}
	page := ChunkPage{Run: string(got.Run), Name: name, Chunks: make([]Chunk, len(got.Chunks)), First: got.First, Last: got.Last, Ended: got.Ended}
	for i := range got.Chunks {
		page.Chunks[i] = chunkOf(&got.Chunks[i])
	}
	if n := len(page.Chunks); n > 0 && page.Chunks[n-1].Index < page.Last {
		page.Next = page.Chunks[n-1].Index + 1
	}
	return page, nil
}

// FollowStream returns an iterator over the chunks of a stream, beginning with index from. 0 means
// the first retained chunk. FollowStream waits for further chunks until the stream is closed or the
// run and its continuations have ended. During an outage of the store it retries its reads. The
// error is a *LagError if the next chunk is not retained.
func (s *Service) FollowStream(ctx context.Context, ref, name string, from uint64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		ref, err := s.ownStream(ctx, ref)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		s.followStream(ctx, ref, name, from)(yield)
	}
}

// followStream is like [Service.FollowStream], but does not check the rights of the principal.
func (s *Service) followStream(ctx context.Context, ref, name string, from uint64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		err := checkName("stream", name)
		var h *workflow.Handle
		if err == nil {
			h, err = s.handle(ref)
		}
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		for c, err := range h.ReadStream(ctx, name, workflow.From(from)) {
			if lag, ok := errors.AsType[*workflow.LagError](err); ok {
				err = &LagError{Run: string(lag.Run), Stream: name, Lag: Lag{Wanted: lag.Wanted, Next: lag.Next}}
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			if !yield(chunkOf(&c), nil) {
				return
			}
		}
	}
}

func chunkOf(c *workflow.Chunk[Payload]) Chunk {
	return Chunk{Index: c.Index, Value: event.Shown(c.Value), Run: string(c.Run), Step: c.Step, Attempt: c.Attempt}
}
