// Package streams contains the behaviours of the streams of a chain: publications, pages, side
// writers, and calls that await chunks.
package streams

import (
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Groups contains the behaviours of this package.
var Groups = []suite.Group{
	{Behaviors: suite.Tests(streamBehaviors, streamPageBehaviors, streamSideBehaviors, streamChainBehaviors, streamAwaitBehaviors, streamRaceBehaviors)},
}

type behavior suite.Behavior[harness]

// harness extends the harness of the suite with requests about streams.
type harness struct{ *suite.Harness }

// stream returns the chunks on the first page of a stream as text.
func (h *harness) stream(run event.RunID, name string) []string {
	h.Helper()
	chunks, _ := h.Page(store.ReadStream{Run: run, Stream: name})
	return chunks
}

// numbered returns the texts of the chunks from first to last, if the text of each chunk is its
// index.
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
		h.Publish(l, fence, suite.Body("1"))
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
		h.Publish(l, fence, suite.Body(""), store.Publication{}, suite.Body("x"), store.Publication{Body: []byte{}})
		h.Stands("", l.Run, "a", []string{"", "x", ""}, store.StreamPage{First: 1, Last: 3})
	}},
	{"PublicationsDropThenAppendThenTrimThenClose", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Bodies("1", "2", "3")...)
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
		h.Publish(l, fence, suite.Body("8"))
		h.Stands("after a drop of nothing", l.Run, "a", []string{"8"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"ACommitPublishesInItsOrder", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Body("lost"), store.Publication{Drop: true}, suite.Body("1"), suite.Body("2"), store.Publication{Keep: 1}, suite.Body("3"),
			store.Publication{Close: true}, suite.Body("too late"))
		h.Stands("", l.Run, "a", []string{"2", "3"}, store.StreamPage{First: 2, Last: 3, Closed: true})
	}},
	{"ACommitAppendsNothingToAClosedStream", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, append(suite.Bodies("1", "2", "3"), store.Publication{Close: true})...)
		h.Publish(l, fence, suite.Body("4"), store.Publication{Close: true})
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
		c := l.Publishes(fence, suite.Body("1"))
		want := h.Commit(l, c)
		h.Unchanged("the same commit", func() { h.Equal("answer", h.Try(c), want) })
		end := suite.WithEffect(l.Commit(fence, l.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		end.Publish = suite.Bodies("2")
		want = h.Commit(l, end)
		h.Unchanged("the same end", func() { h.Equal("answer", h.Try(end), want) })
		h.Stands("", l.Run, "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true})
	}},
	{"ACommitThatIsRefusedPublishesNothing", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Body("1"))
		h.Deliver(l.Run)
		h.Unchanged("commits that are refused", func() {
			c := l.Publishes(store.Fence{Epoch: fence.Epoch}, suite.Body("2"))
			h.Is("commit under a wrong token", h.Try(c).Err, store.ErrFenced)
			c = l.Publishes(fence, store.Publication{Stream: "a", Drop: true})
			c.Prev = h.IDs.CommitID()
			h.Conflicts("commit behind another frame", c)
			c = suite.WithEffect(l.Publishes(fence, suite.Body("2")), store.EffectPark, "")
			h.Is("park with unread items", h.Try(c).Err, store.ErrUnread)
		})
	}},
	{"ACommitPublishesWithEveryEffect", func(h *harness) {
		s := h.Session()
		for effect, name := range map[store.Effect]string{store.EffectPark: "park", store.EffectYield: "yield", store.EffectBlock: "block", store.EffectFinish: "finish"} {
			l, fence := h.StartOwnedAs(s, suite.Refunds)
			events, status := l.Work(), event.StatusRunning
			if effect == store.EffectFinish {
				events, status = l.End(event.StatusFailed), event.StatusFailed
			}
			c := suite.WithEffect(l.Commit(fence, events...), effect, status)
			c.Publish = suite.Bodies(name)
			h.Commit(l, c)
			h.Stands("after "+name, l.Run, "a", []string{name}, store.StreamPage{First: 1, Last: 1, Ended: effect == store.EffectFinish})
			if effect == store.EffectYield {
				h.Claim(s, 1, suite.Refunds)
			}
		}
		h.Equal("streams", len(h.Inspect().Streams), 4)
	}},
	{"CommitsOfOneCallPublishEachToItsRun", func(h *harness) {
		s := h.Session()
		var commits []store.Commit
		var logs []*suite.Log
		for n := range 5 {
			l, fence := h.StartOwned(s)
			logs, commits = append(logs, l), append(commits, l.Publishes(fence, suite.Bodies(numbered(1, n)...)...))
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
				if answers, err := h.Store.Commit(h.Ctx, []store.Commit{l.Publishes(fence, suite.Body("1"), p)}); err == nil {
					h.Fatalf("commit with %s: got %+v, want an error", what, answers)
				}
			}
			bare := l.Commit(fence)
			bare.Publish = suite.Bodies("1")
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
				if err := h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{suite.Body("1"), p}); err == nil {
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
