package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// StreamFilter selects a page of the streams of a run. The zero value selects the first 100.
type StreamFilter struct {
	After string `json:"after,omitempty"` // those whose names come after this one: a [StreamList] has that of the next page
	Limit int    `json:"limit,omitempty"` // of a page; 0: 100, at most 1,000
}

// StreamState is a stream as it stands.
type StreamState struct {
	ID    string `json:"id"` // strm_ and 26 characters; it never changes, and is that of the whole chain of runs
	Name  string `json:"name"`
	First uint64 `json:"first"` // chunk that is kept; 0: none is
	Last  uint64 `json:"last"`  // chunk that was written, kept or not
	Ended bool   `json:"ended"` // no chunk follows
}

// StreamList is a part of the streams of a run, by name.
type StreamList struct {
	Streams []StreamState `json:"streams"`
	Next    string        `json:"next,omitempty"` // the After of the next page; empty: there is none
}

// Chunk is one entry of a stream.
type Chunk struct {
	Index uint64  `json:"index"` // from 1
	Value Payload `json:"value"`
	// Run, Step and Attempt name the attempt of a step that has written it; empty: the code of the run has. The chunks of
	// an attempt that has failed stay.
	Run     string `json:"run,omitempty"`
	Step    string `json:"step,omitempty"` // its key
	Attempt int    `json:"attempt,omitempty"`
}

// ChunkPage is a part of a stream.
type ChunkPage struct {
	Run    string  `json:"run"`
	Name   string  `json:"name"`
	Chunks []Chunk `json:"chunks"`
	First  uint64  `json:"first"` // that is kept; 0: none is
	Last   uint64  `json:"last"`  // that was written, kept or not
	Ended  bool    `json:"ended"` // no chunk follows
	// Next is where the next page begins; 0: there was no more.
	Next uint64 `json:"next,omitempty"`
}

// Lag says where a reader has to go on that cannot go on where it was.
type Lag struct {
	Wanted uint64 `json:"wanted"` // the event or chunk that was next
	Next   uint64 `json:"next"`   // the one to go on with
}

// LagError ends the following of a stream or a log: what comes next is not kept any more (Next is greater than Wanted), or what
// was there before it is gone, since the store has lost writes. Follow from Next to go on.
type LagError struct {
	Run    string
	Stream string // empty: it is the log
	Lag
}

// Error names what was followed, and where to go on.
func (e *LagError) Error() string {
	what := "the log"
	if e.Stream != "" {
		what = "stream " + e.Stream
	}
	if e.Next < e.Wanted {
		return fmt.Sprintf("%s of run %s has no %d, after which it was to go on: it goes on with %d", what, e.Run, e.Wanted-1, e.Next)
	}
	return fmt.Sprintf("%s of run %s does not keep %d any more: it goes on with %d", what, e.Run, e.Wanted, e.Next)
}

// defaultChunks is how many chunks a page has if nobody says.
const defaultChunks = 256

// Streams returns a page of the streams to which a run, and what it has continued as, have written, by name. A store that
// cannot list them is the code unsupported.
// It says names and numbers, and nothing of what the streams carry.
func (s *Service) Streams(ctx context.Context, ref string, f StreamFilter) (StreamList, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return StreamList{}, err
	}
	if err := checkPage("streams", f.Limit, 0, nil); err != nil {
		return StreamList{}, err
	}
	h, err := s.handle(ref)
	if err != nil {
		return StreamList{}, err
	}
	list := StreamList{Streams: []StreamState{}}
	for s, err := range h.Streams(ctx, f.After) {
		if err != nil {
			return StreamList{}, err
		}
		if n := len(list.Streams); n == cmp.Or(f.Limit, 100) {
			list.Next = list.Streams[n-1].Name
			break
		}
		list.Streams = append(list.Streams, StreamState{ID: s.ID, Name: s.Name, First: s.First, Last: s.Last, Ended: s.Ended})
	}
	return list, nil
}

// Stream returns up to limit chunks of a stream, from the first on that is kept and has at least the number from; limit 0:
// 256, at most 1,000. It does not wait. A stream that nobody has written to is empty.
func (s *Service) Stream(ctx context.Context, ref, name string, from uint64, limit int) (ChunkPage, error) {
	ref, err := s.ownStream(ctx, ref)
	if err != nil {
		return ChunkPage{}, err
	}
	if limit < 0 || limit > maxLimit {
		return ChunkPage{}, &InputError{What: fmt.Sprintf("a page of %d chunks", limit), Fix: fmt.Sprintf("ask for 1 to %d, and for the next page by its number", maxLimit)}
	}
	if err := checkName("stream", name); err != nil {
		return ChunkPage{}, err
	}
	h, err := s.handle(ref)
	if err != nil {
		return ChunkPage{}, err
	}
	got, err := h.StreamPage(ctx, name, from, cmp.Or(limit, defaultChunks))
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

// FollowStream delivers the chunks of a stream from number from on (0: from the first that is kept), and waits for more until the
// stream was closed or the run, and what it has continued as, has ended. An outage of the store is waited for. The
// error is a *LagError if the next chunk is not kept any more.
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

// followStream is [Service.FollowStream] without the limits of the principal.
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
	return Chunk{Index: c.Index, Value: c.Value, Run: string(c.Run), Step: c.Step, Attempt: c.Attempt}
}
