package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// outboxOrderBehaviors test the order of the records from one sender to one receiver, and records
// whose receiver does not exist.
var outboxOrderBehaviors = []behavior{
	{"O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair", func(h *harness) {
		l, fence, pair := h.Sender(2)
		other := h.NewSend(h.RunID())
		h.Send(l, fence, other)
		h.Mark(l, store.PhaseFresh, pair[1], other)
		h.Clock.Advance(time.Minute)
		h.Mark(l, store.PhaseFresh, pair[0])
		h.Clock.Advance(store.Horizon - time.Minute)
		next := h.Wants("while the first is not due", other)
		h.Equal("next", next, h.Clock.Now().Add(time.Minute))
		h.Clock.Advance(time.Minute)
		h.Wants("when both are due", pair[0], pair[1], other)
		got, next := h.Outbox(1)
		h.Equal("first of them", got[0].ID, pair[0].ID)
		if next.After(h.Clock.Now()) {
			h.Fatalf("next: got %v, want a time that is past", next)
		}
	}},
	{"O1_AnAnsweredRecordIsReturnedBehindAFreshOneOfItsPair", func(h *harness) {
		l, _, pair := h.Sender(2)
		h.Mark(l, store.PhaseFresh, pair[1])
		h.Clock.Advance(store.Horizon)
		h.Wants("", pair[0], pair[1])
		got, _ := h.Outbox(1)
		h.Equal("first of them", got[0].ID, pair[0].ID)
	}},
	{"O1_AnAnsweredRecordDoesNotWaitForSettledOnes", func(h *harness) {
		l, _, pair := h.Sender(2)
		h.Mark(l, store.PhaseFresh, pair[1])
		h.Clock.Advance(time.Minute)
		h.Settled(l, store.PhaseSettled, pair[0])
		h.Clock.Advance(store.Horizon - time.Minute)
		h.Equal("next", h.Wants("", pair[1]), h.Clock.Now().Add(time.Minute))
	}},
	{"O1_ASettledRecordDoesNotPartThePairAroundIt", func(h *harness) {
		for _, settled := range []int{0, 1, 2} { // the first, a middle and the last record
			l, fence, pair := h.Sender(3)
			h.Settled(l, store.PhaseSettled, pair[settled])
			late := h.NewSend(pair[0].To)
			h.Send(l, fence, late)
			h.Settled(l, store.PhaseAnswered, pair...)
			h.Marks(store.Mark{From: l.Run, ID: late.ID, Phase: store.PhaseFresh, Unknown: true})
			want := []store.Phase{store.PhaseFresh, store.PhaseFresh, store.PhaseFresh, store.PhaseFresh}
			want[settled] = store.PhaseSettled
			h.phases("after that", l, want...)
		}
	}},
	{"ASettledRecordDoesNotWaitForItsPair", func(h *harness) {
		l, _, pair := h.Sender(2)
		h.Settled(l, store.PhaseSettled, pair[1])
		h.Clock.Advance(time.Minute)
		h.Mark(l, store.PhaseFresh, pair[0])
		h.Clock.Advance(store.Horizon - time.Minute)
		h.Equal("next", h.Wants("", pair[1]), h.Clock.Now().Add(time.Minute))
	}},
	{"MarkIgnoresARecordInAnotherPhase", func(h *harness) {
		all := []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled}
		for _, phase := range all {
			l, _, sends := h.Sender(2)
			h.Settled(l, phase, sends...)
			h.Unchanged("marks in other phases", func() {
				for _, other := range append(all, 0, 4) {
					if other == phase {
						continue
					}
					refusal := h.Item()
					h.Marks(store.Mark{From: l.Run, ID: sends[1].ID, Phase: other, Refusal: &refusal})
					h.Marks(store.Mark{From: l.Run, ID: sends[1].ID, Phase: other, Unknown: true})
				}
			})
			h.Settled(l, 0, sends...)
		}
	}},
	{"MarkOfARecordThatIsNotThereDoesNothing", func(h *harness) {
		l, _, sends := h.Sender(1)
		other := h.Start()
		refusal := h.Item()
		h.Unchanged("marks of nothing", func() {
			h.Marks()
			h.Marks(store.Mark{From: l.Run, ID: h.IDs.Item(), Phase: store.PhaseFresh, Refusal: &refusal})
			h.Marks(store.Mark{From: other.Run, ID: sends[0].ID, Phase: store.PhaseFresh, Refusal: &refusal})
			h.Marks(store.Mark{From: h.RunID(), ID: sends[0].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true})
		})
	}},
	{"MarkJudgesEachMarkByItself", func(h *harness) {
		l, _, sends := h.Sender(3)
		h.Marks(
			store.Mark{From: l.Run, ID: sends[0].ID, Phase: store.PhaseSettled},
			store.Mark{From: l.Run, ID: sends[1].ID, Phase: store.PhaseFresh},
			store.Mark{From: l.Run, ID: sends[2].ID, Phase: store.PhaseFresh},
			store.Mark{From: l.Run, ID: sends[2].ID, Phase: store.PhaseAnswered},
		)
		h.phases("after all marks", l, store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled)
	}},
	{"AnUnknownReceiverIsAnAnswerIfThereIsNothingBefore", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		a := h.NewSend(h.RunID())
		b, c := h.NewSend(a.To), h.NewSend(a.To)
		h.Send(l, fence, a, b, c, h.NewSend(h.RunID()))
		h.Settled(l, 0, a)
		refusal := h.Item()
		mark := store.Mark{From: l.Run, ID: b.ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true}
		h.Marks(mark)
		h.Equal("inbox of the sender", h.Load(l.Run).Inbox, []store.Item{refusal})
		mark.Phase, mark.Refusal = store.PhaseAnswered, nil
		h.Marks(mark)
		h.phases("after two answers", l, store.PhaseSettled, store.PhaseFresh, store.PhaseFresh)
	}},
	{"O1_AnUnknownReceiverAfterASettledRecordIsNoAnswer", func(h *harness) {
		for range 2 { // for two pairs, one after the other
			l, _, pair := h.Sender(4)
			h.Settled(l, store.PhaseSettled, pair[2], pair[0])
			refusal := h.Item()
			mark := store.Mark{From: l.Run, ID: pair[3].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true}
			h.Unchanged("a mark after two settled records", func() { h.Marks(mark) })
			h.Settled(l, 0, pair[0])
			h.Unchanged("a mark after a settled record and a fresh record", func() { h.Marks(mark) })
			h.Settled(l, 0, pair[1])
			h.Unchanged("a mark after a settled record", func() { h.Marks(mark) })
			mark.Unknown = false // the relay has sent the record again, and the receiver exists
			h.Marks(mark)
			h.Equal("inbox of the sender", h.Load(l.Run).Inbox, []store.Item{refusal})
			h.Settled(l, 0, pair[2])
			h.Mark(l, store.PhaseAnswered, pair[3])
			h.Mark(l, store.PhaseSettled, pair[3])
			h.Equal("records", h.Inspect().Outbox, []store.Outgoing(nil))
		}
	}},
	{"O1_ALateRefusalIsIgnored", func(h *harness) {
		l, _, sends := h.Sender(2)
		h.Settled(l, store.PhaseAnswered, sends[0])
		read, _ := h.Outbox(10)
		refusal := h.Item()
		mark := store.Mark{From: l.Run, ID: sends[1].ID, Phase: store.PhaseFresh, Deadline: read[0].Deadline}
		refused, unknown := mark, mark
		refused.Refusal, unknown.Unknown = &refusal, true
		h.Clock.Advance(read[0].Deadline.Sub(h.Clock.Now()) + time.Millisecond)
		h.Unchanged("late marks", func() { h.Marks(refused, unknown) })
		h.Marks(mark)
		h.phases("after an answer that is late", l, store.PhaseAnswered, store.PhaseAnswered)
		h.Clock.Advance(store.Horizon)
		read, _ = h.Outbox(10)
		h.Clock.Advance(read[0].Deadline.Sub(h.Clock.Now()))
		refused.ID, refused.Phase, refused.Deadline = sends[0].ID, store.PhaseAnswered, read[0].Deadline
		h.Marks(refused)
		h.Equal("inbox of the sender at the deadline itself", h.Load(l.Run).Inbox, []store.Item{refusal})
	}},
	{"O1_AnUnknownReceiverTakesBackWhatWasAnsweredBefore", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		to := h.RunID()
		pair := []store.Send{h.NewSend(to), h.NewSend(to), h.NewSend(to), h.NewSend(to), h.NewSend(to)}
		other := h.NewSend(h.RunID())
		h.Send(l, fence, append([]store.Send{other}, pair...)...)
		h.Settled(l, store.PhaseAnswered, other, pair[1], pair[2], pair[4])
		h.Settled(l, store.PhaseSettled, pair[0])
		written := h.Clock.Now()
		h.Clock.Advance(time.Second)
		refusal := h.Item()
		h.Marks(store.Mark{From: l.Run, ID: pair[3].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true})
		h.phases("of the pair and another", l, store.PhaseAnswered, store.PhaseSettled, store.PhaseFresh, store.PhaseFresh, store.PhaseFresh, store.PhaseAnswered)
		h.Equal("inbox of the sender", h.Load(l.Run).Inbox, []store.Item(nil))
		for _, o := range h.Inspect().Outbox {
			want := written
			if o.ID == pair[1].ID || o.ID == pair[2].ID {
				want = h.Clock.Now()
			}
			h.Equal("since", o.Since, want)
		}
		h.Wants("after that", pair[1], pair[2], pair[3])
	}},
	{"O1_AnUnknownReceiverLeavesAFreshRecordBehindAnotherFreshOne", func(h *harness) {
		l, _, pair := h.Sender(2)
		h.Clock.Advance(time.Second)
		refusal := h.Item()
		h.Unchanged("the mark", func() {
			h.Marks(store.Mark{From: l.Run, ID: pair[1].ID, Phase: store.PhaseFresh, Refusal: &refusal, Unknown: true})
		})
	}},
	{"O2_AnUnknownReceiverTakesBackARecordThatIsSettled", func(h *harness) {
		l, _, pair := h.Sender(3)
		h.Settled(l, store.PhaseAnswered, pair...)
		h.Clock.Advance(store.Horizon)
		h.Marks(store.Mark{From: l.Run, ID: pair[1].ID, Phase: store.PhaseAnswered, Unknown: true})
		h.phases("after that", l, store.PhaseFresh, store.PhaseFresh, store.PhaseAnswered)
		h.Wants("after that", pair...)
	}},
	{"AnUnknownReceiverLetsASettledRecordGo", func(h *harness) {
		l, _, pair := h.Sender(2)
		h.Settled(l, store.PhaseSettled, pair[1])
		h.Marks(store.Mark{From: l.Run, ID: pair[1].ID, Phase: store.PhaseSettled, Unknown: true})
		h.phases("after that", l, store.PhaseFresh)
	}},
	{"HeartbeatTellsWhenTheOutboxWantsSomething", func(h *harness) {
		s := h.Session()
		h.Equal("of an empty outbox", h.Heartbeat(s).Outbox, time.Time{})
		l, fence := h.StartOwned(s)
		a, b := h.NewSend(h.RunID()), h.NewSend(h.RunID())
		h.Send(l, fence, a, b)
		past := func(what string) {
			h.Helper()
			if got := h.Heartbeat(s).Outbox; got.IsZero() || got.After(h.Clock.Now()) {
				h.Fatalf("outbox time %s: got %v, want a time that is past", what, got)
			}
		}
		past("of fresh records")
		h.Mark(l, store.PhaseFresh, a)
		past("while one is fresh")
		due := h.Clock.Now().Add(store.Horizon)
		h.Clock.Advance(time.Second)
		h.Mark(l, store.PhaseFresh, b)
		h.Equal("outbox time of answered records", h.Heartbeat(s).Outbox, due)
		h.Clock.Advance(store.Horizon - time.Second)
		past("when one is to be settled")
		h.Mark(l, store.PhaseAnswered, a, b)
		h.Equal("outbox time of settled records", h.Heartbeat(s).Outbox, h.Clock.Now().Add(store.Horizon))
		h.Mark(l, store.PhaseSettled, a, b)
		h.Equal("outbox time in the end", h.Heartbeat(s).Outbox, time.Time{})
	}},
	{"O1_ConcurrentRelaysMoveEachRecordOnce", func(h *harness) {
		const records, relays = 60, 4
		l, fence := h.StartOwned(h.Session())
		for range records / 6 {
			to := h.RunID()
			h.Send(l, fence, h.NewSend(to), h.NewSend(to), h.NewSend(to), h.NewSend(h.RunID()), h.NewSend(to), h.NewSend(to))
		}
		suite.Together(relays, func(int) {
			for {
				got, next, err := h.Store.Outbox(h.Ctx, 0, 7)
				if err != nil {
					h.Errorf("outbox: %v", err)
					return
				}
				var marks []store.Mark
				for _, o := range got {
					refusal := h.Item() // each relay sends its own refusal, so that the test notices if two refusals are accepted
					marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: o.Phase, Refusal: &refusal})
				}
				if err := h.Store.Mark(h.Ctx, 0, marks); err != nil {
					h.Errorf("mark: %v", err)
					return
				}
				if len(got) == 0 && next.After(h.Clock.Now()) {
					return
				}
			}
		})
		h.Equal("number of refusals", len(h.Load(l.Run).Inbox), records)
		for _, o := range h.Inspect().Outbox {
			h.Equal("phase", o.Phase, store.PhaseAnswered)
		}
	}},
}
