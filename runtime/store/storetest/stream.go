package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// page reads a stream. It returns its chunks as text, and the page without the chunks.
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

// stream reads the first page of a stream.
func (h *harness) stream(run event.RunID, name string) []string {
	h.Helper()
	chunks, _ := h.page(store.ReadStream{Run: run, Stream: name})
	return chunks
}

// stands fails the test unless a stream has these chunks and this state.
func (h *harness) stands(what string, run event.RunID, name string, chunks []string, want store.StreamPage) {
	h.Helper()
	got, page := h.page(store.ReadStream{Run: run, Stream: name})
	h.equal("chunks "+what, got, chunks)
	h.equal("how the stream stands "+what, page, want)
}

// publishes returns a commit with these publications.
func (l *Log) publishes(fence store.Fence, p ...store.Publication) store.Commit {
	c := l.Commit(fence, l.Work()...)
	c.Publish = p
	return c
}

// publish commits publications to the stream a.
func (h *harness) publish(l *Log, fence store.Fence, p ...store.Publication) {
	h.Helper()
	for i := range p {
		p[i].Stream = "a"
	}
	h.commit(l, l.publishes(fence, p...))
}

// body returns a publication that appends a chunk to the stream a.
func body(text string) store.Publication { return store.Publication{Stream: "a", Body: []byte(text)} }

// bodies returns publications that append chunks to the stream a.
func bodies(texts ...string) []store.Publication {
	var all []store.Publication
	for _, text := range texts {
		all = append(all, body(text))
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
		l, fence := h.startOwned(h.session())
		h.commit(l, l.publishes(fence, store.Publication{Stream: "a", Body: []byte("1")}, store.Publication{Stream: "b", Body: []byte("2")}))
		h.commit(l, l.publishes(fence, store.Publication{Stream: "a", Body: []byte("3")}))
		h.equal("a", h.stream(l.Run, "a"), []string{"1", "3"})
		h.equal("b", h.stream(l.Run, "b"), []string{"2"})
		h.stands("of a", l.Run, "a", []string{"1", "3"}, store.StreamPage{First: 1, Last: 2})
	}},
	{"AStreamThatNobodyHasWrittenToIsEmpty", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.stands("before all", l.Run, "a", nil, store.StreamPage{})
		h.publish(l, fence, body("1"))
		h.stands("of another stream", l.Run, "b", nil, store.StreamPage{})
		h.publish(l, fence, store.Publication{Keep: 3})
		other := h.start()
		h.stands("of another run", other.Run, "a", nil, store.StreamPage{})
		h.unchanged("keep of an empty stream", func() {
			h.equal("streams", h.inspect().Streams, map[event.RunID]map[string]store.StreamState{
				l.Run: {"a": {Chunks: []store.Chunk{{Index: 1, Body: []byte("1")}}, Last: 1}},
			})
		})
	}},
	{"AChunkMayBeEmpty", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, body(""), store.Publication{}, body("x"), store.Publication{Body: []byte{}})
		h.stands("", l.Run, "a", []string{"", "x", ""}, store.StreamPage{First: 1, Last: 3})
	}},
	{"PublicationsDropThenAppendThenTrimThenClose", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, bodies("1", "2", "3")...)
		h.publish(l, fence, store.Publication{Body: []byte("4"), Keep: 2})
		h.stands("after keep", l.Run, "a", []string{"3", "4"}, store.StreamPage{First: 3, Last: 4})
		h.publish(l, fence, store.Publication{Keep: 1})
		h.stands("after keep alone", l.Run, "a", []string{"4"}, store.StreamPage{First: 4, Last: 4})
		h.publish(l, fence, store.Publication{Keep: 5})
		h.stands("after keep of more than there are", l.Run, "a", []string{"4"}, store.StreamPage{First: 4, Last: 4})
		h.publish(l, fence, store.Publication{Body: []byte("5"), Close: true})
		h.stands("after close", l.Run, "a", []string{"4", "5"}, store.StreamPage{First: 4, Last: 5, Closed: true})
		h.publish(l, fence, store.Publication{Drop: true, Body: []byte("6")})
		h.stands("after drop and append", l.Run, "a", []string{"6"}, store.StreamPage{First: 1, Last: 1})
		h.publish(l, fence, store.Publication{Drop: true, Body: []byte("7"), Keep: 1, Close: true})
		h.stands("after all at once", l.Run, "a", []string{"7"}, store.StreamPage{First: 1, Last: 1, Closed: true})
		h.publish(l, fence, store.Publication{Drop: true, Close: true})
		h.stands("after drop and close", l.Run, "a", nil, store.StreamPage{Closed: true})
		h.publish(l, fence, store.Publication{Drop: true})
		h.stands("after drop", l.Run, "a", nil, store.StreamPage{})
		h.equal("streams", h.inspect().Streams, map[event.RunID]map[string]store.StreamState(nil))
		h.publish(l, fence, store.Publication{Drop: true})
		h.publish(l, fence, body("8"))
		h.stands("after a drop of nothing", l.Run, "a", []string{"8"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"ACommitPublishesInItsOrder", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, body("lost"), store.Publication{Drop: true}, body("1"), body("2"), store.Publication{Keep: 1}, body("3"),
			store.Publication{Close: true}, body("too late"))
		h.stands("", l.Run, "a", []string{"2", "3"}, store.StreamPage{First: 2, Last: 3, Closed: true})
	}},
	{"ACommitAppendsNothingToAClosedStream", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, append(bodies("1", "2", "3"), store.Publication{Close: true})...)
		h.publish(l, fence, body("4"), store.Publication{Close: true})
		h.stands("after an append", l.Run, "a", []string{"1", "2", "3"}, store.StreamPage{First: 1, Last: 3, Closed: true})
		h.publish(l, fence, store.Publication{Keep: 2})
		h.stands("after keep", l.Run, "a", []string{"2", "3"}, store.StreamPage{First: 2, Last: 3, Closed: true})
	}},
	{"AClosedStreamWithoutChunksIsClosed", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, store.Publication{Close: true})
		h.stands("", l.Run, "a", nil, store.StreamPage{Closed: true})
	}},
	{"W3_TheSameCommitPublishesOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.publishes(fence, body("1"))
		want := h.commit(l, c)
		h.unchanged("the same commit", func() { h.equal("answer", h.try(c), want) })
		end := withEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		end.Publish = bodies("2")
		want = h.commit(l, end)
		h.unchanged("the same end", func() { h.equal("answer", h.try(end), want) })
		h.stands("", l.Run, "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true})
	}},
	{"ACommitThatIsRefusedPublishesNothing", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, body("1"))
		h.deliver(l.Run)
		h.unchanged("commits that are refused", func() {
			c := l.publishes(store.Fence{Epoch: fence.Epoch}, body("2"))
			h.is("commit under a wrong token", h.try(c).Err, store.ErrFenced)
			c = l.publishes(fence, store.Publication{Stream: "a", Drop: true})
			c.Prev = h.ids.CommitID()
			h.conflicts("commit behind another frame", c)
			c = withEffect(l.publishes(fence, body("2")), store.EffectPark, "")
			h.is("park with unread items", h.try(c).Err, store.ErrUnread)
		})
	}},
	{"ACommitPublishesWithEveryEffect", func(h *harness) {
		s := h.session()
		for effect, name := range map[store.Effect]string{store.EffectPark: "park", store.EffectYield: "yield", store.EffectBlock: "block", store.EffectFinish: "finish"} {
			l, fence := h.startOwnedAs(s, refunds)
			events, status := l.Work(), event.StatusRunning
			if effect == store.EffectFinish {
				events, status = l.End(event.StatusFailed), event.StatusFailed
			}
			c := withEffect(l.Commit(fence, events...), effect, status)
			c.Publish = bodies(name)
			h.commit(l, c)
			h.stands("after "+name, l.Run, "a", []string{name}, store.StreamPage{First: 1, Last: 1, Ended: effect == store.EffectFinish})
			if effect == store.EffectYield {
				h.claim(s, 1, refunds)
			}
		}
		h.equal("streams", len(h.inspect().Streams), 4)
	}},
	{"CommitsOfOneCallPublishEachToItsRun", func(h *harness) {
		s := h.session()
		var commits []store.Commit
		var logs []*Log
		for n := range 5 {
			l, fence := h.startOwned(s)
			logs, commits = append(logs, l), append(commits, l.publishes(fence, bodies(numbered(1, n)...)...))
		}
		answers, err := h.store.Commit(h.ctx, commits)
		h.check("commit", err)
		for n, a := range answers {
			h.check("commit", a.Err)
			h.equal("chunks", h.stream(logs[n].Run, "a"), numbered(1, n))
		}
	}},
	{"PublicationsThatSayNonsenseFailTheCall", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.unchanged("calls that say nonsense", func() {
			for what, p := range map[string]store.Publication{
				"no name":               {Body: []byte("x")},
				"a name that is long":   {Stream: strings.Repeat("n", store.MaxStreamName+1), Body: []byte("x")},
				"fewer than no chunks":  {Stream: "a", Keep: -1},
				"a writer":              {Stream: "a", Body: []byte("x"), Writer: "w", Nth: 1},
				"the number of a chunk": {Stream: "a", Body: []byte("x"), Nth: 1},
			} {
				if answers, err := h.store.Commit(h.ctx, []store.Commit{l.publishes(fence, body("1"), p)}); err == nil {
					h.Fatalf("commit with %s: got %+v, want an error", what, answers)
				}
			}
			bare := l.Commit(fence)
			bare.Publish = bodies("1")
			if answers, err := h.store.Commit(h.ctx, []store.Commit{bare}); err == nil {
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
				if err := h.store.Publish(h.ctx, l.Run, fence, []store.Publication{body("1"), p}); err == nil {
					h.Fatalf("publish with %s: got no error", what)
				}
			}
			for _, name := range []string{"", strings.Repeat("n", store.MaxStreamName+1)} {
				if _, err := h.store.ReadStream(h.ctx, store.ReadStream{Run: l.Run, Stream: name}); err == nil {
					h.Fatalf("read of a stream whose name has %d bytes: got no error", len(name))
				}
				if err := h.store.AwaitStream(h.ctx, l.Run, name, 1); err == nil {
					h.Fatalf("await of a stream whose name has %d bytes: got no error", len(name))
				}
			}
		})
	}},
	{"AnyBytesNameAStream", func(h *harness) {
		l, fence := h.startOwned(h.session())
		names := []string{
			" ", "a b", "a:b", "a", "{a}", "a}:x", "\x00", "a\x00", "\xff\xfe", "%", "*", "?", "'", "\"", "\n", "\r\n", "ä", "1", "01",
			strings.Repeat("n", store.MaxStreamName), strings.Repeat("n", store.MaxStreamName-1) + "m",
		}
		for _, name := range names {
			h.commit(l, l.publishes(fence, store.Publication{Stream: name, Body: []byte("of " + name)}))
			p := store.Publication{Stream: name, Body: []byte("side " + name), Writer: name, Nth: 1}
			for range 2 {
				h.check("publish", h.store.Publish(h.ctx, l.Run, fence, []store.Publication{p}))
			}
		}
		want := map[string]store.StreamState{}
		for _, name := range names {
			h.equal(fmt.Sprintf("chunks of %q", name), h.stream(l.Run, name), []string{"of " + name, "side " + name})
			want[name] = store.StreamState{
				Chunks: []store.Chunk{{Index: 1, Body: []byte("of " + name)}, {Index: 2, Body: []byte("side " + name)}},
				Last:   2, Writers: map[string]uint64{name: 1},
			}
		}
		h.equal("streams", h.inspect().Streams[l.Run], want)
	}},
}

// awaitStream waits in the background until the state of a stream differs from having after as its
// last chunk, and returns the state. It waits again if AwaitStream returns early.
func (h *harness) awaitStream(run event.RunID, name string, after uint64) *pending[store.StreamPage] {
	return background(h, func(ctx context.Context) (store.StreamPage, error) { return h.awaitOnce(ctx, run, name, after) })
}

func (h *harness) awaitOnce(ctx context.Context, run event.RunID, name string, after uint64) (store.StreamPage, error) {
	for {
		page, err := h.store.ReadStream(ctx, store.ReadStream{Run: run, Stream: name, Limit: -1})
		if err != nil || page.Last != after || page.Closed || page.Ended {
			return page, err
		}
		if err := h.store.AwaitStream(ctx, run, name, after); err != nil {
			return store.StreamPage{}, err
		}
	}
}
