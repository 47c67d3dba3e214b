package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// blocks fails the test unless AwaitStream blocks. AwaitStream may return early, but not in each of
// 20 calls.
func (h *harness) blocks(what string, run event.RunID, name string, after uint64) {
	h.Helper()
	for range 20 {
		ctx, cancel := context.WithTimeout(h.Ctx, 50*time.Millisecond)
		err := h.Store.AwaitStream(ctx, run, name, after)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		h.Check("await stream "+what, err)
	}
	h.Fatalf("await stream %s: it does not block", what)
}

// awaiting calls AwaitStream of the harness in the background. It returns after another AwaitStream
// for the same chunk has blocked. The first call has then very probably blocked as well.
func (h *harness) awaiting(run event.RunID, name string, after uint64) *suite.Pending[store.StreamPage] {
	h.Helper()
	p := h.AwaitStream(run, name, after)
	h.blocks("that others await, too", run, name, after)
	return p
}

// streamAwaitBehaviors test which operations end AwaitStream.
var streamAwaitBehaviors = []behavior{
	{"AwaitStreamReturnsAtOnceIfThereIsMore", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Publish(l, fence, suite.Bodies("1", "2")...)
		h.Commit(l, l.Publishes(fence, store.Publication{Stream: "closed", Body: []byte("x"), Close: true}))
		for _, after := range []uint64{0, 1, 3, 1 << 60} {
			h.Check("await stream", h.Store.AwaitStream(h.Ctx, l.Run, "a", after))
		}
		h.Check("await a closed stream", h.Store.AwaitStream(h.Ctx, l.Run, "closed", 1))
		h.Finish(l, fence, event.StatusCompleted)
		for _, after := range []uint64{0, 2} {
			h.Check("await a stream of a chain that has ended", h.Store.AwaitStream(h.Ctx, l.Run, "a", after))
		}
		h.Check("await an empty stream of a chain that has ended", h.Store.AwaitStream(h.Ctx, l.Run, "b", 0))
	}},
	{"AwaitStreamBlocksWhileNothingHappens", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.blocks("that is empty", l.Run, "a", 0)
		h.Publish(l, fence, suite.Body("1"))
		h.blocks("with a chunk", l.Run, "a", 1)
		h.blocks("beside it", l.Run, "b", 0)
		h.Publish(l, fence, suite.Body("2"), store.Publication{Keep: 1})
		h.blocks("that was trimmed", l.Run, "a", 2)
		next := h.ContinueRun(l, fence)
		h.blocks("of a run that has continued", l.Run, "a", 2)
		h.blocks("of the run that it continued as", next.Run, "a", 2)
	}},
	{"AwaitStreamIsToldOfACommit", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.awaiting(l.Run, "a", 0)
		h.Publish(l, fence, suite.Body("1"))
		h.Awaited("of the first chunk", p, store.StreamPage{First: 1, Last: 1})
		p = h.AwaitStream(l.Run, "a", 1)
		h.Publish(l, fence, suite.Bodies("2", "3")...)
		h.Awaited("of more chunks", p, store.StreamPage{First: 1, Last: 3})
	}},
	{"AwaitStreamIsToldOfAPublish", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for n := range uint64(3) {
			p := h.awaiting(l.Run, "a", n)
			h.Write(l, fence, suite.Side("x", "w", n+1))
			h.Awaited("of a chunk", p, store.StreamPage{First: 1, Last: n + 1})
		}
	}},
	{"AwaitStreamIsToldOfTheEndOfAStream", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.awaiting(l.Run, "a", 0)
		h.Publish(l, fence, store.Publication{Close: true})
		h.Awaited("of the close", p, store.StreamPage{Closed: true})
		h.Publish(l, fence, store.Publication{Drop: true, Body: []byte("1")}, suite.Body("2"))
		p = h.awaiting(l.Run, "a", 2)
		h.Publish(l, fence, store.Publication{Drop: true})
		h.Awaited("of the drop", p, store.StreamPage{})
		h.Publish(l, fence, suite.Bodies("1", "2")...)
		p = h.AwaitStream(l.Run, "a", 2)
		h.Publish(l, fence, store.Publication{Drop: true, Body: []byte("1")})
		h.Awaited("of a new stream", p, store.StreamPage{First: 1, Last: 1})
	}},
	{"AwaitStreamIsToldOfTheEndOfTheChain", func(h *harness) {
		s := h.Session()
		first, fence := h.StartOwned(s)
		h.Publish(first, fence, suite.Body("1"))
		of := h.AwaitStream(first.Run, "a", 1)
		empty := h.AwaitStream(first.Run, "b", 0)
		second := h.ContinueRun(first, fence)
		ofSecond := h.AwaitStream(second.Run, "a", 1)
		third := h.ContinueRun(second, h.Own(s, second))
		ofThird := h.awaiting(third.Run, "a", 1)
		c := suite.WithEffect(third.Commit(h.Own(s, third), third.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		c.Progress = true // like nearly all commits that end a run
		h.Commit(third, c)
		want := store.StreamPage{First: 1, Last: 1, Ended: true}
		h.Awaited("of the first run", of, want)
		h.Awaited("of the second run", ofSecond, want)
		h.Awaited("of the last run", ofThird, want)
		h.Awaited("of an empty stream", empty, store.StreamPage{Ended: true})
	}},
	{"AwaitStreamIsToldByAnyRunOfTheChain", func(h *harness) {
		s := h.Session()
		first, fence := h.StartOwned(s)
		p := h.AwaitStream(first.Run, "a", 0)
		c, second := first.Continue(fence, nil)
		c.Publish = suite.Bodies("1")
		h.Commit(first, c)
		h.Awaited("by the commit that continues", p, store.StreamPage{First: 1, Last: 1})
		p = h.AwaitStream(first.Run, "a", 1)
		fence = h.Own(s, second)
		h.Publish(second, fence, suite.Body("2"))
		h.Awaited("by a commit of the second run", p, store.StreamPage{First: 1, Last: 2})
		p = h.AwaitStream(first.Run, "a", 2)
		h.Write(second, fence, suite.Side("3", "w", 1))
		h.Awaited("by a step of the second run", p, store.StreamPage{First: 1, Last: 3})
	}},
	{"AwaitStreamGoesOnWhenTheRunContinues", func(h *harness) {
		s := h.Session()
		first, fence := h.StartOwned(s)
		chunk, end := h.awaiting(first.Run, "a", 0), h.awaiting(first.Run, "b", 0)
		second := h.ContinueRun(first, fence)
		third := h.ContinueRun(second, h.Own(s, second))
		fence = h.Own(s, third)
		h.Write(third, fence, suite.Side("1", "w", 1))
		h.Awaited("of a chunk", chunk, store.StreamPage{First: 1, Last: 1})
		h.Finish(third, fence, event.StatusCompleted)
		h.Awaited("of the end", end, store.StreamPage{Ended: true})
	}},
	{"AwaitStreamEndsWhenTheRunIsDeleted", func(h *harness) {
		for range 2 {
			s := h.Session()
			first, fence := h.StartOwned(s)
			second := h.ContinueRun(first, fence)
			other := h.AwaitStream(second.Run, "a", 0)
			p := h.awaiting(first.Run, "a", 0)
			h.Check("delete", h.Delete(first.Run))
			_, err := p.Result(h.Harness, "await stream")
			h.Is("await stream of the run that was deleted", err, store.ErrRunNotFound)
			fence = h.Own(s, second)
			h.Publish(second, fence, suite.Body("1"))
			h.Awaited("of the run that was not", other, store.StreamPage{First: 1, Last: 1})
			h.Finish(second, fence, event.StatusCompleted)
		}
	}},
	{"AwaitStreamEndsWhenTheRunIsPurged", func(h *harness) {
		runs := h.Chain(3, suite.Keep(suite.Long))
		other := h.AwaitStream(runs[0].Run, "a", 0)
		p := h.awaiting(runs[1].Run, "a", 0)
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		_, err := p.Result(h.Harness, "await stream")
		h.Is("await stream of the run that was purged", err, store.ErrRunNotFound)
		h.Publish(runs[2], h.Own(h.Session(), runs[2]), suite.Body("1"))
		h.Awaited("of the run that was not", other, store.StreamPage{First: 1, Last: 1})
	}},
	{"AwaitStreamOfAnUnknownRunIsNotFound", func(h *harness) {
		h.Is("await stream", h.Store.AwaitStream(h.Ctx, h.RunID(), "a", 0), store.ErrRunNotFound)
	}},
	{"AwaitStreamEndsWithItsContext", func(h *harness) {
		l := h.Start()
		p := suite.Background(h.Harness, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, h.Store.AwaitStream(ctx, l.Run, "a", 0)
		})
		p.Cancel()
		_, err := p.Result(h.Harness, "await stream")
		if err != nil { // AwaitStream may return early with nil
			h.Is("await stream", err, context.Canceled)
		}
		ctx, cancel := context.WithCancel(h.Ctx)
		cancel()
		h.Is("await stream", h.Store.AwaitStream(ctx, l.Run, "a", 0), context.Canceled)
	}},
	{"ManyWhoAwaitStreamsAreAllTold", func(h *harness) {
		const each = 50
		s := h.Session()
		l, fence := h.StartOwned(s)
		var all []*suite.Pending[store.StreamPage]
		names := []string{"a", "b", "c"}
		for range each {
			for _, name := range names {
				all = append(all, h.AwaitStream(l.Run, name, 0))
			}
		}
		h.Write(l, fence, store.Publication{Stream: "b", Body: []byte("x"), Writer: "w", Nth: 1})
		for n, p := range all {
			if names[n%len(names)] == "b" {
				h.Awaited("b", p, store.StreamPage{First: 1, Last: 1})
			}
		}
		h.Commit(l, l.Publishes(fence, store.Publication{Stream: "a", Close: true}))
		next := h.ContinueRun(l, fence)
		h.Finish(next, h.Own(s, next), event.StatusCompleted)
		for n, p := range all {
			switch names[n%len(names)] {
			case "a":
				_, err := p.Result(h.Harness, "await stream")
				h.Check("await stream", err)
			case "c":
				h.Awaited("c", p, store.StreamPage{Ended: true})
			}
		}
	}},
	{"AStreamIsFollowedFromItsBeginningToItsEnd", func(h *harness) {
		const chunks, followers = 300, 3
		l, fence := h.StartOwned(h.Session())
		var all []*suite.Pending[[]string]
		for range followers {
			all = append(all, h.follow(l.Run, "a"))
		}
		for n := 1; n <= chunks; n++ {
			if n%2 == 0 {
				h.Publish(l, fence, suite.Body(fmt.Sprint(n)))
			} else {
				h.Write(l, fence, suite.Side(fmt.Sprint(n), "w", uint64(n)))
			}
		}
		h.Publish(l, fence, store.Publication{Close: true})
		for _, p := range all {
			got, err := p.Result(h.Harness, "follow")
			h.Check("follow", err)
			h.Equal("chunks", got, numbered(1, chunks))
		}
	}},
}

// follow reads a stream in the background until the stream is closed or its chain has ended.
func (h *harness) follow(run event.RunID, name string) *suite.Pending[[]string] {
	return suite.Background(h.Harness, func(ctx context.Context) ([]string, error) {
		var got []string
		for from := uint64(1); ; {
			page, err := h.Store.ReadStream(ctx, store.ReadStream{Run: run, Stream: name, From: from, Limit: 7})
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
				if err := h.Store.AwaitStream(ctx, run, name, from-1); err != nil {
					return got, err
				}
			}
		}
	})
}
