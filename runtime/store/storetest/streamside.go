package storetest

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// side returns a chunk that a step appends to the stream a.
func side(text, writer string, nth uint64) store.Publication {
	return store.Publication{Stream: "a", Body: []byte(text), Writer: writer, Nth: nth}
}

// write publishes chunks as a step does, and fails the test unless that succeeds.
func (h *harness) write(l *Log, fence store.Fence, chunks ...store.Publication) {
	h.Helper()
	h.check("publish", h.store.Publish(h.ctx, l.Run, fence, chunks))
}

// streamSideBehaviors test the publications of steps.
var streamSideBehaviors = []behavior{
	{"PublishAppendsBesideTheLog", func(h *harness) {
		l, fence := h.startOwned(h.session())
		before := h.record(l.Run)
		h.write(l, fence, side("1", "w", 1), side("2", "v", 1), store.Publication{Stream: "b", Body: []byte("of b")})
		h.publish(l, fence, body("3"))
		h.write(l, fence, side("4", "w", 2))
		h.stands("", l.Run, "a", []string{"1", "2", "3", "4"}, store.StreamPage{First: 1, Last: 4})
		h.equal("b", h.stream(l.Run, "b"), []string{"of b"})
		h.equal("frames", h.record(l.Run).N, before.N+1)
		h.equal("writers", h.inspect().Streams[l.Run]["a"].Writers, map[string]uint64{"w": 2, "v": 1})
		h.unchanged("a publish of nothing", func() { h.write(l, fence) })
	}},
	{"PublishTrims", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := side("4", "w", 4)
		p.Keep = 2
		h.write(l, fence, side("1", "w", 1), side("2", "w", 2), side("3", "w", 3), p)
		h.stands("", l.Run, "a", []string{"3", "4"}, store.StreamPage{First: 3, Last: 4})
		h.write(l, fence, store.Publication{Stream: "a", Keep: 1})
		h.stands("after keep alone", l.Run, "a", []string{"4"}, store.StreamPage{First: 4, Last: 4})
		h.unchanged("the same", func() { h.write(l, fence, p) })
	}},
	{"F1_PublishNeedsEpochAndToken", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.write(l, fence, side("1", "w", 1))
		refused := func(what string, run event.RunID, fence store.Fence) {
			h.Helper()
			h.unchanged(what, func() {
				h.is(what, h.store.Publish(h.ctx, run, fence, []store.Publication{side("2", "w", 2)}), store.ErrFenced)
			})
		}
		refused("publish under an old epoch", l.Run, store.Fence{Epoch: fence.Epoch - 1, Token: fence.Token})
		refused("publish under another token", l.Run, store.Fence{Epoch: fence.Epoch, Token: h.ids.Token()})
		refused("publish under an empty token", l.Run, store.Fence{Epoch: fence.Epoch})
		refused("publish to an unknown run", h.runID(), fence)
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		refused("publish after release", l.Run, fence)
		refused("publish to a run that is ready", l.Run, store.Fence{Epoch: fence.Epoch + 1})
		fence = h.own(s, l)
		h.park(l, fence, h.clock.Now().Add(long))
		refused("publish to a parked run", l.Run, fence)
		h.clock.Advance(long)
		s = h.session()
		h.due(1)
		fence = h.own(s, l)
		h.write(l, fence, side("3", "w", 2))
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		refused("publish after the session was closed", l.Run, fence)
		fence = h.own(h.session(), l)
		h.recoverDead(h.session())
		refused("publish after the run was recovered", l.Run, fence)
		fence = h.own(h.session(), l)
		h.finish(l, fence, event.StatusCompleted)
		refused("publish to a run that has ended", l.Run, fence)
		h.equal("chunks", h.stream(l.Run, "a"), []string{"1", "3"})
	}},
	{"PublishToAClosedStreamIsRefusedAsAWhole", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.write(l, fence, side("1", "w", 1))
		h.publish(l, fence, store.Publication{Close: true})
		h.unchanged("publishes to a closed stream", func() {
			open := store.Publication{Stream: "b", Body: []byte("x")}
			for what, chunks := range map[string][]store.Publication{
				"by the same writer":   {side("2", "w", 2)},
				"by another writer":    {side("2", "v", 1)},
				"by nobody":            {body("2")},
				"behind an open one":   {open, side("2", "w", 2)},
				"before an open one":   {side("2", "w", 2), open},
				"behind a known chunk": {side("1", "w", 1), side("2", "w", 2)},
			} {
				h.is("publish "+what, h.store.Publish(h.ctx, l.Run, fence, chunks), store.ErrStreamClosed)
			}
			h.is("publish under a wrong fence", h.store.Publish(h.ctx, l.Run, store.Fence{Epoch: 99}, []store.Publication{side("2", "w", 2)}), store.ErrFenced)
		})
		h.publish(l, fence, store.Publication{Drop: true})
		h.write(l, fence, side("2", "w", 2))
		h.stands("after a drop", l.Run, "a", []string{"2"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"AChunkIsPublishedOnceByItsWriter", func(h *harness) {
		l, fence := h.startOwned(h.session())
		call := []store.Publication{side("1", "w", 1), side("2", "w", 2), {Stream: "b", Body: []byte("of b"), Writer: "w", Nth: 1}}
		h.write(l, fence, call...)
		h.unchanged("the same call", func() { h.write(l, fence, call...) })
		h.write(l, fence, side("2", "w", 2), side("3", "w", 3))
		h.write(l, fence, side("of v", "v", 2))
		h.publish(l, fence, store.Publication{Keep: 1})
		h.unchanged("what is not kept any more", func() { h.write(l, fence, side("3", "w", 3), side("1", "w", 1)) })
		h.publish(l, fence, store.Publication{Body: []byte("end"), Close: true})
		h.unchanged("what a closed stream has", func() { h.write(l, fence, side("3", "w", 3)) })
		h.stands("", l.Run, "a", []string{"of v", "end"}, store.StreamPage{First: 4, Last: 5, Closed: true})
		h.equal("b", h.stream(l.Run, "b"), []string{"of b"})
	}},
	{"AWriterIsKnownToTheNextOwner", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.write(l, fence, side("1", "w", 1), side("2", "w", 2))
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		fence = h.own(h.session(), l)
		h.write(l, fence, side("2", "w", 2), side("3", "w", 3))
		h.equal("chunks", h.stream(l.Run, "a"), []string{"1", "2", "3"})
	}},
	{"WritersStartAgainInAStreamThatWasDropped", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.write(l, fence, side("1", "w", 1), side("2", "w", 2))
		h.publish(l, fence, store.Publication{Drop: true})
		h.write(l, fence, side("new", "w", 1))
		h.stands("", l.Run, "a", []string{"new"}, store.StreamPage{First: 1, Last: 1})
	}},
	{"ChunksWithoutAWriterArePublishedEachTime", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.write(l, fence, body("x"), body("x"))
		h.write(l, fence, body("x"))
		h.equal("chunks", h.stream(l.Run, "a"), []string{"x", "x", "x"})
	}},
}
