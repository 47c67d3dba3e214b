package streams

import (
	"bytes"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// streamPageBehaviors test ReadStream, which returns pages of a stream.
var streamPageBehaviors = []behavior{
	{"ReadStreamReturnsThePartThatIsAskedFor", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Bodies(numbered(1, 10)...)...)
		for _, tt := range []struct {
			read        store.ReadStream
			first, last int
		}{
			{store.ReadStream{}, 1, 10},
			{store.ReadStream{From: 1}, 1, 10},
			{store.ReadStream{From: 4}, 4, 10},
			{store.ReadStream{From: 10}, 10, 10},
			{store.ReadStream{From: 11}, 1, 0},
			{store.ReadStream{From: 1 << 62}, 1, 0},
			{store.ReadStream{From: 4, Limit: 3}, 4, 6},
			{store.ReadStream{From: 9, Limit: 3}, 9, 10},
			{store.ReadStream{Limit: 1}, 1, 1},
			{store.ReadStream{Limit: -1}, 1, 0},
			{store.ReadStream{From: 3, Limit: -5}, 1, 0},
			{store.ReadStream{Tail: 3}, 8, 10},
			{store.ReadStream{Tail: 1}, 10, 10},
			{store.ReadStream{Tail: 10}, 1, 10},
			{store.ReadStream{Tail: 11}, 1, 10},
			{store.ReadStream{Tail: 1 << 40}, 1, 10},
			{store.ReadStream{Tail: 3, From: 2}, 8, 10},
			{store.ReadStream{Tail: 5, Limit: 2}, 6, 7},
			{store.ReadStream{Tail: 5, Limit: -1}, 1, 0},
			{store.ReadStream{Tail: -1, From: 7}, 7, 10},
		} {
			tt.read.Run, tt.read.Stream = l.Run, "a"
			chunks, page := h.Page(tt.read)
			what := fmt.Sprintf("from %d, tail %d, limit %d", tt.read.From, tt.read.Tail, tt.read.Limit)
			h.Equal("chunks "+what, chunks, numbered(tt.first, tt.last))
			h.Equal("page "+what, page, store.StreamPage{First: 1, Last: 10})
		}
	}},
	{"ReadStreamLeavesOutWhatIsNotKept", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, append(suite.Bodies(numbered(1, 10)...), store.Publication{Keep: 4})...)
		for _, tt := range []struct {
			read        store.ReadStream
			first, last int
		}{
			{store.ReadStream{}, 7, 10},
			{store.ReadStream{From: 3}, 7, 10},
			{store.ReadStream{From: 3, Limit: 2}, 7, 8},
			{store.ReadStream{From: 8, Limit: 2}, 8, 9},
			{store.ReadStream{Tail: 9}, 7, 10},
			{store.ReadStream{Tail: 9, Limit: 3}, 7, 9},
			{store.ReadStream{Tail: 2}, 9, 10},
		} {
			tt.read.Run, tt.read.Stream = l.Run, "a"
			chunks, page := h.Page(tt.read)
			what := fmt.Sprintf("from %d, tail %d, limit %d", tt.read.From, tt.read.Tail, tt.read.Limit)
			h.Equal("chunks "+what, chunks, numbered(tt.first, tt.last))
			h.Equal("page "+what, page, store.StreamPage{First: 7, Last: 10})
		}
	}},
	{"APageHas256ChunksUnlessAsked", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Bodies(numbered(1, 300)...)...)
		h.Equal("chunks", h.stream(l.Run, "a"), numbered(1, 256))
		chunks, _ := h.Page(store.ReadStream{Run: l.Run, Stream: "a", From: 257})
		h.Equal("chunks of the next page", chunks, numbered(257, 300))
		chunks, _ = h.Page(store.ReadStream{Run: l.Run, Stream: "a", Limit: 1000})
		h.Equal("chunks of a long page", chunks, numbered(1, 300))
		chunks, _ = h.Page(store.ReadStream{Run: l.Run, Stream: "a", Tail: 290})
		h.Equal("chunks of the tail", chunks, numbered(11, 266))
	}},
	{"TenThousandChunksAreReadPageByPage", func(h *harness) {
		const chunks = 10_000
		l, fence := h.StartOwned(h.Session())
		for n := 0; n < chunks; n += 1000 {
			var batch []store.Publication
			for i := range 1000 {
				batch = append(batch, store.Publication{Stream: "a", Body: fmt.Append(nil, n+i+1), Writer: "w", Nth: uint64(n + i + 1)})
			}
			h.Check("publish", h.Store.Publish(h.Ctx, l.Run, fence, batch))
		}
		var got []string
		for from := uint64(1); ; {
			page, state := h.Page(store.ReadStream{Run: l.Run, Stream: "a", From: from, Limit: 700})
			h.Equal("how the stream stands", state, store.StreamPage{First: 1, Last: chunks})
			if len(page) == 0 {
				break
			}
			got, from = append(got, page...), from+uint64(len(page))
		}
		h.Equal("chunks", got, numbered(1, chunks))
	}},
	{"ChunksMayBeLarge", func(h *harness) {
		const size, count = 1 << 20, 12
		l, fence := h.StartOwned(h.Session())
		for n := range byte(count) {
			p := store.Publication{Stream: "a", Body: bytes.Repeat([]byte{n}, size), Writer: "w", Nth: uint64(n) + 1}
			h.Check("publish", h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{p}))
		}
		var got [][]byte
		for from := uint64(1); from <= count; {
			page, err := h.Store.ReadStream(h.Ctx, store.ReadStream{Run: l.Run, Stream: "a", From: from})
			h.Check("read stream", err)
			if len(page.Chunks) == 0 || page.Chunks[0].Index != from {
				h.Fatalf("page from %d: got %d chunks, which do not begin there", from, len(page.Chunks))
			}
			for _, c := range page.Chunks {
				got, from = append(got, c.Body), c.Index+1
			}
		}
		for n, b := range got {
			if !bytes.Equal(b, bytes.Repeat([]byte{byte(n)}, size)) {
				h.Fatalf("chunk %d: got %d bytes, which are not what was written", n+1, len(b))
			}
		}
		tail, page := h.Page(store.ReadStream{Run: l.Run, Stream: "a", Tail: 1})
		h.Equal("how the stream stands", page, store.StreamPage{First: 1, Last: count})
		h.Equal("last chunk", []byte(tail[0]), bytes.Repeat([]byte{count - 1}, size))
	}},
}
