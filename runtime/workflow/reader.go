package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// reader reads one stream published by a run. It waits out an outage of the store.
type reader struct {
	c      *Client
	run    RunID
	what   string // name of the data in errors
	stream string
}

// read returns a reader for a stream of the run that the handle currently addresses.
func (h *Handle) read(ctx context.Context, what, stream string) (*reader, error) {
	run, err := h.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return &reader{c: h.c, run: run, what: what, stream: stream}, nil
}

// wrap adds to an error what was read. Network stores may report the end of ctx as another error,
// so wrap replaces it.
func (r *reader) wrap(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		err = ended
	}
	return fmt.Errorf("read %s of run %s: %w", r.what, r.run, err)
}

// newest returns a page with the last chunk, if there is one.
func (r *reader) newest(ctx context.Context) (store.StreamPage, error) {
	return r.page(ctx, store.ReadStream{Tail: 1})
}

func (r *reader) page(ctx context.Context, want store.ReadStream) (store.StreamPage, error) {
	want.Run, want.Stream = r.run, r.stream
	var page store.StreamPage
	err := r.c.persist(ctx, "read "+r.what, func() (err error) {
		page, err = r.c.store.ReadStream(ctx, want)
		return err
	})
	if err != nil {
		return page, r.wrap(ctx, err)
	}
	return page, nil
}

// hear waits until the stream has a chunk after last, or no chunk will follow.
func (r *reader) hear(ctx context.Context, last uint64) error {
	return r.c.persist(ctx, "wait for "+r.what, func() error { return r.c.store.AwaitStream(ctx, r.run, r.stream, last) })
}

// await returns the last chunk of the stream once its index differs from seen (0: any chunk). It
// returns false if the run ends first.
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
