package streams

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// streamSideBehaviors test the publications that steps make through Publish, beside the commits of
// their run.
var streamSideBehaviors = []behavior{
	{"PublishAppendsBesideTheLog", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		before := h.Record(l.Run)
		h.Write(l, fence, suite.Side("1", "w", 1), suite.Side("2", "v", 1), store.Publication{Stream: "b", Body: []byte("of b")})
		h.Publish(l, fence, suite.Body("3"))
		h.Write(l, fence, suite.Side("4", "w", 2))
		h.Stands("", l.Run, "a", []string{"1", "2", "3", "4"}, store.StreamPage{First: 1, Last: 4})
		h.Equal("b", h.stream(l.Run, "b"), []string{"of b"})
		h.Equal("frames", h.Record(l.Run).N, before.N+1)
		h.Equal("writers", h.Inspect().Streams[l.Run]["a"].Writers, map[string]uint64{"w": 2, "v": 1})
		h.Unchanged("a publish of nothing", func() { h.Write(l, fence) })
	}},
	{"PublishTrims", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := suite.Side("4", "w", 4)
		p.Keep = 2
		h.Write(l, fence, suite.Side("1", "w", 1), suite.Side("2", "w", 2), suite.Side("3", "w", 3), p)
		h.Stands("", l.Run, "a", []string{"3", "4"}, store.StreamPage{First: 3, Last: 4})
		h.Write(l, fence, store.Publication{Stream: "a", Keep: 1})
		h.Stands("after keep alone", l.Run, "a", []string{"4"}, store.StreamPage{First: 4, Last: 4})
		h.Unchanged("the same", func() { h.Write(l, fence, p) })
	}},
	{"F1_PublishNeedsEpochAndToken", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Write(l, fence, suite.Side("1", "w", 1))
		refused := func(what string, run event.RunID, fence store.Fence) {
			h.Helper()
			h.Unchanged(what, func() {
				h.Is(what, h.Store.Publish(h.Ctx, run, fence, []store.Publication{suite.Side("2", "w", 2)}), store.ErrFenced)
			})
		}
		refused("publish under an old epoch", l.Run, store.Fence{Epoch: fence.Epoch - 1, Token: fence.Token})
		refused("publish under another token", l.Run, store.Fence{Epoch: fence.Epoch, Token: h.IDs.Token()})
		refused("publish under an empty token", l.Run, store.Fence{Epoch: fence.Epoch})
		refused("publish to an unknown run", h.RunID(), fence)
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		refused("publish after release", l.Run, fence)
		refused("publish to a run that is ready", l.Run, store.Fence{Epoch: fence.Epoch + 1})
		fence = h.Own(s, l)
		h.Park(l, fence, h.Clock.Now().Add(suite.Long))
		refused("publish to a parked run", l.Run, fence)
		h.Clock.Advance(suite.Long)
		s = h.Session()
		h.Due(1)
		fence = h.Own(s, l)
		h.Write(l, fence, suite.Side("3", "w", 2))
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		refused("publish after the session was closed", l.Run, fence)
		fence = h.Own(h.Session(), l)
		h.RecoverDead(h.Session())
		refused("publish after the run was recovered", l.Run, fence)
		fence = h.Own(h.Session(), l)
		h.Finish(l, fence, event.StatusCompleted)
		refused("publish to a run that has ended", l.Run, fence)
		h.Equal("chunks", h.stream(l.Run, "a"), []string{"1", "3"})
	}},
	{"PublishToAClosedStreamIsRefusedAsAWhole", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Write(l, fence, suite.Side("1", "w", 1))
		h.Publish(l, fence, store.Publication{Close: true})
		h.Unchanged("publishes to a closed stream", func() {
			open := store.Publication{Stream: "b", Body: []byte("x")}
			for what, chunks := range map[string][]store.Publication{
				"by the same writer":   {suite.Side("2", "w", 2)},
				"by another writer":    {suite.Side("2", "v", 1)},
				"by nobody":            {suite.Body("2")},
				"behind an open one":   {open, suite.Side("2", "w", 2)},
				"before an open one":   {suite.Side("2", "w", 2), open},
				"behind a known chunk": {suite.Side("1", "w", 1), suite.Side("2", "w", 2)},
			} {
				h.Is("publish "+what, h.Store.Publish(h.Ctx, l.Run, fence, chunks), store.ErrStreamClosed)
			}
			h.Is("publish under a wrong fence", h.Store.Publish(h.Ctx, l.Run, store.Fence{Epoch: 99}, []store.Publication{suite.Side("2", "w", 2)}), store.ErrFenced)
		})
		h.Publish(l, fence, store.Publication{Drop: true})
		h.Write(l, fence, suite.Side("2", "w", 2))
		h.Stands("after a drop", l.Run, "a", []string{"2"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"AChunkIsPublishedOnceByItsWriter", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		call := []store.Publication{suite.Side("1", "w", 1), suite.Side("2", "w", 2), {Stream: "b", Body: []byte("of b"), Writer: "w", Nth: 1}}
		h.Write(l, fence, call...)
		h.Unchanged("the same call", func() { h.Write(l, fence, call...) })
		h.Write(l, fence, suite.Side("2", "w", 2), suite.Side("3", "w", 3))
		h.Write(l, fence, suite.Side("of v", "v", 2))
		h.Publish(l, fence, store.Publication{Keep: 1})
		h.Unchanged("what is not kept any more", func() { h.Write(l, fence, suite.Side("3", "w", 3), suite.Side("1", "w", 1)) })
		h.Publish(l, fence, store.Publication{Body: []byte("end"), Close: true})
		h.Unchanged("what a closed stream has", func() { h.Write(l, fence, suite.Side("3", "w", 3)) })
		h.Stands("", l.Run, "a", []string{"of v", "end"}, store.StreamPage{First: 4, Last: 5, Closed: true})
		h.Equal("b", h.stream(l.Run, "b"), []string{"of b"})
	}},
	{"AWriterIsKnownToTheNextOwner", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Write(l, fence, suite.Side("1", "w", 1), suite.Side("2", "w", 2))
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		fence = h.Own(h.Session(), l)
		h.Write(l, fence, suite.Side("2", "w", 2), suite.Side("3", "w", 3))
		h.Equal("chunks", h.stream(l.Run, "a"), []string{"1", "2", "3"})
	}},
	{"WritersStartAgainInAStreamThatWasDropped", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Write(l, fence, suite.Side("1", "w", 1), suite.Side("2", "w", 2))
		h.Publish(l, fence, store.Publication{Drop: true})
		h.Write(l, fence, suite.Side("new", "w", 1))
		h.Stands("", l.Run, "a", []string{"new"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"ChunksWithoutAWriterArePublishedEachTime", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Write(l, fence, suite.Body("x"), suite.Body("x"))
		h.Write(l, fence, suite.Body("x"))
		h.Equal("chunks", h.stream(l.Run, "a"), []string{"x", "x", "x"})
	}},
}
