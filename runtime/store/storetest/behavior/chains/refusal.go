package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// refuse marks a fresh record as refused, and returns the item that informs the sender.
func (h *harness) refuse(l *suite.Log, s store.Send) store.Item {
	h.Helper()
	i := h.Item()
	i.Scope = store.ScopeRun
	h.Marks(store.Mark{From: l.Run, ID: s.ID, Phase: store.PhaseFresh, Refusal: &i})
	return i
}

var refusalBehaviors = []behavior{
	{"M1_ARefusalIsAcceptedWithTheAnswer", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		send := h.NewSend(h.RunID())
		h.Send(l, fence, send)
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		i := h.refuse(l, send)
		snap := h.Inspect()
		h.Equal("inbox", snap.Runs[l.Run].Inbox, []store.Item{i})
		h.Equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time{l.Run: {i.ID: h.Clock.Now()}})
		h.Equal("kept", snap.Kept, map[event.RunID][]event.ItemID(nil))
		h.Equal("ready", snap.Ready, map[store.Route][]event.RunID{suite.Orders: {l.Run}})
		h.phases("after the answer", l, store.PhaseAnswered)
		h.Equal("unread items told by the claim", h.Claim(s, 1)[0].Unread, true)
	}},
	{"ARefusalMakesAParkedSenderReady", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		send := h.NewSend(h.RunID())
		c := suite.WithEffect(l.Commit(fence, l.Sleep(h.Clock.Now().Add(time.Hour))...), store.EffectPark, "")
		c.Due = h.Clock.Now().Add(time.Hour)
		h.Commit(l, suite.Sending(c, send))
		h.Poll(s, suite.Orders)
		h.refuse(l, send)
		snap := h.Inspect()
		h.Equal("queue state", snap.Runs[l.Run].QueueState, store.StateReady)
		h.Equal("timers", snap.Timers, map[event.RunID]time.Time(nil))
		h.Equal("wake", snap.Wakes[suite.Orders], true)
	}},
	{"ARefusalTellsTheOwner", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		send := h.NewSend(h.RunID())
		h.Send(l, fence, send)
		p := h.Wait(suite.WaitFor(s))
		h.refuse(l, send)
		h.Equal("unread items in the wait", h.Woken("wait", p).Unread, []event.RunID{l.Run})
		h.Equal("unread items in the heartbeat", h.Heartbeat(s).Unread, []event.RunID{l.Run})
	}},
	{"ARefusalReachesAClosingSender", func(h *harness) {
		l, fence, sends := h.Sender(1)
		c := l.Commit(fence, l.Work()...)
		c.Closing = true
		h.Commit(l, c)
		i := h.refuse(l, sends[0])
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{i})
	}},
	{"ARefusalStaysWithABlockedSender", func(h *harness) {
		l, fence, sends := h.Sender(1)
		h.Block(l, fence)
		i := h.refuse(l, sends[0])
		h.State(l.Run, store.StateBlocked)
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{i})
	}},
	{"ASenderThatHasEndedIsToldOfNoRefusal", func(h *harness) {
		l, fence, sends := h.Sender(2)
		h.Finish(l, fence, event.StatusCompleted)
		h.refuse(l, sends[0])
		h.Check("delete", h.Delete(l.Run))
		h.refuse(l, sends[1])
		snap := h.Inspect()
		h.Equal("inbox", snap.Runs[l.Run].Inbox, []store.Item(nil))
		h.Equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
		h.phases("after the answers", l, store.PhaseAnswered, store.PhaseAnswered)
	}},
	{"ASenderThatHasContinuedIsToldOfNoRefusal", func(h *harness) {
		l, fence, sends := h.Sender(2)
		next := h.ContinueRun(l, fence)
		i := h.Item()
		h.Marks(store.Mark{From: l.Run, ID: sends[0].ID, Phase: store.PhaseFresh, Refusal: &i})
		h.refuse(l, sends[1])
		snap := h.Inspect()
		h.Equal("inbox of the sender", snap.Runs[l.Run].Inbox, []store.Item(nil))
		h.Equal("inbox of the next run", snap.Runs[next.Run].Inbox, []store.Item(nil))
		h.Equal("seen", snap.Seen, map[event.RunID]map[event.ItemID]time.Time(nil))
		h.phases("after the answers", l, store.PhaseAnswered, store.PhaseAnswered)
	}},
	{"M1_ARefusalThatWasAcceptedIsNotPushedAgain", func(h *harness) {
		l, fence, sends := h.Sender(2)
		i := h.refuse(l, sends[0])
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(i)...), i))
		h.Clock.Advance(time.Second)
		h.Marks(store.Mark{From: l.Run, ID: sends[1].ID, Phase: store.PhaseFresh, Refusal: &i})
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item(nil))
		h.phases("after both answers", l, store.PhaseAnswered, store.PhaseAnswered)
	}},
	{"ARefusalMayComeWithTheSettlement", func(h *harness) {
		l, _, sends := h.Sender(1)
		h.Settled(l, store.PhaseAnswered, sends...)
		i := h.Item()
		h.Marks(store.Mark{From: l.Run, ID: sends[0].ID, Phase: store.PhaseAnswered, Refusal: &i})
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{i})
	}},
}
