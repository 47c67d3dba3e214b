package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// refuse marks a fresh record as refused, and returns the item for its sender.
func (h *harness) refuse(l *Log, s store.Send) store.Item {
	h.Helper()
	i := h.item()
	i.Scope = store.ScopeRun
	h.marks(store.Mark{From: l.Run, ID: s.ID, Phase: store.PhaseFresh, Refusal: &i})
	return i
}

var refusalBehaviors = []behavior{
	{"M1_ARefusalIsAcceptedWithTheAnswer", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		send := h.newSend(h.runID())
		h.send(l, fence, send)
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		i := h.refuse(l, send)
		snap := h.inspect()
		h.equal("inbox", snap.Runs[l.Run].Inbox, []store.Item{i})
		h.equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {i.ID: h.clock.Now()}})
		h.equal("kept", snap.Kept, map[event.RunID][]event.ItemID(nil))
		h.equal("ready", snap.Ready, map[store.Route][]event.RunID{orders: {l.Run}})
		h.phases("after the answer", l, store.PhaseAnswered)
		h.equal("unread items told by the claim", h.claim(s, 1)[0].Unread, true)
	}},
	{"ARefusalMakesAParkedSenderReady", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		send := h.newSend(h.runID())
		c := withEffect(l.Commit(fence, l.Sleep(h.clock.Now().Add(time.Hour))...), store.EffectPark, "")
		c.Due = h.clock.Now().Add(time.Hour)
		h.commit(l, sending(c, send))
		h.poll(s, orders)
		h.refuse(l, send)
		snap := h.inspect()
		h.equal("queue state", snap.Runs[l.Run].QueueState, store.StateReady)
		h.equal("timers", snap.Timers, map[event.RunID]time.Time(nil))
		h.equal("wake", snap.Wakes[orders], true)
	}},
	{"ARefusalTellsTheOwner", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		send := h.newSend(h.runID())
		h.send(l, fence, send)
		p := h.wait(waitFor(s))
		h.refuse(l, send)
		h.equal("unread items in the wait", h.woken("wait", p).Unread, []event.RunID{l.Run})
		h.equal("unread items in the heartbeat", h.heartbeat(s).Unread, []event.RunID{l.Run})
	}},
	{"ARefusalReachesAClosingSender", func(h *harness) {
		l, fence, sends := h.sender(1)
		c := l.Commit(fence, l.Work()...)
		c.Closing = true
		h.commit(l, c)
		i := h.refuse(l, sends[0])
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{i})
	}},
	{"ARefusalStaysWithABlockedSender", func(h *harness) {
		l, fence, sends := h.sender(1)
		h.block(l, fence)
		i := h.refuse(l, sends[0])
		h.state(l.Run, store.StateBlocked)
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{i})
	}},
	{"ASenderThatHasEndedIsToldOfNoRefusal", func(h *harness) {
		l, fence, sends := h.sender(2)
		h.finish(l, fence, event.StatusCompleted)
		h.refuse(l, sends[0])
		h.check("delete", h.delete(l.Run))
		h.refuse(l, sends[1])
		snap := h.inspect()
		h.equal("inbox", snap.Runs[l.Run].Inbox, []store.Item(nil))
		h.equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
		h.phases("after the answers", l, store.PhaseAnswered, store.PhaseAnswered)
	}},
	{"ASenderThatHasContinuedIsToldOfNoRefusal", func(h *harness) {
		l, fence, sends := h.sender(2)
		next := h.continueRun(l, fence)
		i := h.item()
		h.marks(store.Mark{From: l.Run, ID: sends[0].ID, Phase: store.PhaseFresh, Refusal: &i})
		h.refuse(l, sends[1])
		snap := h.inspect()
		h.equal("inbox of the sender", snap.Runs[l.Run].Inbox, []store.Item(nil))
		h.equal("inbox of the next run", snap.Runs[next.Run].Inbox, []store.Item(nil))
		h.equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
		h.phases("after the answers", l, store.PhaseAnswered, store.PhaseAnswered)
	}},
	{"M1_ARefusalThatWasAcceptedIsNotPushedAgain", func(h *harness) {
		l, fence, sends := h.sender(2)
		i := h.refuse(l, sends[0])
		h.commit(l, consuming(l.Commit(fence, l.Receive(i)...), i))
		h.clock.Advance(time.Second)
		h.marks(store.Mark{From: l.Run, ID: sends[1].ID, Phase: store.PhaseFresh, Refusal: &i})
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item(nil))
		h.phases("after both answers", l, store.PhaseAnswered, store.PhaseAnswered)
	}},
	{"ARefusalMayComeWithTheSettlement", func(h *harness) {
		l, _, sends := h.sender(1)
		h.settled(l, store.PhaseAnswered, sends...)
		i := h.item()
		h.marks(store.Mark{From: l.Run, ID: sends[0].ID, Phase: store.PhaseAnswered, Refusal: &i})
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{i})
	}},
}
