package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// Stream is a named sequence of chunks of type T that a run and its steps write. It is separate
// from the log, and any client can read it. Declare a Stream once as a package variable, and use it
// in workflow code, steps and readers:
//
//	var Tokens = workflow.NewStream[string]("tokens")
//
// A stream belongs to a chain of runs: a run that continues others writes to the same streams. The
// stream is kept as long as the first run of the chain. A rerun (see [Handle.Restart]) begins with
// empty streams. The chunks of the older run stay with that run.
type Stream[T any] flow.Stream

// StreamOption determines how many chunks of a stream are kept.
type StreamOption func(*streamOptions)

type streamOptions struct{ keep int }

// KeepLast keeps only the last n chunks. Each write deletes older ones. KeepLast panics if n is
// less than 1.
func KeepLast(n int) StreamOption {
	if n < 1 {
		panic(fmt.Sprintf("workflow: KeepLast(%d): at least the last chunk is kept", n))
	}
	return func(o *streamOptions) { o.keep = n }
}

// NewStream returns the stream with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewStream panics if the name is empty or longer than that.
func NewStream[T any](name string, opts ...StreamOption) Stream[T] {
	checkName("NewStream", name)
	return Stream[T](flow.NewStream(&flow.StreamSpec{Name: name, Keep: optionsOf(opts).keep}))
}

// Name returns the name of the stream.
func (s Stream[T]) Name() string { return flow.Stream(s).Name() }

func (s Stream[T]) declared() *flow.StreamSpec { return flow.Stream(s).Spec() }

// Write adds a chunk from workflow code. It does not wait. The commit that records the write
// publishes the chunk, and a replay writes nothing. Write has an effect even if ctx has ended. If
// the value cannot be encoded or is too large, the run ends with a *PayloadError. Write panics if
// this run, one of its steps or an earlier run of its chain has closed the stream.
func (s Stream[T]) Write(ctx Context, v T) {
	d := s.declared()
	ctx.gate().WriteStream(d.Name, func() ([]byte, *event.Failure) {
		value, err := ctx.encode("chunk of stream "+d.Name, v)
		if err != nil {
			return nil, failure.Encode(err, event.CodePayload)
		}
		batch := effects.Batch{Keep: d.Keep, Bodies: [][]byte{effects.AppendChunk(nil, &effects.Chunk{Value: value})}}
		return batch.Encode(), nil
	})
}

// Close closes the stream for this run and all its continuations, so that readers reach its end. It
// has an effect even if ctx has ended. Closing a closed stream does nothing. A stream that is never
// closed ends with the last run of the chain.
func (s Stream[T]) Close(ctx Context) {
	d := s.declared()
	ctx.gate().CloseStream(d.Name)
}

// Chunk is one entry of a stream.
type Chunk[T any] struct {
	Index uint64 // number of the chunk, from 1
	Value T
	// Run, Step and Attempt identify the attempt that wrote the chunk: the run to which the step
	// belongs, the key of the step as in [StepError.Key], and the number of the attempt. All are
	// zero if workflow code wrote the chunk. Chunks of failed attempts remain. If a later chunk of
	// the same step has a higher attempt number, the earlier chunks belong to an attempt that did
	// not complete.
	Run     RunID
	Step    string
	Attempt int
}

// Read returns an iterator over the chunks of a stream of the run, or of its chain, in order. It
// waits for more chunks until the stream is closed or the last run of the chain has ended. It
// begins with the first chunk that is kept, unless [From] or [FromEnd] is given. The end of the
// stream is not an error. If an error occurs, it is in the last pair, with a zero Chunk. Breaking
// out of the loop releases all resources. A reader that starts late, or resumes with From, misses
// no chunk. During an outage of the store, Read waits.
//
// Errors: *LagError if the next chunk was deleted because of [KeepLast]; a *PayloadError if a chunk
// cannot be decoded as a T, after which the caller can continue with From; ErrRunNotFound; or the
// error of ctx.
func (s Stream[T]) Read(ctx context.Context, of Target, opts ...ReadOption) iter.Seq2[Chunk[T], error] {
	name := s.declared().Name
	return func(yield func(Chunk[T], error) bool) {
		for raw, err := range of.target().ReadStream(ctx, name, opts...) {
			var c Chunk[T]
			if err == nil {
				c, err = s.decode(&raw)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// decode decodes a chunk of the stream. If it returns an error, the chunk is zero.
func (s Stream[T]) decode(raw *Chunk[json.RawMessage]) (c Chunk[T], err error) {
	if err = flow.Decode(fmt.Sprintf("chunk %d of stream %s", raw.Index, s.Name()), raw.Value, &c.Value); err != nil {
		return Chunk[T]{}, err
	}
	c.Index, c.Run, c.Step, c.Attempt = raw.Index, raw.Run, raw.Step, raw.Attempt
	return c, nil
}

// ReadStream is like [Stream.Read], for programs that do not have the type of the stream. It
// returns values in their stored form.
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

// chunkOf decodes a stored chunk.
func chunkOf(stored *store.Chunk) (Chunk[json.RawMessage], error) {
	err := event.CheckOpen(stored.Body)
	var c effects.Chunk
	if err == nil {
		c, err = effects.DecodeChunk(stored.Body)
	}
	if err != nil {
		return Chunk[json.RawMessage]{}, fmt.Errorf("chunk %d: %w", stored.Index, err)
	}
	return Chunk[json.RawMessage]{Index: stored.Index, Value: c.Value, Run: c.Run, Step: c.Key, Attempt: c.Attempt}, nil
}

// chunkReader reads a stream from a position on.
type chunkReader struct {
	c    *client
	run  RunID
	name string
	next uint64 // number of the next chunk to return; 0: the first chunk that is kept
	tail int    // number of last chunks to begin with; negative: begin with chunk number next
	seen uint64 // number of the last chunk that is known to have existed
}

var errTypesOfStream = errors.New("Types selects events: the chunks of a stream have none")

func (h *Handle) chunks(ctx context.Context, name string, opts []ReadOption) (*chunkReader, error) {
	o := optionsOf(opts)
	if len(o.types) > 0 {
		return nil, errTypesOfStream
	}
	if name == "" {
		return nil, errors.New("the stream has no name")
	}
	if err := store.CheckStreamName(effects.UserStream(name)); err != nil {
		return nil, err
	}
	id, err := h.find(ctx)
	r := &chunkReader{c: h.c, run: id, name: name, next: o.from, tail: -1}
	if o.tail {
		r.tail = int(o.fromEnd)
	}
	return r, err
}

// read calls yield for each chunk until no more can follow or yield returns false.
func (r *chunkReader) read(ctx context.Context, yield func(Chunk[json.RawMessage], error) bool) error {
	for {
		page, err := r.page(ctx)
		if err != nil {
			return err
		}
		if err := r.lag(page); err != nil {
			return err
		}
		for i := range page.Chunks {
			c, err := chunkOf(&page.Chunks[i])
			if err != nil {
				return err
			}
			r.seen, r.next = c.Index, c.Index+1
			if !yield(c, nil) {
				return nil
			}
		}
		switch {
		case r.next <= page.Last && len(page.Chunks) > 0: // the page was cut, so more chunks exist
		case page.Closed || page.Ended:
			return nil
		default:
			follow := func() error { return r.c.store.AwaitStream(ctx, r.run, effects.UserStream(r.name), page.Last) }
			if err := r.c.Persist(ctx, "follow stream", follow); err != nil {
				return err
			}
		}
	}
}

// page reads the next part of the stream.
func (r *chunkReader) page(ctx context.Context) (store.StreamPage, error) {
	ask := store.ReadStream{Run: r.run, Stream: effects.UserStream(r.name), From: r.next, Tail: max(r.tail, 0)}
	if r.tail == 0 {
		ask.Limit = -1
	}
	page, err := persist(ctx, r.c, "read stream", func() (store.StreamPage, error) { return r.c.store.ReadStream(ctx, ask) })
	if err != nil {
		return page, err
	}
	if r.tail >= 0 { // the page determines the position of its first chunk
		r.tail, r.next = -1, page.Last+1
		if len(page.Chunks) > 0 {
			r.next = page.Chunks[0].Index
		}
		r.seen = r.next - 1
	}
	if r.next == 0 {
		r.next = max(page.First, 1)
	}
	return page, nil
}

// lag returns a *LagError if a page does not continue at the expected chunk.
func (r *chunkReader) lag(page store.StreamPage) error {
	switch {
	case page.Last < r.seen: // the store has lost writes, and later chunks with these numbers have other contents
		return &LagError{Run: r.run, Stream: r.name, Wanted: r.next, Next: page.Last + 1}
	case page.First > r.next:
		return &LagError{Run: r.run, Stream: r.name, Wanted: r.next, Next: page.First}
	}
	return nil
}

// Persist repeats a request while the store does not respond. It returns errors that a repetition
// would not change. A repeated request must have the same effect as a single one. During an outage
// the client logs one line at the beginning, further lines at growing intervals, and one line at
// the end, regardless of the number of waiting callers.
func (c *client) Persist(ctx context.Context, what string, ask func() error) error {
	for delay := persistFirst; ; delay = min(2*delay, persistMost) {
		err := c.Check()
		if err == nil {
			err = ask()
		}
		if err == nil || final(err) {
			c.outage.Note(ctx, what, nil)
			return err
		}
		if ended := ctx.Err(); ended != nil {
			if errors.Is(err, ended) {
				return err
			}
			return fmt.Errorf("%w: %w", ended, err) // a store may report the timeout as an error of its own
		}
		c.outage.Note(ctx, what, err)
		if waited := c.pause(ctx, delay); waited != nil {
			return fmt.Errorf("%w; before that: %w", waited, err)
		}
	}
}

// persist is like [client.Persist], for a request that has a result.
func persist[T any](ctx context.Context, c *client, what string, ask func() (T, error)) (result T, err error) {
	err = c.Persist(ctx, what, func() (err error) {
		result, err = ask()
		return err
	})
	return result, err
}

const (
	persistFirst = 10 * time.Millisecond
	persistMost  = time.Second
)

// final reports whether a repeated request would fail with the same error.
func final(err error) bool {
	ends := []error{ErrRunNotFound, ErrRunTerminal, ErrClientClosed, store.ErrClosed, store.ErrForeign, event.ErrCorrupt, errors.ErrUnsupported}
	if slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
		return true
	}
	p, ok := errors.AsType[store.PermanentError](err)
	return ok && p.Permanent() || errors.As(err, new(*event.VersionError))
}

// reader reads one stream that a run has published. During an outage of the store it waits.
type reader struct {
	c      *client
	run    RunID
	what   string // description of the data, for errors
	stream string
}

// read returns a reader for a stream of the run to which the handle currently refers.
func (h *Handle) read(ctx context.Context, what, stream string) (*reader, error) {
	run, err := h.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return &reader{c: h.c, run: run, what: what, stream: stream}, nil
}

// wrap adds a description of the data to an error. Network stores may report the end of ctx as
// another error, so wrap adds the error of ctx.
func (r *reader) wrap(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		err = ended
	}
	return fmt.Errorf("read %s of run %s: %w", r.what, r.run, err)
}

// newest returns a page that contains the last chunk, if there is one.
func (r *reader) newest(ctx context.Context) (store.StreamPage, error) {
	return r.page(ctx, store.ReadStream{Tail: 1})
}

func (r *reader) page(ctx context.Context, want store.ReadStream) (store.StreamPage, error) {
	want.Run, want.Stream = r.run, r.stream
	page, err := persist(ctx, r.c, "read "+r.what, func() (store.StreamPage, error) { return r.c.store.ReadStream(ctx, want) })
	if err != nil {
		return page, r.wrap(ctx, err)
	}
	return page, nil
}

// hear waits until the stream has a chunk after number last, or until no chunk can follow.
func (r *reader) hear(ctx context.Context, last uint64) error {
	return r.c.Persist(ctx, "wait for "+r.what, func() error { return r.c.store.AwaitStream(ctx, r.run, r.stream, last) })
}

// await waits for a last chunk whose index differs from seen, and returns it. If seen is 0, it
// waits for any chunk. ok is false if the run ends first.
func (r *reader) await(ctx context.Context, seen uint64) (store.Chunk, bool, error) {
	for {
		page, err := r.newest(ctx)
		switch {
		case err != nil:
			return store.Chunk{}, false, err
		case len(page.Chunks) > 0 && page.Chunks[0].Index != seen:
			return page.Chunks[0], true, nil
		case page.Ended:
			return store.Chunk{}, false, nil
		}
		if err := r.hear(ctx, page.Last); err != nil {
			return store.Chunk{}, false, r.wrap(ctx, err)
		}
	}
}
