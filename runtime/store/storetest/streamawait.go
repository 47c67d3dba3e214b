package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// awaited fails the test unless an AwaitStream ends with this state of the stream.
func (h *harness) awaited(what string, p *pending[store.StreamPage], want store.StreamPage) {
	h.Helper()
	page, err := p.result(h, "await stream "+what)
	h.check("await stream "+what, err)
	h.equal("how the stream stands "+what, page, want)
}

// blocks fails the test unless AwaitStream blocks. It may return early, but not every time.
func (h *harness) blocks(what string, run event.RunID, name string, after uint64) {
	h.Helper()
	for range 20 {
		ctx, cancel := context.WithTimeout(h.ctx, 50*time.Millisecond)
		err := h.store.AwaitStream(ctx, run, name, after)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		h.check("await stream "+what, err)
	}
	h.Fatalf("await stream %s: it does not block", what)
}

// awaiting is awaitStream, but returns only after another AwaitStream for the same chunk has
// blocked. The first one is then very likely blocked.
func (h *harness) awaiting(run event.RunID, name string, after uint64) *pending[store.StreamPage] {
	h.Helper()
	p := h.awaitStream(run, name, after)
	h.blocks("that others await, too", run, name, after)
	return p
}

// streamAwaitBehaviors test which operations end AwaitStream.
var streamAwaitBehaviors = []behavior{
	{"AwaitStreamReturnsAtOnceIfThereIsMore", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.publish(l, fence, bodies("1", "2")...)
		h.commit(l, l.publishes(fence, store.Publication{Stream: "closed", Body: []byte("x"), Close: true}))
		for _, after := range []uint64{0, 1, 3, 1 << 60} {
			h.check("await stream", h.store.AwaitStream(h.ctx, l.Run, "a", after))
		}
		h.check("await a closed stream", h.store.AwaitStream(h.ctx, l.Run, "closed", 1))
		h.finish(l, fence, event.StatusCompleted)
		for _, after := range []uint64{0, 2} {
			h.check("await a stream of a chain that has ended", h.store.AwaitStream(h.ctx, l.Run, "a", after))
		}
		h.check("await an empty stream of a chain that has ended", h.store.AwaitStream(h.ctx, l.Run, "b", 0))
	}},
	{"AwaitStreamBlocksWhileNothingHappens", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.blocks("that is empty", l.Run, "a", 0)
		h.publish(l, fence, body("1"))
		h.blocks("with a chunk", l.Run, "a", 1)
		h.blocks("beside it", l.Run, "b", 0)
		h.publish(l, fence, body("2"), store.Publication{Keep: 1})
		h.blocks("that was trimmed", l.Run, "a", 2)
		next := h.continueRun(l, fence)
		h.blocks("of a run that has continued", l.Run, "a", 2)
		h.blocks("of the run that it continued as", next.Run, "a", 2)
	}},
	{"AwaitStreamIsToldOfACommit", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.awaiting(l.Run, "a", 0)
		h.publish(l, fence, body("1"))
		h.awaited("of the first chunk", p, store.StreamPage{First: 1, Last: 1})
		p = h.awaitStream(l.Run, "a", 1)
		h.publish(l, fence, bodies("2", "3")...)
		h.awaited("of more chunks", p, store.StreamPage{First: 1, Last: 3})
	}},
	{"AwaitStreamIsToldOfAPublish", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for n := range uint64(3) {
			p := h.awaiting(l.Run, "a", n)
			h.write(l, fence, side("x", "w", n+1))
			h.awaited("of a chunk", p, store.StreamPage{First: 1, Last: n + 1})
		}
	}},
	{"AwaitStreamIsToldOfTheEndOfAStream", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.awaiting(l.Run, "a", 0)
		h.publish(l, fence, store.Publication{Close: true})
		h.awaited("of the close", p, store.StreamPage{Closed: true})
		h.publish(l, fence, store.Publication{Drop: true, Body: []byte("1")}, body("2"))
		p = h.awaiting(l.Run, "a", 2)
		h.publish(l, fence, store.Publication{Drop: true})
		h.awaited("of the drop", p, store.StreamPage{})
		h.publish(l, fence, bodies("1", "2")...)
		p = h.awaitStream(l.Run, "a", 2)
		h.publish(l, fence, store.Publication{Drop: true, Body: []byte("1")})
		h.awaited("of a new stream", p, store.StreamPage{First: 1, Last: 1})
	}},
	{"AwaitStreamIsToldOfTheEndOfTheChain", func(h *harness) {
		s := h.session()
		first, fence := h.startOwned(s)
		h.publish(first, fence, body("1"))
		of := h.awaitStream(first.Run, "a", 1)
		empty := h.awaitStream(first.Run, "b", 0)
		second := h.continueRun(first, fence)
		ofSecond := h.awaitStream(second.Run, "a", 1)
		third := h.continueRun(second, h.own(s, second))
		ofThird := h.awaiting(third.Run, "a", 1)
		c := withEffect(third.Commit(h.own(s, third), third.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		c.Progress = true // like nearly all commits that end a run
		h.commit(third, c)
		want := store.StreamPage{First: 1, Last: 1, Ended: true}
		h.awaited("of the first run", of, want)
		h.awaited("of the second run", ofSecond, want)
		h.awaited("of the last run", ofThird, want)
		h.awaited("of an empty stream", empty, store.StreamPage{Ended: true})
	}},
	{"AwaitStreamIsToldByAnyRunOfTheChain", func(h *harness) {
		s := h.session()
		first, fence := h.startOwned(s)
		p := h.awaitStream(first.Run, "a", 0)
		c, second := first.Continue(fence, nil)
		c.Publish = bodies("1")
		h.commit(first, c)
		h.awaited("by the commit that continues", p, store.StreamPage{First: 1, Last: 1})
		p = h.awaitStream(first.Run, "a", 1)
		fence = h.own(s, second)
		h.publish(second, fence, body("2"))
		h.awaited("by a commit of the second run", p, store.StreamPage{First: 1, Last: 2})
		p = h.awaitStream(first.Run, "a", 2)
		h.write(second, fence, side("3", "w", 1))
		h.awaited("by a step of the second run", p, store.StreamPage{First: 1, Last: 3})
	}},
	{"AwaitStreamGoesOnWhenTheRunContinues", func(h *harness) {
		s := h.session()
		first, fence := h.startOwned(s)
		chunk, end := h.awaiting(first.Run, "a", 0), h.awaiting(first.Run, "b", 0)
		second := h.continueRun(first, fence)
		third := h.continueRun(second, h.own(s, second))
		fence = h.own(s, third)
		h.write(third, fence, side("1", "w", 1))
		h.awaited("of a chunk", chunk, store.StreamPage{First: 1, Last: 1})
		h.finish(third, fence, event.StatusCompleted)
		h.awaited("of the end", end, store.StreamPage{Ended: true})
	}},
	{"AwaitStreamEndsWhenTheRunIsDeleted", func(h *harness) {
		for range 2 {
			s := h.session()
			first, fence := h.startOwned(s)
			second := h.continueRun(first, fence)
			other := h.awaitStream(second.Run, "a", 0)
			p := h.awaiting(first.Run, "a", 0)
			h.check("delete", h.delete(first.Run))
			_, err := p.result(h, "await stream")
			h.is("await stream of the run that was deleted", err, store.ErrRunNotFound)
			fence = h.own(s, second)
			h.publish(second, fence, body("1"))
			h.awaited("of the run that was not", other, store.StreamPage{First: 1, Last: 1})
			h.finish(second, fence, event.StatusCompleted)
		}
	}},
	{"AwaitStreamEndsWhenTheRunIsPurged", func(h *harness) {
		runs := h.chain(3, keep(long))
		other := h.awaitStream(runs[0].Run, "a", 0)
		p := h.awaiting(runs[1].Run, "a", 0)
		h.clock.Advance(long)
		h.purged(1)
		_, err := p.result(h, "await stream")
		h.is("await stream of the run that was purged", err, store.ErrRunNotFound)
		h.publish(runs[2], h.own(h.session(), runs[2]), body("1"))
		h.awaited("of the run that was not", other, store.StreamPage{First: 1, Last: 1})
	}},
	{"AwaitStreamOfAnUnknownRunIsNotFound", func(h *harness) {
		h.is("await stream", h.store.AwaitStream(h.ctx, h.runID(), "a", 0), store.ErrRunNotFound)
	}},
	{"AwaitStreamEndsWithItsContext", func(h *harness) {
		l := h.start()
		p := background(h, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, h.store.AwaitStream(ctx, l.Run, "a", 0)
		})
		p.cancel()
		_, err := p.result(h, "await stream")
		if err != nil { // it may return early
			h.is("await stream", err, context.Canceled)
		}
		ctx, cancel := context.WithCancel(h.ctx)
		cancel()
		h.is("await stream", h.store.AwaitStream(ctx, l.Run, "a", 0), context.Canceled)
	}},
	{"ManyWhoAwaitStreamsAreAllTold", func(h *harness) {
		const each = 50
		s := h.session()
		l, fence := h.startOwned(s)
		var all []*pending[store.StreamPage]
		names := []string{"a", "b", "c"}
		for range each {
			for _, name := range names {
				all = append(all, h.awaitStream(l.Run, name, 0))
			}
		}
		h.write(l, fence, store.Publication{Stream: "b", Body: []byte("x"), Writer: "w", Nth: 1})
		for n, p := range all {
			if names[n%len(names)] == "b" {
				h.awaited("b", p, store.StreamPage{First: 1, Last: 1})
			}
		}
		h.commit(l, l.publishes(fence, store.Publication{Stream: "a", Close: true}))
		next := h.continueRun(l, fence)
		h.finish(next, h.own(s, next), event.StatusCompleted)
		for n, p := range all {
			switch names[n%len(names)] {
			case "a":
				_, err := p.result(h, "await stream")
				h.check("await stream", err)
			case "c":
				h.awaited("c", p, store.StreamPage{Ended: true})
			}
		}
	}},
	{"AStreamIsFollowedFromItsBeginningToItsEnd", func(h *harness) {
		const chunks, followers = 300, 3
		l, fence := h.startOwned(h.session())
		var all []*pending[[]string]
		for range followers {
			all = append(all, h.follow(l.Run, "a"))
		}
		for n := 1; n <= chunks; n++ {
			if n%2 == 0 {
				h.publish(l, fence, body(fmt.Sprint(n)))
			} else {
				h.write(l, fence, side(fmt.Sprint(n), "w", uint64(n)))
			}
		}
		h.publish(l, fence, store.Publication{Close: true})
		for _, p := range all {
			got, err := p.result(h, "follow")
			h.check("follow", err)
			h.equal("chunks", got, numbered(1, chunks))
		}
	}},
}

// follow reads a stream in the background until it is closed or its chain has ended.
func (h *harness) follow(run event.RunID, name string) *pending[[]string] {
	return background(h, func(ctx context.Context) ([]string, error) {
		var got []string
		for from := uint64(1); ; {
			page, err := h.store.ReadStream(ctx, store.ReadStream{Run: run, Stream: name, From: from, Limit: 7})
			if err != nil {
				return got, err
			}
			for _, c := range page.Chunks {
				if c.Index != from {
					return got, fmt.Errorf("got chunk %d, want %d", c.Index, from)
				}
				got, from = append(got, string(c.Body)), from+1
			}
			switch {
			case from <= page.Last:
			case page.Closed || page.Ended:
				return got, nil
			default:
				if err := h.store.AwaitStream(ctx, run, name, from-1); err != nil {
					return got, err
				}
			}
		}
	})
}
