package streams

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// streamRaceBehaviors test concurrent writers of a stream.
var streamRaceBehaviors = []behavior{
	{"ConcurrentWritersLeaveNoGapAndKeepTheirOrder", func(h *harness) {
		const writers, each = 8, 25
		l, fence := h.StartOwned(h.Session())
		suite.Together(writers+1, func(w int) {
			for n := 1; n <= each; n++ {
				text := fmt.Sprintf("%d %d", w, n)
				if w == writers {
					c := l.Publishes(fence, suite.Body(text))
					if got, err := h.Store.Commit(h.Ctx, []store.Commit{c}); err != nil || got[0].Err != nil {
						h.Errorf("commit: got %+v, %v", got, err)
						return
					}
					l.Accept(c)
					continue
				}
				for range 1 + n%2 { // every second publish is repeated, as if its answer were lost
					err := h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{suite.Side(text, fmt.Sprint(w), uint64(n))})
					if err != nil {
						h.Errorf("publish: %v", err)
						return
					}
				}
			}
		})
		chunks, page := h.Page(store.ReadStream{Run: l.Run, Stream: "a", Limit: 1000})
		h.Equal("how the stream stands", page, store.StreamPage{First: 1, Last: (writers + 1) * each})
		h.eachOnce(chunks, writers+1, each)
	}},
	{"ConcurrentTriesOfOnePublishWriteOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		chunks := []store.Publication{suite.Side("1", "w", 1), suite.Side("2", "w", 2)}
		suite.Together(20, func(int) {
			if err := h.Store.Publish(h.Ctx, l.Run, fence, chunks); err != nil {
				h.Errorf("publish: %v", err)
			}
		})
		h.Equal("chunks", h.stream(l.Run, "a"), []string{"1", "2"})
	}},
	{"F1_NothingIsPublishedUnderAFenceThatIsGone", func(h *harness) {
		s := h.Session()
		l := h.Start()
		for n := range 20 {
			fence := h.Own(s, l)
			text := fmt.Sprint(n)
			var err error
			suite.Together(2, func(i int) {
				if i == n%2 {
					err = h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{{Stream: text, Body: []byte(text)}})
					return
				}
				if err := h.Store.Release(h.Ctx, l.Run, fence); err != nil {
					h.Errorf("release: %v", err)
				}
			})
			if err != nil {
				h.Is("publish", err, store.ErrFenced)
			}
			h.Equal("there is a chunk", len(h.stream(l.Run, text)) == 1, err == nil)
		}
	}},
	{"AwaitStreamMissesNothingThatIsWrittenMeanwhile", func(h *harness) {
		const rounds = 60
		s := h.Session()
		l, fence := h.StartOwned(s)
		for n := range uint64(rounds) {
			suite.Together(4, func(i int) {
				if i == 0 {
					if err := h.Store.Publish(h.Ctx, l.Run, fence, []store.Publication{suite.Side("x", "w", n+1)}); err != nil {
						h.Errorf("publish: %v", err)
					}
					return
				}
				if _, err := h.AwaitOnce(h.Ctx, l.Run, "a", n); err != nil {
					h.Errorf("await stream: %v", err)
				}
			})
		}
		next := h.ContinueRun(l, fence)
		fence = h.Own(s, next)
		suite.Together(4, func(i int) {
			if i == 0 {
				c := suite.WithEffect(next.Commit(fence, next.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
				if got, err := h.Store.Commit(h.Ctx, []store.Commit{c}); err != nil || got[0].Err != nil {
					h.Errorf("finish: got %+v, %v", got, err)
				}
				return
			}
			if _, err := h.AwaitOnce(h.Ctx, l.Run, "a", rounds); err != nil {
				h.Errorf("await stream: %v", err)
			}
		})
	}},
	{"ReadersSeeAStreamWholeWhileItIsTrimmedAndDropped", func(h *harness) {
		const rounds, readers = 60, 3
		l, fence := h.StartOwned(h.Session())
		var written atomic.Bool
		var read atomic.Int32
		suite.Together(readers+1, func(i int) {
			for n := 0; i < readers && !written.Load(); n++ {
				if err := h.readPage(l.Run, n%4); err != nil {
					h.Errorf("read stream: %v", err)
					read.Add(rounds)
					return
				}
				read.Add(1)
			}
			if i < readers {
				return
			}
			defer written.Store(true)
			for n := 0; n < rounds || read.Load() < rounds; n++ {
				p := append(suite.Bodies(strings.Repeat("x", n), "y"), store.Publication{Stream: "a", Keep: 1 + n%5})
				if n%7 == 6 {
					p = append([]store.Publication{{Stream: "a", Drop: true}}, p...)
				}
				c := l.Publishes(fence, p...)
				if got, err := h.Store.Commit(h.Ctx, []store.Commit{c}); err != nil || got[0].Err != nil {
					h.Errorf("commit: got %+v, %v", got, err)
					return
				}
				l.Accept(c)
			}
		})
	}},
}

// eachOnce fails the test unless the chunks of each writer are present exactly once and in order.
func (h *harness) eachOnce(chunks []string, writers, each int) {
	h.Helper()
	for w := range writers {
		prefix := fmt.Sprintf("%d ", w)
		own := slices.DeleteFunc(slices.Clone(chunks), func(c string) bool { return !strings.HasPrefix(c, prefix) })
		var want []string
		for n := 1; n <= each; n++ {
			want = append(want, fmt.Sprintf("%d %d", w, n))
		}
		h.Equal(fmt.Sprintf("chunks of writer %d", w), own, want)
	}
}

// readPage returns an error unless a page shows the stream at one point in time. The test calls
// readPage concurrently with a writer.
func (h *harness) readPage(run event.RunID, tail int) error {
	page, err := h.Store.ReadStream(h.Ctx, store.ReadStream{Run: run, Stream: "a", Tail: tail})
	if err != nil {
		return err
	}
	n := uint64(len(page.Chunks))
	for i, c := range page.Chunks {
		if c.Index != page.Chunks[0].Index+uint64(i) {
			return fmt.Errorf("chunk %d of the page has index %d", i, c.Index)
		}
	}
	kept := uint64(0)
	if page.First > 0 {
		kept = page.Last - page.First + 1
	}
	want := kept
	if tail > 0 {
		want = min(kept, uint64(tail))
	}
	if n != want || n > 0 && page.Chunks[n-1].Index != page.Last {
		return fmt.Errorf("tail %d: got %d chunks, want %d up to %d: %+v", tail, n, want, page.Last, page)
	}
	return nil
}
