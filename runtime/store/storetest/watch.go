package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// watch blocks in the background until the log has more than n frames or the run has ended. It
// fails if Watch returns earlier.
func (h *harness) watch(run event.RunID, n uint64) *pending[struct{}] {
	return background(h, func(ctx context.Context) (struct{}, error) {
		if err := h.store.Watch(ctx, run, n); err != nil {
			return struct{}{}, err
		}
		got, err := h.store.Load(h.ctx, []store.Load{{Run: run, Limit: -1}})
		if err != nil {
			return struct{}{}, fmt.Errorf("load after watch: %s", err.Error()) // not %w, which would be taken for an error of Watch
		}
		if r := got[0].Record; !store.Watched(n, r.N, r.QueueState == store.StateEnded) {
			return struct{}{}, fmt.Errorf("watch returned with %d frames of a run that is %s, want more than %d", r.N, r.QueueState, n)
		}
		return struct{}{}, nil
	})
}

func (h *harness) watched(p *pending[struct{}]) {
	h.Helper()
	_, err := p.result(h, "watch")
	h.check("watch", err)
}

var watchBehaviors = []behavior{
	{"WatchReturnsAtOnceIfThereAreMoreFrames", func(h *harness) {
		l := h.start()
		h.watched(h.watch(l.Run, 0))
	}},
	{"WatchReturnsWithTheNextFrame", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.watch(l.Run, 1)
		h.commit(l, l.Commit(fence, l.Work()...))
		h.watched(p)
	}},
	{"WatchReturnsWithTheFrameThatItAskedFor", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.watch(l.Run, 3)
		for n := uint64(2); n <= 4; n++ {
			h.commit(l, l.Commit(fence, l.Work()...))
		}
		h.watched(p)
		h.equal("frames", h.record(l.Run).N, uint64(4))
	}},
	{"WatchReturnsWithTheEndOfTheRun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.watch(l.Run, 1)
		h.finish(l, fence, event.StatusCompleted)
		h.watched(p)
	}},
	{"WatchUntilEndReturnsWithTheEndAlone", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.watch(l.Run, store.UntilEnd)
		for range 3 { // ends another Watch while the run continues
			next := h.watch(l.Run, h.record(l.Run).N)
			h.commit(l, l.Commit(fence, l.Work()...))
			h.watched(next)
		}
		h.finish(l, fence, event.StatusCompleted)
		h.watched(p)
	}},
	{"WatchUntilEndOfARunThatHasEndedReturnsAtOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.finish(l, fence, event.StatusCompleted)
		h.watched(h.watch(l.Run, store.UntilEnd))
	}},
	{"WatchOfAnUnknownRunIsNotFound", func(h *harness) {
		_, err := h.watch(h.runID(), 0).result(h, "watch")
		h.is("watch", err, store.ErrRunNotFound)
	}},
	{"WatchEndsWithItsContext", func(h *harness) {
		l := h.start()
		p := h.watch(l.Run, 1)
		p.cancel()
		_, err := p.result(h, "watch")
		h.is("watch", err, context.Canceled)
	}},
	{"ManyWatchersAreAllTold", func(h *harness) {
		l, fence := h.startOwned(h.session())
		var all sync.WaitGroup
		for range 200 {
			p := h.watch(l.Run, 1)
			all.Go(func() { h.watchedIn(p) })
		}
		h.commit(l, l.Commit(fence, l.Work()...))
		all.Wait()
	}},
}

// watchedIn is watched for a goroutine other than the test's.
func (h *harness) watchedIn(p *pending[struct{}]) {
	select {
	case <-p.answer:
		if err := <-p.err; err != nil {
			h.Errorf("watch: %v", err)
		}
	case <-h.ctx.Done():
		h.Errorf("watch: still blocked after %v", 3*patience)
	}
}
