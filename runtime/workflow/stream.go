package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Stream is a name under which a run and its steps write chunks of one type, separate from its log,
// for any reader. Declare it once as a package variable and use it on both sides:
//
//	var Tokens = workflow.NewStream[string]("tokens")
//
// A stream belongs to a chain of runs: after continuing as new, a run writes to the same streams.
// It is kept as long as the first run of the chain. A rerun (see [Handle.Restart]) begins with
// empty streams; the chunks of the older run stay with that run.
type Stream[T any] struct{ s *stream }

type stream struct {
	name string
	keep int // number of chunks to keep; 0: all
}

// StreamOption determines how a stream is kept.
type StreamOption func(*streamOptions)

type streamOptions struct{ keep int }

// KeepLast keeps only the last n chunks: each write deletes older ones. It panics if n is less than
// 1.
func KeepLast(n int) StreamOption {
	if n < 1 {
		panic(fmt.Sprintf("workflow: KeepLast(%d): at least the last chunk is kept", n))
	}
	return func(o *streamOptions) { o.keep = n }
}

// NewStream returns the stream with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewStream panics if the name is empty or longer.
func NewStream[T any](name string, opts ...StreamOption) Stream[T] {
	checkName("NewStream", name)
	var o streamOptions
	for _, opt := range opts {
		opt(&o)
	}
	return Stream[T]{&stream{name: name, keep: o.keep}}
}

// Name returns the stream's name.
func (s Stream[T]) Name() string {
	if s.s == nil {
		return ""
	}
	return s.s.name
}

func (s Stream[T]) declared() *stream {
	if s.s == nil {
		panic(&replay.MisuseError{Text: "workflow: zero Stream: declare it with workflow.NewStream"})
	}
	return s.s
}

// Write adds a chunk, from workflow code. It does not wait: the chunk is published with the commit
// that records the write, and a replay writes nothing. Write also works on a context that has
// ended. A value that cannot be encoded or is too large ends the run with a *PayloadError. Write
// panics if the stream was closed by this run, by one of its steps, or by an earlier run of its
// chain.
func (s Stream[T]) Write(ctx Context, v T) {
	d := s.declared()
	b := ctx.branch()
	b.Gate(ctx.s)
	b.WriteStream(d.name, func() ([]byte, *event.Failure) {
		value, err := ctx.encode("chunk of stream "+d.name, v)
		if err != nil {
			return nil, failure.Encode(err, event.CodePayload)
		}
		batch := effects.Batch{Keep: d.keep, Bodies: [][]byte{effects.AppendChunk(nil, &effects.Chunk{Value: value})}}
		return batch.Encode(), nil
	})
}

// Close ends the stream for this run and all its continuations: readers reach its end. It also
// works on a context that has ended. Closing a closed stream does nothing. A stream that is never
// closed ends with the last run of the chain.
func (s Stream[T]) Close(ctx Context) {
	d := s.declared()
	b := ctx.branch()
	b.Gate(ctx.s)
	b.CloseStream(d.name)
}

// Chunk is one entry of a stream.
type Chunk[T any] struct {
	Index uint64 // counts from 1
	Value T
	// Run, Step and Attempt identify the attempt that wrote the chunk: the run to which the step
	// belongs, the key of the step as in [StepError.Key], and the number of the attempt. All are
	// zero for chunks written by workflow code. Chunks of failed attempts remain: if a chunk of the
	// same step has a higher attempt number, the earlier chunks belong to a failed attempt.
	Run     RunID
	Step    string
	Attempt int
}

// Read delivers the chunks of a stream of the run, or of its chain, in order, and waits for more
// until the stream is closed or the last run of the chain has ended. It begins with the first chunk
// that is kept, unless [From] or [FromEnd] is given. The iterator ends silently; an error is the
// last pair, with a zero Chunk. Breaking out of the loop releases all resources. A reader that
// starts late, or resumes with From, misses nothing; Read waits out an outage of the store.
//
// Errors: *LagError if the next chunk is not kept any more ([KeepLast]); a *PayloadError if a chunk
// is not a T, after which From can continue; ErrRunNotFound; the error of ctx.
func (s Stream[T]) Read(ctx context.Context, of Target, opts ...ReadOption) iter.Seq2[Chunk[T], error] {
	name := s.declared().name
	return func(yield func(Chunk[T], error) bool) {
		for raw, err := range of.target().ReadStream(ctx, name, opts...) {
			c := Chunk[T]{Index: raw.Index, Run: raw.Run, Step: raw.Step, Attempt: raw.Attempt}
			if err == nil {
				err = decode(fmt.Sprintf("chunk %d of stream %s", raw.Index, name), raw.Value, &c.Value)
			}
			if err != nil {
				yield(Chunk[T]{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// ReadStream is like [Stream.Read], for tools without the type of the stream: it delivers values in
// their stored form.
func (h *Handle) ReadStream(ctx context.Context, name string, opts ...ReadOption) iter.Seq2[Chunk[json.RawMessage], error] {
	return func(yield func(Chunk[json.RawMessage], error) bool) {
		r, err := h.chunks(ctx, name, opts)
		if err == nil {
			err = r.read(ctx, yield)
		}
		if err != nil {
			yield(Chunk[json.RawMessage]{}, fmt.Errorf("read stream %s: %w", name, err))
		}
	}
}

// StreamPage is a part of a stream, with the extent of the stream.
type StreamPage struct {
	Run    RunID
	Chunks []Chunk[json.RawMessage] // in order, without gaps; values are in their stored form
	// First is the index of the first kept chunk; 0: none is kept. Last is the index of the last
	// chunk written, even if it is not kept any more.
	First, Last uint64
	// Ended reports that no chunk will follow: the stream was closed, or the last run of the chain
	// has ended.
	Ended bool
}

// StreamPage returns up to limit chunks of a stream, beginning with the first kept chunk whose
// index is at least from. It does not wait for chunks, but waits out an outage of the store. limit
// must be positive. To bound its size, a page may have fewer chunks than exist, but at least one. A
// stream without writes is empty.
func (h *Handle) StreamPage(ctx context.Context, name string, from uint64, limit int) (StreamPage, error) {
	r, err := h.chunks(ctx, name, []ReadOption{From(from)})
	var page store.StreamPage
	if err == nil {
		r.most = limit
		page, err = r.page(ctx)
	}
	if err != nil {
		return StreamPage{}, fmt.Errorf("read stream %s: %w", name, err)
	}
	got := StreamPage{Run: r.run, First: page.First, Last: page.Last, Ended: page.Closed || page.Ended}
	for i := range page.Chunks {
		c, err := chunkOf(&page.Chunks[i])
		if err != nil {
			return StreamPage{}, fmt.Errorf("read stream %s: %w", name, err)
		}
		got.Chunks = append(got.Chunks, c)
	}
	return got, nil
}

// StreamInfo describes the current state of a stream of a run and its chain.
type StreamInfo struct {
	ID   string // strm_ and a ULID; the same for all runs of the chain
	Name string
	// First is the index of the first kept chunk; 0: none is kept. Last is the highest index
	// written.
	First, Last uint64
	// Ended reports that no chunk will follow: the stream was closed, or the last run of the chain
	// has ended.
	Ended bool
}

// Streams delivers the streams to which the runs of the chain have written, sorted by name,
// beginning with the first name greater than after. It waits out an outage of the store. The error
// matches [ErrNotSupported] if the store cannot list streams.
func (h *Handle) Streams(ctx context.Context, after string) iter.Seq2[StreamInfo, error] {
	return func(yield func(StreamInfo, error) bool) {
		if err := h.streams(ctx, after, yield); err != nil {
			yield(StreamInfo{}, fmt.Errorf("list streams: %w", err))
		}
	}
}

func (h *Handle) streams(ctx context.Context, after string, yield func(StreamInfo, error) bool) error {
	lister, ok := store.As[store.StreamLister](h.c.store)
	if !ok {
		return ErrNotSupported
	}
	id, err := h.find(ctx)
	if err != nil {
		return err
	}
	l, err := h.c.load(ctx, store.Load{Run: id, Limit: 1})
	if err != nil {
		return err
	}
	var kept []string
	err = h.c.persist(ctx, "list streams", func() (err error) {
		kept, err = lister.StreamNames(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	for _, one := range kept {
		name, is := effects.NameOfStream(one)
		if !is || name <= after {
			continue
		}
		var page store.StreamPage
		err := h.c.persist(ctx, "read stream", func() (err error) {
			page, err = h.c.store.ReadStream(ctx, store.ReadStream{Run: id, Stream: one, Tail: 1})
			return err
		})
		if err != nil {
			return err
		}
		if !yield(StreamInfo{ID: event.StreamID(l.Record.Chain, name), Name: name, First: page.First, Last: page.Last, Ended: page.Closed || page.Ended}, nil) {
			return nil
		}
	}
	return nil
}

// chunkOf decodes a stored chunk.
func chunkOf(stored *store.Chunk) (Chunk[json.RawMessage], error) {
	c, err := effects.DecodeChunk(stored.Body)
	if err != nil {
		return Chunk[json.RawMessage]{}, fmt.Errorf("chunk %d: %w", stored.Index, err)
	}
	return Chunk[json.RawMessage]{Index: stored.Index, Value: c.Value, Run: c.Run, Step: c.Key, Attempt: c.Attempt}, nil
}
