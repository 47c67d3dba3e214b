package streams

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// streamChainBehaviors test which runs share streams, and when streams are purged.
var streamChainBehaviors = []behavior{
	{"TheRunsOfAChainShareItsStreams", func(h *harness) {
		first, fence := h.StartOwned(h.Session())
		h.Publish(first, fence, suite.Body("1"))
		h.Write(first, fence, suite.Side("2", "w", 1))
		c, second := first.Continue(fence, nil)
		c.Publish = suite.Bodies("3")
		h.Commit(first, c)
		fence = h.Own(h.Session(), second)
		h.Same("after continue", "a", []string{"1", "2", "3"}, store.StreamPage{First: 1, Last: 3}, first, second)
		h.Unchanged("what the run before has written", func() { h.Write(second, fence, suite.Side("2", "w", 1)) })
		h.Write(second, fence, suite.Side("4", "w", 2))
		h.Publish(second, fence, store.Publication{Body: []byte("5"), Keep: 2})
		third := h.ContinueRun(second, fence)
		h.Same("of the last run", "a", []string{"4", "5"}, store.StreamPage{First: 4, Last: 5}, first, second, third)
		fence = h.Own(h.Session(), third)
		h.Publish(third, fence, store.Publication{Close: true})
		h.Is("publish", h.Store.Publish(h.Ctx, third.Run, fence, suite.Bodies("6")), store.ErrStreamClosed)
		h.Same("after close", "a", []string{"4", "5"}, store.StreamPage{First: 4, Last: 5, Closed: true}, first, second, third)
		h.Publish(third, fence, store.Publication{Drop: true})
		h.Same("after drop", "a", nil, store.StreamPage{}, first, second, third)
	}},
	{"StreamsBelongToTheFirstRunOfAChain", func(h *harness) {
		runs := h.Chain(3)
		other, fence := h.StartOwnedAs(h.Session(), suite.Refunds)
		h.Publish(other, fence, suite.Body("other"))
		fence = h.Own(h.Session(), runs[2])
		h.Publish(runs[2], fence, suite.Body("1"))
		chunk := func(text string) map[string]store.StreamState {
			return map[string]store.StreamState{"a": {Chunks: []store.Chunk{{Index: 1, Body: []byte(text)}}, Last: 1}}
		}
		h.Equal("streams", h.Inspect().Streams, map[event.RunID]map[string]store.StreamState{runs[0].Run: chunk("1"), other.Run: chunk("other")})
	}},
	{"AChainHasEndedWithItsLastRun", func(h *harness) {
		first, fence := h.StartOwned(h.Session())
		h.Publish(first, fence, suite.Body("1"))
		second := h.ContinueRun(first, fence)
		h.Same("after continue", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1}, first, second)
		h.Finish(second, h.Own(h.Session(), second), event.StatusCompleted)
		h.Same("in the end", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1, Ended: true}, first, second)
		h.Same("of an empty stream", "b", nil, store.StreamPage{Ended: true}, first, second)
	}},
	{"RunsOfOneWorkflowIDDoNotShareStreams", func(h *harness) {
		wid := h.WorkflowID("order")
		h.Ended(suite.Named(wid))
		for range 2 {
			l := h.StartAs(suite.Orders, wid)
			fence := h.Own(h.Session(), l)
			h.Stands("in the beginning", l.Run, "a", nil, store.StreamPage{})
			h.Publish(l, fence, suite.Body("1"))
			h.Finish(l, fence, event.StatusCompleted)
		}
		h.Equal("streams", len(h.Inspect().Streams), 2)
	}},
	{"P1_PurgeRemovesTheStreamsOfARun", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Body("1"))
		h.Write(l, fence, suite.Side("2", "w", 1), store.Publication{Stream: "b\x00", Body: []byte("x"), Writer: "w", Nth: 1})
		h.Commit(l, l.Publishes(fence, store.Publication{Stream: "closed", Close: true}))
		h.Finish(l, fence, event.StatusCompleted)
		h.Clock.Advance(store.DefaultRetention - time.Millisecond)
		h.Purged(0)
		h.Stands("before the purge", l.Run, "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true})
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
		h.streamsGone(l.Run)
		h.Leaves()
	}},
	{"P1_StreamsAreKeptAsLongAsTheFirstRunOfTheirChain", func(h *harness) {
		runs := h.Chain(3, suite.Keep(suite.Long))
		fence := h.Own(h.Session(), runs[2])
		h.Publish(runs[2], fence, suite.Body("1"))
		h.Clock.Advance(2 * suite.Long)
		h.Purged(1)
		h.streamsGone(runs[1].Run)
		h.Same("after the second run was purged", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1}, runs[0], runs[2])
		h.RecoverDead(h.Session())
		fence = h.Own(h.Session(), runs[2])
		h.Finish(runs[2], fence, event.StatusCompleted)
		h.Clock.Advance(suite.Long)
		n, _ := h.Purge(1)
		h.Equal("number of purged runs", n, 1)
		h.streamsGone(runs[2].Run)
		h.Same("after the last run was purged", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1, Ended: true}, runs[0])
		h.Purged(1)
		h.streamsGone(runs[0].Run)
		h.Leaves()
	}},
	{"DeleteHidesTheStreamsOfTheRun", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Body("1"))
		h.Finish(l, fence, event.StatusCompleted)
		h.Check("delete", h.Delete(l.Run))
		h.streamsGone(l.Run)
		h.Clock.Advance(store.Horizon)
		h.Purged(1)
		h.Leaves()
	}},
	{"ADeletedRunOfAChainLeavesItsStreamsToTheOthers", func(h *harness) {
		first, fence := h.StartOwned(h.Session())
		h.Publish(first, fence, suite.Body("1"))
		second := h.ContinueRun(first, fence)
		h.Check("delete", h.Delete(first.Run))
		h.streamsGone(first.Run)
		h.Same("after the first run was deleted", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1}, second)
		fence = h.Own(h.Session(), second)
		h.Publish(second, fence, suite.Body("2"))
		h.Finish(second, fence, event.StatusCompleted)
		h.Clock.Advance(2 * store.Horizon)
		h.Purged(0)
		h.Same("in the end", "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true}, second)
		h.Check("delete", h.Delete(second.Run))
		h.streamsGone(second.Run)
		h.Clock.Advance(store.Horizon)
		for range 2 {
			h.Purge(100)
		}
		h.Leaves()
	}},
	{"ReadStreamOfAnUnknownRunIsNotFound", func(h *harness) {
		h.streamsGone(h.RunID())
	}},
}

// streamsGone fails the test unless the store reports that the run of the streams does not exist.
func (h *harness) streamsGone(run event.RunID) {
	h.Helper()
	for _, limit := range []int{0, -1} {
		_, err := h.Store.ReadStream(h.Ctx, store.ReadStream{Run: run, Stream: "a", Limit: limit})
		h.Is("read stream", err, store.ErrRunNotFound)
	}
	h.Is("await stream", h.Store.AwaitStream(h.Ctx, run, "a", 0), store.ErrRunNotFound)
}
