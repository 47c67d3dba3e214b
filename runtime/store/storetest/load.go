package storetest

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var loadBehaviors = []behavior{
	{"LoadPagesThroughTheFrames", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for range 4 {
			h.commit(l, l.Commit(fence, l.Work()...))
		}
		all := h.load(l.Run).Frames
		h.equal("number of frames", len(all), 5)
		for _, c := range []struct {
			after uint64
			limit int
			want  [][]byte
		}{
			{0, 0, all}, {0, 2, all[:2]}, {2, 2, all[2:4]}, {4, 2, all[4:]}, {3, 0, all[3:]},
			{5, 0, nil}, {99, 3, nil}, {0, -1, nil}, {0, 99, all},
		} {
			got, err := h.store.Load(h.ctx, []store.Load{{Run: l.Run, After: c.after, Limit: c.limit}})
			h.check("load", err)
			h.equal("frames", got[0].Frames, c.want)
			h.equal("record", got[0].Record, h.record(l.Run))
		}
	}},
	{"LoadReturnsTheInboxIfAsked", func(h *harness) {
		l := h.start()
		i := h.deliver(l.Run)
		got, err := h.store.Load(h.ctx, []store.Load{{Run: l.Run, Limit: -1}, {Run: l.Run, Limit: -1, Inbox: true}})
		h.check("load", err)
		h.equal("not asked", got[0].Inbox, []store.Item(nil))
		h.equal("asked", got[1].Inbox, []store.Item{i})
		h.equal("frames", got[1].Frames, [][]byte(nil))
	}},
	{"LoadAnswersEachRunByItself", func(h *harness) {
		a, b := h.start(), h.start()
		got, err := h.store.Load(h.ctx, []store.Load{{Run: b.Run}, {Run: h.runID()}, {Run: a.Run}})
		h.check("load", err)
		h.equal("number of answers", len(got), 3)
		h.equal("first", got[0].Record.Run, b.Run)
		h.is("unknown run", got[1].Err, store.ErrRunNotFound)
		h.equal("third", got[2].Record.Run, a.Run)
	}},
	{"LoadedFramesStayAsTheyAreWhenTheLogGrows", func(h *harness) {
		l, fence := h.startOwned(h.session())
		i := h.deliver(l.Run)
		before := h.load(l.Run)
		frame := string(before.Frames[0])
		h.commit(l, consuming(l.Commit(fence, l.Receive(i)...), i))
		h.deliver(l.Run)
		h.equal("number of frames", len(before.Frames), 1)
		h.equal("frame", string(before.Frames[0]), frame)
		h.equal("inbox", before.Inbox, []store.Item{i})
	}},
	{"ResolveAnswersTheActiveRun", func(h *harness) {
		wid := h.workflowID("order")
		old := h.startAs(orders, wid)
		h.finish(old, h.own(h.session(), old), event.StatusCompleted)
		l := h.startAs(orders, wid)
		h.lineUp(wid)
		got, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("run", got, l.Run)
	}},
	{"ResolveAnswersTheLatestRunIfNoneIsActive", func(h *harness) {
		wid := h.workflowID("order")
		var last *Log
		for range 2 {
			last = h.startAs(orders, wid)
			h.finish(last, h.own(h.session(), last), event.StatusCompleted)
		}
		got, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("run", got, last.Run)
	}},
	{"ResolveOfAnUnknownWorkflowIDIsNotFound", func(h *harness) {
		h.start()
		for _, wid := range []string{"", h.workflowID("nobody")} {
			_, err := h.store.Resolve(h.ctx, wid)
			h.is("resolve", err, store.ErrRunNotFound)
		}
	}},
}
