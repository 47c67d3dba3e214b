package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// same fails the test unless the stream has these chunks and this state by the name of each run.
func (h *harness) same(what string, name string, chunks []string, want store.StreamPage, runs ...*Log) {
	h.Helper()
	for _, l := range runs {
		h.stands(what, l.Run, name, chunks, want)
	}
}

// leaves fails the test unless only leases and wakes are left.
func (h *harness) leaves() {
	h.Helper()
	got := h.inspect()
	h.equal("what is left", got, &store.Snapshot{Now: got.Now, Leases: got.Leases, Wakes: got.Wakes})
}

// streamChainBehaviors test which runs share streams, and when streams are purged.
var streamChainBehaviors = []behavior{
	{"TheRunsOfAChainShareItsStreams", func(h *harness) {
		first, fence := h.startOwned(h.session())
		h.publish(first, fence, body("1"))
		h.write(first, fence, side("2", "w", 1))
		c, second := first.Continue(fence, nil)
		c.Publish = bodies("3")
		h.commit(first, c)
		fence = h.own(h.session(), second)
		h.same("after continue", "a", []string{"1", "2", "3"}, store.StreamPage{First: 1, Last: 3}, first, second)
		h.unchanged("what the run before has written", func() { h.write(second, fence, side("2", "w", 1)) })
		h.write(second, fence, side("4", "w", 2))
		h.publish(second, fence, store.Publication{Body: []byte("5"), Keep: 2})
		third := h.continueRun(second, fence)
		h.same("of the last run", "a", []string{"4", "5"}, store.StreamPage{First: 4, Last: 5}, first, second, third)
		fence = h.own(h.session(), third)
		h.publish(third, fence, store.Publication{Close: true})
		h.is("publish", h.store.Publish(h.ctx, third.Run, fence, bodies("6")), store.ErrStreamClosed)
		h.same("after close", "a", []string{"4", "5"}, store.StreamPage{First: 4, Last: 5, Closed: true}, first, second, third)
		h.publish(third, fence, store.Publication{Drop: true})
		h.same("after drop", "a", nil, store.StreamPage{}, first, second, third)
	}},
	{"StreamsBelongToTheFirstRunOfAChain", func(h *harness) {
		runs := h.chain(3)
		other, fence := h.startOwnedAs(h.session(), refunds)
		h.publish(other, fence, body("other"))
		fence = h.own(h.session(), runs[2])
		h.publish(runs[2], fence, body("1"))
		chunk := func(text string) map[string]store.StreamState {
			return map[string]store.StreamState{"a": {Chunks: []store.Chunk{{Index: 1, Body: []byte(text)}}, Last: 1}}
		}
		h.equal("streams", h.inspect().Streams, map[event.RunID]map[string]store.StreamState{runs[0].Run: chunk("1"), other.Run: chunk("other")})
	}},
	{"AChainHasEndedWithItsLastRun", func(h *harness) {
		first, fence := h.startOwned(h.session())
		h.publish(first, fence, body("1"))
		second := h.continueRun(first, fence)
		h.same("after continue", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1}, first, second)
		h.finish(second, h.own(h.session(), second), event.StatusCompleted)
		h.same("in the end", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1, Ended: true}, first, second)
		h.same("of an empty stream", "b", nil, store.StreamPage{Ended: true}, first, second)
	}},
	{"RunsOfOneWorkflowIDDoNotShareStreams", func(h *harness) {
		wid := h.workflowID("order")
		h.ended(named(wid))
		for range 2 {
			l := h.startAs(orders, wid)
			fence := h.own(h.session(), l)
			h.stands("in the beginning", l.Run, "a", nil, store.StreamPage{})
			h.publish(l, fence, body("1"))
			h.finish(l, fence, event.StatusCompleted)
		}
		h.equal("streams", len(h.inspect().Streams), 2)
	}},
	{"P1_PurgeRemovesTheStreamsOfARun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, body("1"))
		h.write(l, fence, side("2", "w", 1), store.Publication{Stream: "b\x00", Body: []byte("x"), Writer: "w", Nth: 1})
		h.commit(l, l.publishes(fence, store.Publication{Stream: "closed", Close: true}))
		h.finish(l, fence, event.StatusCompleted)
		h.clock.Advance(store.DefaultRetention - time.Millisecond)
		h.purged(0)
		h.stands("before the purge", l.Run, "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true})
		h.clock.Advance(time.Millisecond)
		h.purged(1)
		h.streamsGone(l.Run)
		h.leaves()
	}},
	{"P1_StreamsAreKeptAsLongAsTheFirstRunOfTheirChain", func(h *harness) {
		runs := h.chain(3, keep(long))
		fence := h.own(h.session(), runs[2])
		h.publish(runs[2], fence, body("1"))
		h.clock.Advance(2 * long)
		h.purged(1)
		h.streamsGone(runs[1].Run)
		h.same("after the second run was purged", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1}, runs[0], runs[2])
		h.recoverDead(h.session())
		fence = h.own(h.session(), runs[2])
		h.finish(runs[2], fence, event.StatusCompleted)
		h.clock.Advance(long)
		n, _ := h.purge(1)
		h.equal("number of purged runs", n, 1)
		h.streamsGone(runs[2].Run)
		h.same("after the last run was purged", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1, Ended: true}, runs[0])
		h.purged(1)
		h.streamsGone(runs[0].Run)
		h.leaves()
	}},
	{"DeleteHidesTheStreamsOfTheRun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, body("1"))
		h.finish(l, fence, event.StatusCompleted)
		h.check("delete", h.delete(l.Run))
		h.streamsGone(l.Run)
		h.clock.Advance(store.Horizon)
		h.purged(1)
		h.leaves()
	}},
	{"ADeletedRunOfAChainLeavesItsStreamsToTheOthers", func(h *harness) {
		first, fence := h.startOwned(h.session())
		h.publish(first, fence, body("1"))
		second := h.continueRun(first, fence)
		h.check("delete", h.delete(first.Run))
		h.streamsGone(first.Run)
		h.same("after the first run was deleted", "a", []string{"1"}, store.StreamPage{First: 1, Last: 1}, second)
		fence = h.own(h.session(), second)
		h.publish(second, fence, body("2"))
		h.finish(second, fence, event.StatusCompleted)
		h.clock.Advance(2 * store.Horizon)
		h.purged(0)
		h.same("in the end", "a", []string{"1", "2"}, store.StreamPage{First: 1, Last: 2, Ended: true}, second)
		h.check("delete", h.delete(second.Run))
		h.streamsGone(second.Run)
		h.clock.Advance(store.Horizon)
		for range 2 {
			h.purge(100)
		}
		h.leaves()
	}},
	{"ReadStreamOfAnUnknownRunIsNotFound", func(h *harness) {
		h.streamsGone(h.runID())
	}},
}

// streamsGone fails the test unless the streams of a run cannot be read.
func (h *harness) streamsGone(run event.RunID) {
	h.Helper()
	for _, limit := range []int{0, -1} {
		_, err := h.store.ReadStream(h.ctx, store.ReadStream{Run: run, Stream: "a", Limit: limit})
		h.is("read stream", err, store.ErrRunNotFound)
	}
	h.is("await stream", h.store.AwaitStream(h.ctx, run, "a", 0), store.ErrRunNotFound)
}
