package storetest

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// page reads a stream as text: its chunks, and how it stands.
func (h *harness) page(r store.ReadStream) (chunks []string, page store.StreamPage) {
	h.Helper()
	page, err := h.store.ReadStream(h.ctx, r)
	h.check("read stream", err)
	for i, c := range page.Chunks {
		if want := page.Chunks[0].Index + uint64(i); c.Index != want {
			h.Errorf("chunk %d of the page has index %d, want %d", i, c.Index, want)
		}
		chunks = append(chunks, string(c.Body))
	}
	page.Chunks = nil
	return chunks, page
}

// stream reads a whole stream.
func (h *harness) stream(run event.RunID, name string) []string {
	h.Helper()
	chunks, _ := h.page(store.ReadStream{Run: run, Stream: name})
	return chunks
}

// awaitStream blocks in the background.
func (h *harness) awaitStream(run event.RunID, name string, after uint64) *pending[struct{}] {
	return background(h, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.store.AwaitStream(ctx, run, name, after)
	})
}

// publishes returns a commit that also does something to streams.
func (l *Log) publishes(fence store.Fence, p ...store.Publication) store.Commit {
	c := l.Commit(fence, l.Work()...)
	c.Publish = p
	return c
}

var streamBehaviors = []behavior{
	{"CommitPublishesToStreams", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.commit(l, l.publishes(fence, store.Publication{Stream: "a", Body: []byte("1")}, store.Publication{Stream: "b", Body: []byte("2")}))
		h.commit(l, l.publishes(fence, store.Publication{Stream: "a", Body: []byte("3")}))
		h.equal("a", h.stream(l.Run, "a"), []string{"1", "3"})
		h.equal("b", h.stream(l.Run, "b"), []string{"2"})
	}},
}
