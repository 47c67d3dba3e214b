package history

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/store"
)

// Streams in random histories.

var historyStreams = []string{"a", "b"}

// publication draws an operation on a stream.
func (h *history) publication(t *rapid.T) store.Publication {
	p := store.Publication{Stream: rapid.SampledFrom(historyStreams).Draw(t, "stream")}
	if chance(t, "body", 80) {
		p.Body = fmt.Append(nil, len(h.sent), rapid.IntRange(0, 9).Draw(t, "body"))
	}
	if chance(t, "keep", 20) {
		p.Keep = rapid.IntRange(1, 3).Draw(t, "kept")
	}
	return p
}

// publications draws the publications of a commit.
func (h *history) publications(t *rapid.T) []store.Publication {
	var all []store.Publication
	if !chance(t, "publishes", 50) {
		return nil
	}
	for range rapid.IntRange(1, 4).Draw(t, "publications") {
		p := h.publication(t)
		p.Drop, p.Close = chance(t, "drop", 8), chance(t, "close", 5)
		all = append(all, p)
	}
	return all
}

// drawPublish draws a call of Publish, like the calls that steps make.
func (h *history) drawPublish(t *rapid.T) {
	l := h.log(t, isOwned)
	fence := h.fence(t, l)
	var chunks []store.Publication
	for range rapid.IntRange(1, 3).Draw(t, "chunks") {
		p := h.publication(t)
		if chance(t, "writer", 80) {
			p.Writer, p.Nth = rapid.SampledFrom([]string{"v", "w"}).Draw(t, "writer"), rapid.Uint64Range(1, 6).Draw(t, "nth")
		}
		chunks = append(chunks, p)
	}
	h.request(t, func() {
		h.sameError("publish", h.Store.Publish(h.Ctx, l.Run, fence, chunks), h.m.publish(l.Run, fence, chunks))
	})
}

func (h *history) drawReadStream(t *rapid.T) {
	l := h.log(t, func(r *modelRun) bool { return len(h.m.streams[r.Chain]) > 0 })
	q := store.ReadStream{
		Run: l.Run, Stream: rapid.SampledFrom(historyStreams).Draw(t, "stream"),
		From: rapid.Uint64Range(0, 6).Draw(t, "from"), Limit: rapid.IntRange(-1, 3).Draw(t, "limit"),
	}
	if chance(t, "tail", 50) {
		q.Tail = rapid.IntRange(1, 3).Draw(t, "tail")
	}
	got, err := h.Store.ReadStream(h.Ctx, q)
	want, wantErr := h.m.readStream(q)
	h.sameError("read stream", err, wantErr)
	h.Equal("read stream", got, want)
	if wantErr == nil && q.From == want.Last && !want.Closed && !want.Ended {
		return // AwaitStream would block
	}
	h.sameError("await stream", h.Store.AwaitStream(h.Ctx, q.Run, q.Stream, q.From), wantErr)
}
