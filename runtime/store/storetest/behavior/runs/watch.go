package runs

import (
	"context"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var watchBehaviors = []behavior{
	{"WatchReturnsAtOnceIfThereAreMoreFrames", func(h *harness) {
		l := h.Start()
		h.Watched(h.Watch(l.Run, 0))
	}},
	{"WatchReturnsWithTheNextFrame", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.Watch(l.Run, 1)
		h.Commit(l, l.Commit(fence, l.Work()...))
		h.Watched(p)
	}},
	{"WatchReturnsWithTheFrameThatItAskedFor", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.Watch(l.Run, 3)
		for n := uint64(2); n <= 4; n++ {
			h.Commit(l, l.Commit(fence, l.Work()...))
		}
		h.Watched(p)
		h.Equal("frames", h.Record(l.Run).N, uint64(4))
	}},
	{"WatchReturnsWithTheEndOfTheRun", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.Watch(l.Run, 1)
		h.Finish(l, fence, event.StatusCompleted)
		h.Watched(p)
	}},
	{"WatchUntilEndReturnsWithTheEndAlone", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.Watch(l.Run, store.UntilEnd)
		for range 3 { // each commit ends another Watch, but not p
			next := h.Watch(l.Run, h.Record(l.Run).N)
			h.Commit(l, l.Commit(fence, l.Work()...))
			h.Watched(next)
		}
		ended, end := context.WithCancel(h.Ctx)
		end()
		h.Is("watch with a context that has ended", h.Store.Watch(ended, l.Run, store.UntilEnd), context.Canceled)
		h.Finish(l, fence, event.StatusCompleted)
		h.Watched(p)
	}},
	{"WatchUntilEndOfARunThatHasEndedReturnsAtOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Finish(l, fence, event.StatusCompleted)
		h.Watched(h.Watch(l.Run, store.UntilEnd))
	}},
	{"WatchOfAnUnknownRunIsNotFound", func(h *harness) {
		_, err := h.Watch(h.RunID(), 0).Result(h.Harness, "watch")
		h.Is("watch", err, store.ErrRunNotFound)
	}},
	{"WatchEndsWithItsContext", func(h *harness) {
		l := h.Start()
		p := h.Watch(l.Run, 1)
		p.Cancel()
		_, err := p.Result(h.Harness, "watch")
		h.Is("watch", err, context.Canceled)
	}},
	{"ManyWatchersAreAllTold", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		var all sync.WaitGroup
		for range 200 {
			p := h.Watch(l.Run, 1)
			all.Go(func() { h.watchedIn(p) })
		}
		h.Commit(l, l.Commit(fence, l.Work()...))
		all.Wait()
	}},
}

// watchedIn does the same as Watched and can be called from any goroutine.
func (h *harness) watchedIn(p *suite.Pending[struct{}]) {
	select {
	case <-p.Answer:
		if err := <-p.Err; err != nil {
			h.Errorf("watch: %v", err)
		}
	case <-h.Ctx.Done():
		h.Errorf("watch: still blocked after %v", 3*suite.Patience)
	}
}
