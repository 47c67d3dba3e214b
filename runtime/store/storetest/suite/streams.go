package suite

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Page reads a page of a stream. It returns the chunks as text, and the page without its chunks.
func (h *Harness) Page(r store.ReadStream) (chunks []string, page store.StreamPage) {
	h.Helper()
	page, err := h.Store.ReadStream(h.Ctx, r)
	h.Check("read stream", err)
	for i, c := range page.Chunks {
		if want := page.Chunks[0].Index + uint64(i); c.Index != want {
			h.Errorf("chunk %d of the page has index %d, want %d", i, c.Index, want)
		}
		chunks = append(chunks, string(c.Body))
	}
	page.Chunks = nil
	return chunks, page
}

// Stands fails the test unless a stream has the given chunks and the given state.
func (h *Harness) Stands(what string, run event.RunID, name string, chunks []string, want store.StreamPage) {
	h.Helper()
	got, page := h.Page(store.ReadStream{Run: run, Stream: name})
	h.Equal("chunks "+what, got, chunks)
	h.Equal("how the stream stands "+what, page, want)
}

// Publishes returns a commit of work with publications.
func (l *Log) Publishes(fence store.Fence, p ...store.Publication) store.Commit {
	c := l.Commit(fence, l.Work()...)
	c.Publish = p
	return c
}

// Publish commits publications to the stream named a.
func (h *Harness) Publish(l *Log, fence store.Fence, p ...store.Publication) {
	h.Helper()
	for i := range p {
		p[i].Stream = "a"
	}
	h.Commit(l, l.Publishes(fence, p...))
}

// Body returns a publication that appends one chunk to the stream named a.
func Body(text string) store.Publication { return store.Publication{Stream: "a", Body: []byte(text)} }

// Bodies returns publications that each append one chunk to the stream named a.
func Bodies(texts ...string) []store.Publication {
	var all []store.Publication
	for _, text := range texts {
		all = append(all, Body(text))
	}
	return all
}

// AwaitStream calls AwaitOnce in the background.
func (h *Harness) AwaitStream(run event.RunID, name string, after uint64) *Pending[store.StreamPage] {
	return Background(h, func(ctx context.Context) (store.StreamPage, error) { return h.AwaitOnce(ctx, run, name, after) })
}

// AwaitOnce blocks until the last chunk of a stream is not after, or the stream is closed, or its
// chain has ended. It returns the state of the stream without chunks. It repeats calls of the store
// that return early.
func (h *Harness) AwaitOnce(ctx context.Context, run event.RunID, name string, after uint64) (store.StreamPage, error) {
	for {
		page, err := h.Store.ReadStream(ctx, store.ReadStream{Run: run, Stream: name, Limit: -1})
		if err != nil || page.Last != after || page.Closed || page.Ended {
			return page, err
		}
		if err := h.Store.AwaitStream(ctx, run, name, after); err != nil {
			return store.StreamPage{}, err
		}
	}
}

// Awaited fails the test unless an AwaitStream returns the state want.
func (h *Harness) Awaited(what string, p *Pending[store.StreamPage], want store.StreamPage) {
	h.Helper()
	page, err := p.Result(h, "await stream "+what)
	h.Check("await stream "+what, err)
	h.Equal("how the stream stands "+what, page, want)
}

// Same fails the test unless the stream has the given chunks and state when it is read through each
// of the runs.
func (h *Harness) Same(what string, name string, chunks []string, want store.StreamPage, runs ...*Log) {
	h.Helper()
	for _, l := range runs {
		h.Stands(what, l.Run, name, chunks, want)
	}
}

// Leaves fails the test unless the store is empty except for leases and wakes.
func (h *Harness) Leaves() {
	h.Helper()
	got := h.Inspect()
	h.Equal("what is left", got, &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes})
}

// Side returns a chunk that a step appends to the stream named a. nth is the number of the chunk
// among those of writer.
func Side(text, writer string, nth uint64) store.Publication {
	return store.Publication{Stream: "a", Body: []byte(text), Writer: writer, Nth: nth}
}

// Write publishes chunks in the way of a step, and fails the test unless the store accepts them.
func (h *Harness) Write(l *Log, fence store.Fence, chunks ...store.Publication) {
	h.Helper()
	h.Check("publish", h.Store.Publish(h.Ctx, l.Run, fence, chunks))
}
