package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// chunkReader follows a stream.
type chunkReader struct {
	c    *Client
	run  RunID
	name string
	next uint64 // next chunk to deliver; 0: the first one kept
	tail int    // number of last chunks to begin with; negative: begin at next
	seen uint64 // all chunks up to this one have existed
	most int    // maximum number of chunks per page; 0: chosen by the store
}

var errTypesOfStream = errors.New("Types selects events: the chunks of a stream have none")

func (h *Handle) chunks(ctx context.Context, name string, opts []ReadOption) (*chunkReader, error) {
	var o readOptions
	for _, opt := range opts {
		opt(&o)
	}
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

// read delivers chunks until no more can follow or yield returns false.
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
		case r.next <= page.Last && len(page.Chunks) > 0: // more chunks exist
		case page.Closed || page.Ended:
			return nil
		default:
			err := r.c.persist(ctx, "follow stream", func() error {
				return r.c.store.AwaitStream(ctx, r.run, effects.UserStream(r.name), page.Last)
			})
			if err != nil {
				return err
			}
		}
	}
}

// page reads the next part of the stream.
func (r *chunkReader) page(ctx context.Context) (store.StreamPage, error) {
	ask := store.ReadStream{Run: r.run, Stream: effects.UserStream(r.name), From: r.next, Tail: max(r.tail, 0), Limit: r.most}
	if r.tail == 0 {
		ask.Limit = -1
	}
	var page store.StreamPage
	err := r.c.persist(ctx, "read stream", func() (err error) {
		page, err = r.c.store.ReadStream(ctx, ask)
		return err
	})
	if err != nil {
		return page, err
	}
	if r.tail >= 0 { // the position is now known
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
	case page.Last < r.seen: // later chunks with these numbers have other contents
		return &LagError{Run: r.run, Stream: r.name, Wanted: r.next, Next: page.Last + 1}
	case page.First > r.next:
		return &LagError{Run: r.run, Stream: r.name, Wanted: r.next, Next: page.First}
	}
	return nil
}

// persist repeats a request while the store does not answer; the request must be repeatable. It
// returns errors that a repetition would not change. During an outage the log gets one line, then
// further lines at growing intervals, and one line at the end, regardless of the number of waiting
// callers.
func (c *Client) persist(ctx context.Context, what string, ask func() error) error {
	for delay := persistFirst; ; delay = min(2*delay, persistMost) {
		err := c.check()
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
			return fmt.Errorf("%w: %w", ended, err) // a store may report a timeout of its own instead
		}
		c.outage.Note(ctx, what, err)
		if waited := c.pause(ctx, delay); waited != nil {
			return fmt.Errorf("%w; before that: %w", waited, err)
		}
	}
}

const (
	persistFirst = 10 * time.Millisecond
	persistMost  = time.Second
)

// final reports whether a repeated request would get the same answer.
func final(err error) bool {
	var version *event.VersionError
	for _, end := range []error{ErrRunNotFound, ErrRunTerminal, ErrClientClosed, store.ErrClosed, store.ErrForeign, event.ErrCorrupt, errors.ErrUnsupported} {
		if errors.Is(err, end) {
			return true
		}
	}
	if p, ok := errors.AsType[store.PermanentError](err); ok && p.Permanent() {
		return true
	}
	return errors.As(err, &version)
}
