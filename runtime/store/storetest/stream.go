package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Page reads a stream. It returns its chunks as text, and the page without the chunks.
func (h *harness) Page(r store.ReadStream) (chunks []string, page store.StreamPage) {
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

// stream reads the first page of a stream.
func (h *harness) stream(run event.RunID, name string) []string {
	h.Helper()
	chunks, _ := h.Page(store.ReadStream{Run: run, Stream: name})
	return chunks
}

// Stands fails the test unless a stream has these chunks and this state.
func (h *harness) Stands(what string, run event.RunID, name string, chunks []string, want store.StreamPage) {
	h.Helper()
	got, page := h.Page(store.ReadStream{Run: run, Stream: name})
	h.Equal("chunks "+what, got, chunks)
	h.Equal("how the stream stands "+what, page, want)
}

// Publishes returns a commit with these publications.
func (l *Log) Publishes(fence store.Fence, p ...store.Publication) store.Commit {
	c := l.Commit(fence, l.Work()...)
	c.Publish = p
	return c
}

// Publish commits publications to the stream a.
func (h *harness) Publish(l *Log, fence store.Fence, p ...store.Publication) {
	h.Helper()
	for i := range p {
		p[i].Stream = "a"
	}
	h.Commit(l, l.Publishes(fence, p...))
}

// Body returns a publication that appends a chunk to the stream a.
func Body(text string) store.Publication { return store.Publication{Stream: "a", Body: []byte(text)} }

// Bodies returns publications that append chunks to the stream a.
func Bodies(texts ...string) []store.Publication {
	var all []store.Publication
	for _, text := range texts {
		all = append(all, Body(text))
	}
	return all
}

// numbered returns the texts of the chunks from first to last. The text of a chunk is its index.
func numbered(first, last int) []string {
	var all []string
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

// streamBehaviors test the publications of commits.
var streamBehaviors = []behavior{
	{"CommitPublishesToStreams", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Commit(l, l.Publishes(fence, store.Publication{Stream: "a", Body: []byte("1")}, store.Publication{Stream: "b", Body: []byte("2")}))
		h.Commit(l, l.Publishes(fence, store.Publication{Stream: "a", Body: []byte("3")}))
		h.Equal("a", h.stream(l.Run, "a"), []string{"1", "3"})
		h.Equal("b", h.stream(l.Run, "b"), []string{"2"})
		h.Stands("of a", l.Run, "a", []string{"1", "3"}, store.StreamPage{First: 1, Last: 2})
	}},
	{"AStreamThatNobodyHasWrittenToIsEmpty", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Stands("before all", l.Run, "a", nil, store.StreamPage{})
		h.Publish(l, fence, Body("1"))
		h.Stands("of another stream", l.Run, "b", nil, store.StreamPage{})
		h.Publish(l, fence, store.Publication{Keep: 3})
		other := h.Start()
		h.Stands("of another run", other.Run, "a", nil, store.StreamPage{})
		h.Unchanged("keep of an empty stream", func() {
			h.Equal("streams", h.Inspect().Streams, map[event.RunID]map[string]store.StreamState{
				l.Run: {"a": {Chunks: []store.Chunk{{Index: 1, Body: []byte("1")}}, Last: 1}},
			})
		})
	}},
	{"AChunkMayBeEmpty", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, Body(""), store.Publication{}, Body("x"), store.Publication{Body: []byte{}})
		h.Stands("", l.Run, "a", []string{"", "x", ""}, store.StreamPage{First: 1, Last: 3})
	}},
	{"PublicationsDropThenAppendThenTrimThenClose", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, Bodies("1", "2", "3")...)
		h.Publish(l, fence, store.Publication{Body: []byte("4"), Keep: 2})
		h.Stands("after keep", l.Run, "a", []string{"3", "4"}, store.StreamPage{First: 3, Last: 4})
		h.Publish(l, fence, store.Publication{Keep: 1})
		h.Stands("after keep alone", l.Run, "a", []string{"4"}, store.StreamPage{First: 4, Last: 4})
		h.Publish(l, fence, store.Publication{Keep: 5})
		h.Stands("after keep of more than there are", l.Run, "a", []string{"4"}, store.StreamPage{First: 4, Last: 4})
		h.Publish(l, fence, store.Publication{Body: []byte("5"), Close: true})
		h.Stands("after close", l.Run, "a", []string{"4", "5"}, store.StreamPage{First: 4, Last: 5, Closed: true})
		h.Publish(l, fence, store.Publication{Drop: true, Body: []byte("6")})
		h.Stands("after drop and append", l.Run, "a", []string{"6"}, store.StreamPage{First: 1, Last: 1})
		h.Publish(l, fence, store.Publication{Drop: true, Body: []byte("7"), Keep: 1, Close: true})
		h.Stands("after all at once", l.Run, "a", []string{"7"}, store.StreamPage{First: 1, Last: 1, Closed: true})
		h.Publish(l, fence, store.Publication{Drop: true, Close: true})
		h.Stands("after drop and close", l.Run, "a", nil, store.StreamPage{Closed: true})
		h.Publish(l, fence, store.Publication{Drop: true})
		h.Stands("after drop", l.Run, "a", nil, store.StreamPage{})
		h.Equal("streams", h.Inspect().Streams, map[event.RunID]map[string]store.StreamState(nil))
		h.Publish(l, fence, store.Publication{Drop: true})
		h.Publish(l, fence, Body("8"))
		h.Stands("after a drop of nothing", l.Run, "a", []string{"8"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"ACommitPublishesInItsOrder", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, Body("lost"), store.Publication{Drop: true}, Body("1"), Body("2"), store.Publication{Keep: 1}, Body("3"),
			store.Publication{Close: true}, Body("too late"))
		h.Stands("", l.Run, "a", []string{"2", "3"}, store.StreamPage{First: 2, Last: 3, Closed: true})
	}},
	{"ACommitAppendsNothingToAClosedStream", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, append(Bodies("1", "2", "3"), store.Publication{Close: true})...)
		h.Publish(l, fence, Body("4"), store.Publication{Close: true})
		h.Stands("after an append", l.Run, "a", []string{"1", "2", "3"}, store.StreamPage{First: 1, Last: 3, Closed: true})
		h.Publish(l, fence, store.Publication{Keep: 2})
		h.Stands("after keep", l.Run, "a", []string{"2", "3"}, store.StreamPage{First: 2, Last: 3, Closed: true})
	}},
	{"AClosedStreamWithoutChunksIsClosed", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, store.Publication{Close: true})
		h.Stands("", l.Run, "a", nil, store.StreamPage{Closed: true})
	}},
	{"W3_TheSameCommitPublishesOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Publishes(fence, Body("1"))
		want := h.Commit(l, c)
		h.Unchanged("the same commit", func() { h.Equal("answer", h.Try(c), want) })
		end := WithEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		end.Publish = Bodies("2")
		want = h.Commit(l, end)
		h.Unchanged("the same end", func() { h.Equal("answer", h.Try(end), want) })
		h.Stands("", l.Run, "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true})
	}},
	{"ACommitThatIsRefusedPublishesNothing", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, Body("1"))
		h.Deliver(l.Run)
		h.Unchanged("commits that are refused", func() {
			c := l.Publishes(store.Fence{Epoch: fence.Epoch}, Body("2"))
			h.Is("commit under a wrong token", h.Try(c).Err, store.ErrFenced)
			c = l.Publishes(fence, store.Publication{Stream: "a", Drop: true})
			c.Prev = h.IDs.CommitID()
			h.Conflicts("commit behind another frame", c)
			c = WithEffect(l.Publishes(fence, Body("2")), store.EffectPark, "")
			h.Is("park with unread items", h.Try(c).Err, store.ErrUnread)
		})
	}},
	{"ACommitPublishesWithEveryEffect", func(h *harness) {
		s := h.Session()
		for effect, name := range map[store.Effect]string{store.EffectPark: "park", store.EffectYield: "yield", store.EffectBlock: "block", store.EffectFinish: "finish"} {
			l, fence := h.StartOwnedAs(s, Refunds)
			events, status := l.Work(), event.StatusRunning
			if effect == store.EffectFinish {
				events, status = l.End(event.StatusFailed), event.StatusFailed
			}
			c := WithEffect(l.Commit(fence, events...), effect, status)
			c.Publish = Bodies(name)
			h.Commit(l, c)
			h.Stands("after "+name, l.Run, "a", []string{name}, store.StreamPage{First: 1, Last: 1, Ended: effect == store.EffectFinish})
			if effect == store.EffectYield {
				h.Claim(s, 1, Refunds)
			}
		}
		h.Equal("streams", len(h.Inspect().Streams), 4)
	}},
	{"CommitsOfOneCallPublishEachToItsRun", func(h *harness) {
		s := h.Session()
		var commits []store.Commit
		var logs []*Log
		for n := range 5 {
			l, fence := h.StartOwned(s)
			logs, commits = append(logs, l), append(commits, l.Publishes(fence, Bodies(numbered(1, n)...)...))
		}
		answers, err := h.Store.Commit(h.Ctx, commits)
		h.Check("commit", err)
		for n, a := range answers {
			h.Check("commit", a.Err)
			h.Equal("chunks", h.stream(logs[n].Run, "a"), numbered(1, n))
		}
	}},
	{"PublicationsThatSayNonsenseFailTheCall", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Unchanged("calls that say nonsense", func() {
			for what, p := range map[string]store.Publication{
				"no name":               {Body: []byte("x")},
				"a name that is long":   {Stream: strings.Repeat("n", store.MaxStreamName+1), Body: []byte("x")},
				"fewer than no chunks":  {Stream: "a", Keep: -1},
				"a writer":              {Stream: "a", Body: []byte("x"), Writer: "w", Nth: 1},
				"the number of a chunk": {Stream: "a", Body: []byte("x"), Nth: 1},
			} {
				if answers, err := h.Store.Commit(h.Ctx, []store.Commit{l.Publishes(fence, Body("1"), p)}); err == nil {
					h.Fatalf("commit with %s: got %+v, want an error", what, answers)
				}
			}
			bare := l.Commit(fence)
			bare.Publish = Bodies("1")
			if answers, err := h.Store.Commit(h.Ctx, []store.Commit{bare}); err == nil {
				h.Fatalf("commit without a frame: got %+v, want an error", answers)
			}
			for what, p := range map[string]store.Publication{
				"no name":              {Body: []byte("x")},
				"a name that is long":  {Stream: strings.Repeat("n", store.MaxStreamName+1), Body: []byte("x")},
				"fewer than no chunks": {Stream: "a", Keep: -1},
				"chunk 0 of a writer":  {Stream: "a", Body: []byte("x"), Writer: "w"},
				"a close":              {Stream: "a", Body: []byte("x"), Close: true},
				"a drop":               {Stream: "a", Body: []byte("x"), Drop: true},
			} {
				if err := h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{Body("1"), p}); err == nil {
					h.Fatalf("publish with %s: got no error", what)
				}
			}
			for _, name := range []string{"", strings.Repeat("n", store.MaxStreamName+1)} {
				if _, err := h.Store.ReadStream(h.Ctx, store.ReadStream{Run: l.Run, Stream: name}); err == nil {
					h.Fatalf("read of a stream whose name has %d bytes: got no error", len(name))
				}
				if err := h.Store.AwaitStream(h.Ctx, l.Run, name, 1); err == nil {
					h.Fatalf("await of a stream whose name has %d bytes: got no error", len(name))
				}
			}
		})
	}},
	{"AnyBytesNameAStream", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		names := []string{
			" ", "a b", "a:b", "a", "{a}", "a}:x", "\x00", "a\x00", "\xff\xfe", "%", "*", "?", "'", "\"", "\n", "\r\n", "ä", "1", "01",
			strings.Repeat("n", store.MaxStreamName), strings.Repeat("n", store.MaxStreamName-1) + "m",
		}
		for _, name := range names {
			h.Commit(l, l.Publishes(fence, store.Publication{Stream: name, Body: []byte("of " + name)}))
			p := store.Publication{Stream: name, Body: []byte("side " + name), Writer: name, Nth: 1}
			for range 2 {
				h.Check("publish", h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{p}))
			}
		}
		want := map[string]store.StreamState{}
		for _, name := range names {
			h.Equal(fmt.Sprintf("chunks of %q", name), h.stream(l.Run, name), []string{"of " + name, "side " + name})
			want[name] = store.StreamState{
				Chunks: []store.Chunk{{Index: 1, Body: []byte("of " + name)}, {Index: 2, Body: []byte("side " + name)}},
				Last:   2, Writers: map[string]uint64{name: 1},
			}
		}
		h.Equal("streams", h.Inspect().Streams[l.Run], want)
	}},
}

// AwaitStream waits in the background until the state of a stream differs from having after as its
// last chunk, and returns the state. It waits again if AwaitStream returns early.
func (h *harness) AwaitStream(run event.RunID, name string, after uint64) *Pending[store.StreamPage] {
	return Background(h, func(ctx context.Context) (store.StreamPage, error) { return h.AwaitOnce(ctx, run, name, after) })
}

func (h *harness) AwaitOnce(ctx context.Context, run event.RunID, name string, after uint64) (store.StreamPage, error) {
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
