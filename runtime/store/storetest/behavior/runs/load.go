package runs

import (
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var loadBehaviors = []behavior{
	{"LoadPagesThroughTheFrames", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for range 4 {
			h.Commit(l, l.Commit(fence, l.Work()...))
		}
		all := h.Load(l.Run).Frames
		h.Equal("number of frames", len(all), 5)
		for _, c := range []struct {
			after uint64
			limit int
			want  [][]byte
		}{
			{0, 0, all}, {0, 2, all[:2]}, {2, 2, all[2:4]}, {4, 2, all[4:]}, {3, 0, all[3:]},
			{5, 0, nil}, {99, 3, nil}, {0, -1, nil}, {0, 99, all},
		} {
			got, err := h.Store.Load(h.Ctx, []store.Load{{Run: l.Run, After: c.after, Limit: c.limit}})
			h.Check("load", err)
			h.Equal("frames", got[0].Frames, c.want)
			h.Equal("record", got[0].Record, h.Record(l.Run))
		}
	}},
	{"LoadReturnsTheInboxIfAsked", func(h *harness) {
		l := h.Start()
		i := h.Deliver(l.Run)
		got, err := h.Store.Load(h.Ctx, []store.Load{{Run: l.Run, Limit: -1}, {Run: l.Run, Limit: -1, Inbox: true}})
		h.Check("load", err)
		h.Equal("not asked", got[0].Inbox, []store.Item(nil))
		h.Equal("asked", got[1].Inbox, []store.Item{i})
		h.Equal("frames", got[1].Frames, [][]byte(nil))
	}},
	{"LoadReadsTheRecordAndTheInboxAtTheSameMoment", func(h *harness) {
		const consumed = 100 // frames after the first one, each of which consumes one item
		l, fence := h.StartOwned(h.Session())
		items := []store.Item{h.Deliver(l.Run)}
		stop := make(chan struct{})
		var read []store.Loaded
		var failed error
		var reading sync.WaitGroup
		reading.Go(func() {
			for failed == nil {
				var got []store.Loaded
				if got, failed = h.Store.Load(h.Ctx, []store.Load{{Run: l.Run, Limit: -1, Inbox: true}}); failed == nil {
					read, failed = append(read, got[0]), got[0].Err
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		for n := range consumed {
			items = append(items, h.Deliver(l.Run))
			h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(items[n])...), items[n]))
		}
		close(stop)
		reading.Wait()
		h.Check("load", failed)
		for i := range read {
			n := int(read[i].Record.N) - 1 // items that the frames have consumed
			if got := read[i].Inbox; len(got) == 0 || got[0].ID != items[n].ID {
				h.Fatalf("load %d of %d: %d frames have consumed %d items, and the inbox has %d items and does not begin with the next one", i, len(read), n+1, n, len(got))
			}
		}
	}},
	{"LoadAnswersEachRunByItself", func(h *harness) {
		a, b := h.Start(), h.Start()
		got, err := h.Store.Load(h.Ctx, []store.Load{{Run: b.Run}, {Run: h.RunID()}, {Run: a.Run}})
		h.Check("load", err)
		h.Equal("number of answers", len(got), 3)
		h.Equal("first", got[0].Record.Run, b.Run)
		h.Is("unknown run", got[1].Err, store.ErrRunNotFound)
		h.Equal("third", got[2].Record.Run, a.Run)
	}},
	{"LoadedFramesStayAsTheyAreWhenTheLogGrows", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		i := h.Deliver(l.Run)
		before := h.Load(l.Run)
		frame := string(before.Frames[0])
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(i)...), i))
		h.Deliver(l.Run)
		h.Equal("number of frames", len(before.Frames), 1)
		h.Equal("frame", string(before.Frames[0]), frame)
		h.Equal("inbox", before.Inbox, []store.Item{i})
	}},
	{"ResolveAnswersTheActiveRun", func(h *harness) {
		wid := h.WorkflowID("order")
		old := h.StartAs(suite.Orders, wid)
		h.Finish(old, h.Own(h.Session(), old), event.StatusCompleted)
		l := h.StartAs(suite.Orders, wid)
		h.LineUp(wid)
		got, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("run", got, l.Run)
	}},
	{"ResolveAnswersTheLatestRunIfNoneIsActive", func(h *harness) {
		wid := h.WorkflowID("order")
		var last *suite.Log
		for range 2 {
			last = h.StartAs(suite.Orders, wid)
			h.Finish(last, h.Own(h.Session(), last), event.StatusCompleted)
		}
		got, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("run", got, last.Run)
	}},
	{"ResolveOfAnUnknownWorkflowIDIsNotFound", func(h *harness) {
		h.Start()
		for _, wid := range []string{"", h.WorkflowID("nobody")} {
			_, err := h.Store.Resolve(h.Ctx, wid)
			h.Is("resolve", err, store.ErrRunNotFound)
		}
	}},
}
