package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// outboxOrderBehaviors test the order of the records between two runs, and receivers that do not
// exist.
var outboxOrderBehaviors = []behavior{
	{"O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair", func(h *harness) {
		l, fence, pair := h.sender(2)
		other := h.newSend(h.runID())
		h.send(l, fence, other)
		h.mark(l, store.PhaseFresh, pair[1], other)
		h.clock.Advance(time.Minute)
		h.mark(l, store.PhaseFresh, pair[0])
		h.clock.Advance(store.Horizon - time.Minute)
		next := h.wants("while the first is not due", other)
		h.equal("next", next, h.clock.Now().Add(time.Minute))
		h.clock.Advance(time.Minute)
		h.wants("when both are due", pair[0], pair[1], other)
		got, next := h.outbox(1)
		h.equal("first of them", got[0].ID, pair[0].ID)
		if next.After(h.clock.Now()) {
			h.Fatalf("next: got %v, want a time that is past", next)
		}
	}},
	{"O1_AnAnsweredRecordIsReturnedBehindAFreshOneOfItsPair", func(h *harness) {
		l, _, pair := h.sender(2)
		h.mark(l, store.PhaseFresh, pair[1])
		h.clock.Advance(store.Horizon)
		h.wants("", pair[0], pair[1])
		got, _ := h.outbox(1)
		h.equal("first of them", got[0].ID, pair[0].ID)
	}},
	{"O1_AnAnsweredRecordDoesNotWaitForSettledOnes", func(h *harness) {
		l, _, pair := h.sender(2)
		h.mark(l, store.PhaseFresh, pair[1])
		h.clock.Advance(time.Minute)
		h.settled(l, store.PhaseSettled, pair[0])
		h.clock.Advance(store.Horizon - time.Minute)
		h.equal("next", h.wants("", pair[1]), h.clock.Now().Add(time.Minute))
	}},
	{"O1_ASettledRecordDoesNotPartThePairAroundIt", func(h *harness) {
		for _, settled := range []int{0, 1, 2} { // the first, a middle one, the last
			l, fence, pair := h.sender(3)
			h.settled(l, store.PhaseSettled, pair[settled])
			late := h.newSend(pair[0].To)
			h.send(l, fence, late)
			h.settled(l, store.PhaseAnswered, pair...)
			h.marks(store.Mark{From: l.Run, ID: late.ID, Phase: store.PhaseFresh, Unknown: true})
			want := []store.Phase{store.PhaseFresh, store.PhaseFresh, store.PhaseFresh, store.PhaseFresh}
			want[settled] = store.PhaseSettled
			h.phases("after that", l, want...)
		}
	}},
	{"ASettledRecordDoesNotWaitForItsPair", func(h *harness) {
		l, _, pair := h.sender(2)
		h.settled(l, store.PhaseSettled, pair[1])
		h.clock.Advance(time.Minute)
		h.mark(l, store.PhaseFresh, pair[0])
		h.clock.Advance(store.Horizon - time.Minute)
		h.equal("next", h.wants("", pair[1]), h.clock.Now().Add(time.Minute))
	}},
	{"MarkIgnoresARecordInAnotherPhase", func(h *harness) {
		all := []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled}
		for _, phase := range all {
			l, _, sends := h.sender(2)
			h.settled(l, phase, sends...)
			h.unchanged("marks in other phases", func() {
				for _, other := range append(all, 0, 4) {
					if other == phase {
						continue
					}
					refusal := h.item()
					h.marks(store.Mark{From: l.Run, ID: sends[1].ID, Phase: other, Refusal: &refusal})
					h.marks(store.Mark{From: l.Run, ID: sends[1].ID, Phase: other, Unknown: true})
				}
			})
			h.settled(l, 0, sends...)
		}
	}},
	{"MarkOfARecordThatIsNotThereDoesNothing", func(h *harness) {
		l, _, sends := h.sender(1)
		other := h.start()
		refusal := h.item()
		h.unchanged("marks of nothing", func() {
			h.marks()
			h.marks(store.Mark{From: l.Run, ID: h.ids.Item(), Phase: store.PhaseFresh, Refusal: &refusal})
			h.marks(store.Mark{From: other.Run, ID: sends[0].ID, Phase: store.PhaseFresh, Refusal: &refusal})
			h.marks(store.Mark{From: h.runID(), ID: sends[0].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true})
		})
	}},
	{"MarkJudgesEachMarkByItself", func(h *harness) {
		l, _, sends := h.sender(3)
		h.marks(
			store.Mark{From: l.Run, ID: sends[0].ID, Phase: store.PhaseSettled},
			store.Mark{From: l.Run, ID: sends[1].ID, Phase: store.PhaseFresh},
			store.Mark{From: l.Run, ID: sends[2].ID, Phase: store.PhaseFresh},
			store.Mark{From: l.Run, ID: sends[2].ID, Phase: store.PhaseAnswered},
		)
		h.phases("after all marks", l, store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled)
	}},
	{"AnUnknownReceiverIsAnAnswerIfThereIsNothingBefore", func(h *harness) {
		l, fence := h.startOwned(h.session())
		a := h.newSend(h.runID())
		b, c := h.newSend(a.To), h.newSend(a.To)
		h.send(l, fence, a, b, c, h.newSend(h.runID()))
		h.settled(l, 0, a)
		refusal := h.item()
		mark := store.Mark{From: l.Run, ID: b.ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true}
		h.marks(mark)
		h.equal("inbox of the sender", h.load(l.Run).Inbox, []store.Item{refusal})
		mark.Phase, mark.Refusal = store.PhaseAnswered, nil
		h.marks(mark)
		h.phases("after two answers", l, store.PhaseSettled, store.PhaseFresh, store.PhaseFresh)
	}},
	{"O1_AnUnknownReceiverAfterASettledRecordIsNoAnswer", func(h *harness) {
		for range 2 { // for two pairs, one after the other
			l, _, pair := h.sender(4)
			h.settled(l, store.PhaseSettled, pair[2], pair[0])
			refusal := h.item()
			mark := store.Mark{From: l.Run, ID: pair[3].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true}
			h.unchanged("a mark after two settled records", func() { h.marks(mark) })
			h.settled(l, 0, pair[0])
			h.unchanged("a mark after a settled record and a fresh record", func() { h.marks(mark) })
			h.settled(l, 0, pair[1])
			h.unchanged("a mark after a settled record", func() { h.marks(mark) })
			mark.Unknown = false // the relay has retried it
			h.marks(mark)
			h.equal("inbox of the sender", h.load(l.Run).Inbox, []store.Item{refusal})
			h.settled(l, 0, pair[2])
			h.mark(l, store.PhaseAnswered, pair[3])
			h.mark(l, store.PhaseSettled, pair[3])
			h.equal("records", h.inspect().Outbox, []store.Outgoing(nil))
		}
	}},
	{"O1_ALateRefusalIsIgnored", func(h *harness) {
		l, _, sends := h.sender(2)
		h.settled(l, store.PhaseAnswered, sends[0])
		read, _ := h.outbox(10)
		refusal := h.item()
		mark := store.Mark{From: l.Run, ID: sends[1].ID, Phase: store.PhaseFresh, Deadline: read[0].Deadline}
		refused, unknown := mark, mark
		refused.Refusal, unknown.Unknown = &refusal, true
		h.clock.Advance(read[0].Deadline.Sub(h.clock.Now()) + time.Millisecond)
		h.unchanged("late marks", func() { h.marks(refused, unknown) })
		h.marks(mark)
		h.phases("after an answer that is late", l, store.PhaseAnswered, store.PhaseAnswered)
		h.clock.Advance(store.Horizon)
		read, _ = h.outbox(10)
		h.clock.Advance(read[0].Deadline.Sub(h.clock.Now()))
		refused.ID, refused.Phase, refused.Deadline = sends[0].ID, store.PhaseAnswered, read[0].Deadline
		h.marks(refused)
		h.equal("inbox of the sender at the deadline itself", h.load(l.Run).Inbox, []store.Item{refusal})
	}},
	{"O1_AnUnknownReceiverTakesBackWhatWasAnsweredBefore", func(h *harness) {
		l, fence := h.startOwned(h.session())
		to := h.runID()
		pair := []store.Send{h.newSend(to), h.newSend(to), h.newSend(to), h.newSend(to), h.newSend(to)}
		other := h.newSend(h.runID())
		h.send(l, fence, append([]store.Send{other}, pair...)...)
		h.settled(l, store.PhaseAnswered, other, pair[1], pair[2], pair[4])
		h.settled(l, store.PhaseSettled, pair[0])
		written := h.clock.Now()
		h.clock.Advance(time.Second)
		refusal := h.item()
		h.marks(store.Mark{From: l.Run, ID: pair[3].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true})
		h.phases("of the pair and another", l, store.PhaseAnswered, store.PhaseSettled, store.PhaseFresh, store.PhaseFresh, store.PhaseFresh, store.PhaseAnswered)
		h.equal("inbox of the sender", h.load(l.Run).Inbox, []store.Item(nil))
		for _, o := range h.inspect().Outbox {
			want := written
			if o.ID == pair[1].ID || o.ID == pair[2].ID {
				want = h.clock.Now()
			}
			h.equal("since", o.Since, want)
		}
		h.wants("after that", pair[1], pair[2], pair[3])
	}},
	{"O1_AnUnknownReceiverLeavesAFreshRecordBehindAnotherFreshOne", func(h *harness) {
		l, _, pair := h.sender(2)
		h.clock.Advance(time.Second)
		refusal := h.item()
		h.unchanged("the mark", func() {
			h.marks(store.Mark{From: l.Run, ID: pair[1].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true})
		})
	}},
	{"O2_AnUnknownReceiverTakesBackARecordThatIsSettled", func(h *harness) {
		l, _, pair := h.sender(3)
		h.settled(l, store.PhaseAnswered, pair...)
		h.clock.Advance(store.Horizon)
		h.marks(store.Mark{From: l.Run, ID: pair[1].ID, Phase: store.PhaseAnswered, Unknown: true})
		h.phases("after that", l, store.PhaseFresh, store.PhaseFresh, store.PhaseAnswered)
		h.wants("after that", pair...)
	}},
	{"AnUnknownReceiverLetsASettledRecordGo", func(h *harness) {
		l, _, pair := h.sender(2)
		h.settled(l, store.PhaseSettled, pair[1])
		h.marks(store.Mark{From: l.Run, ID: pair[1].ID, Phase: store.PhaseSettled, Unknown: true})
		h.phases("after that", l, store.PhaseFresh)
	}},
	{"HeartbeatTellsWhenTheOutboxWantsSomething", func(h *harness) {
		s := h.session()
		h.equal("of an empty outbox", h.heartbeat(s).Outbox, time.Time{})
		l, fence := h.startOwned(s)
		a, b := h.newSend(h.runID()), h.newSend(h.runID())
		h.send(l, fence, a, b)
		past := func(what string) {
			h.Helper()
			if got := h.heartbeat(s).Outbox; got.IsZero() || got.After(h.clock.Now()) {
				h.Fatalf("outbox time %s: got %v, want a time that is past", what, got)
			}
		}
		past("of fresh records")
		h.mark(l, store.PhaseFresh, a)
		past("while one is fresh")
		due := h.clock.Now().Add(store.Horizon)
		h.clock.Advance(time.Second)
		h.mark(l, store.PhaseFresh, b)
		h.equal("outbox time of answered records", h.heartbeat(s).Outbox, due)
		h.clock.Advance(store.Horizon - time.Second)
		past("when one is to be settled")
		h.mark(l, store.PhaseAnswered, a, b)
		h.equal("outbox time of settled records", h.heartbeat(s).Outbox, h.clock.Now().Add(store.Horizon))
		h.mark(l, store.PhaseSettled, a, b)
		h.equal("outbox time in the end", h.heartbeat(s).Outbox, time.Time{})
	}},
	{"O1_ConcurrentRelaysMoveEachRecordOnce", func(h *harness) {
		const records, relays = 60, 4
		l, fence := h.startOwned(h.session())
		for range records / 6 {
			to := h.runID()
			h.send(l, fence, h.newSend(to), h.newSend(to), h.newSend(to), h.newSend(h.runID()), h.newSend(to), h.newSend(to))
		}
		together(relays, func(int) {
			for {
				got, next, err := h.store.Outbox(h.ctx, 0, 7)
				if err != nil {
					h.Errorf("outbox: %v", err)
					return
				}
				var marks []store.Mark
				for _, o := range got {
					refusal := h.item() // a refusal per relay, so that accepting two would be visible
					marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: o.Phase, Refusal: &refusal})
				}
				if err := h.store.Mark(h.ctx, 0, marks); err != nil {
					h.Errorf("mark: %v", err)
					return
				}
				if len(got) == 0 && next.After(h.clock.Now()) {
					return
				}
			}
		})
		h.equal("number of refusals", len(h.load(l.Run).Inbox), records)
		for _, o := range h.inspect().Outbox {
			h.equal("phase", o.Phase, store.PhaseAnswered)
		}
	}},
}
