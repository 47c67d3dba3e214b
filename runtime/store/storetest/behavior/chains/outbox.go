package chains

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// answers commits c. It fails the test if the answer contains a record that is not in most, or a
// record that differs from the record in the outbox.
func (h *harness) answers(l *suite.Log, c store.Commit, most ...store.Send) {
	h.Helper()
	sent := h.Commit(l, c).Sent
	records, _ := h.Outbox(100)
	for _, o := range sent {
		if !slices.ContainsFunc(most, func(s store.Send) bool { return s.ID == o.ID }) {
			h.Errorf("a commit returns record %s, and there is one before it, or it is not new", o.ID)
		}
		i := slices.IndexFunc(records, func(r store.Outgoing) bool { return r.ID == o.ID })
		if i < 0 {
			h.Fatalf("a commit returns record %s, which is not due", o.ID)
		}
		h.Equal("record that a commit returns", o, records[i])
	}
}

// phases fails the test unless the outbox records of a run have the given phases, in order.
func (h *harness) phases(what string, l *suite.Log, want ...store.Phase) {
	h.Helper()
	var got []store.Phase
	for _, o := range h.Inspect().Outbox {
		if o.From == l.Run {
			got = append(got, o.Phase)
		}
	}
	h.Equal("phases of the records "+what, got, want)
}

var outboxBehaviors = []behavior{
	{"ARecordThatComesTwiceInOneCommitIsOne", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		a := h.NewSend(h.RunID())
		again := a
		again.Body = []byte("do something else")
		h.Send(l, fence, a, again)
		h.Wants("that came twice", a)
		got, _ := h.Outbox(1)
		h.Equal("body of the record", string(got[0].Body), string(a.Body))
		h.phases("that came twice", l, store.PhaseFresh)
		h.Settled(l, 0, a)
		h.Wants("once it is settled")
	}},
	{"ACommitWritesItsRecords", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Clock.Advance(time.Second)
		a, b := h.NewSend(h.RunID()), h.NewSend(l.Run)
		b.Body = nil
		h.Send(l, fence, a, b)
		want := []store.Outgoing{
			{Send: a, From: l.Run, Phase: store.PhaseFresh, Since: h.Clock.Now()},
			{Send: b, From: l.Run, Phase: store.PhaseFresh, Since: h.Clock.Now()},
		}
		h.Equal("outbox in the snapshot", h.Inspect().Outbox, want)
		h.Clock.Advance(time.Second)
		for i := range want {
			want[i].Deadline = h.Clock.Now().Add(time.Minute)
		}
		h.Unchanged("a read", func() {
			got, next := h.Outbox(10)
			h.Equal("outbox", got, want)
			h.Equal("next", next, time.Time{})
		})
	}},
	{"O1_ACommitReturnsOnlyWhatNothingComesBefore", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Clock.Advance(time.Second)
		to := h.RunID()
		a, b, created := h.NewSend(to), h.NewSend(h.RunID()), h.NewSend(h.RunID())
		h.answers(l, suite.Sending(l.Commit(fence, l.Work()...), a, h.NewSend(to), b), a, b)
		h.answers(l, suite.Sending(l.Commit(fence, l.Work()...), h.NewSend(to), a)) // record a exists already
		h.Settled(l, store.PhaseAnswered, a)
		created.First = true
		c := suite.Sending(l.Commit(fence, l.Work()...), h.NewSend(to), created, h.NewSend(created.To))
		h.answers(l, c, created)
		for _, again := range h.Try(c).Sent {
			h.Equal("record that is returned again", again.ID, created.ID)
		}
		h.answers(l, suite.Sending(l.Commit(fence, l.Work()...), created)) // the record exists already
		for _, o := range h.Inspect().Outbox {
			h.Equal("what the outbox knows of a first record", o.First, false)
		}
	}},
	{"ACommitWritesItsRecordsWithEveryEffect", func(h *harness) {
		for _, e := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish, store.EffectContinue} {
			l, fence := h.StartOwnedAs(h.Session(), store.Route{Queue: "q", Workflow: string(rune('a' + e))})
			c := suite.WithEffect(l.Commit(fence, l.Work()...), e, "")
			switch e {
			case store.EffectFinish:
				c = suite.WithEffect(l.Commit(fence, append(l.Started(), l.End(event.StatusCompleted)...)...), e, event.StatusCompleted)
			case store.EffectContinue:
				c, _ = l.Continue(fence, nil)
			}
			h.Commit(l, suite.Sending(c, h.NewSend(h.RunID())))
			h.phases("after the commit", l, store.PhaseFresh)
		}
	}},
	{"ACommitThatIsRefusedWritesNoRecord", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Deliver(l.Run)
		h.Unchanged("commits that are refused", func() {
			c := suite.Sending(l.Commit(store.Fence{Epoch: fence.Epoch}, l.Work()...), h.NewSend(h.RunID()))
			h.Is("without a token", h.Try(c).Err, store.ErrFenced)
			c = suite.WithEffect(suite.Sending(l.Commit(fence, l.Work()...), h.NewSend(h.RunID())), store.EffectPark, "")
			h.Is("with unread items", h.Try(c).Err, store.ErrUnread)
		})
	}},
	{"W3_TheSameCommitWritesItsRecordsOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		s := h.NewSend(h.RunID())
		c := suite.Sending(l.Commit(fence, l.Work()...), s)
		h.Commit(l, c)
		h.Unchanged("the same commit", func() { h.Check("commit", h.Try(c).Err) })
		h.Settled(l, 0, s)
		h.Unchanged("the same commit when the record is gone", func() { h.Check("commit", h.Try(c).Err) })
	}},
	{"O1_ARecordThatIsThereStaysAsItIs", func(h *harness) {
		for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
			l, fence, sends := h.Sender(1)
			h.Settled(l, phase, sends...)
			h.Clock.Advance(time.Second)
			want := h.Inspect().Outbox
			again := sends[0]
			again.To, again.Body = h.RunID(), []byte("something else")
			h.Send(l, fence, again, again)
			h.Equal("outbox", h.Inspect().Outbox, want)
			h.Settled(l, 0, sends...)
		}
	}},
	{"ARecordIsNamedBySenderAndID", func(h *harness) {
		a, _, sends := h.Sender(1)
		b, fence := h.StartOwned(h.Session())
		h.Send(b, fence, sends[0])
		h.Mark(a, store.PhaseFresh, sends[0])
		h.phases("of one sender", a, store.PhaseAnswered)
		h.phases("of the other", b, store.PhaseFresh)
	}},
	{"O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten", func(h *harness) {
		a, fa, first := h.Sender(2)
		b, fb, second := h.Sender(1)
		third := []store.Send{h.NewSend(first[0].To), h.NewSend(h.RunID())}
		h.Send(a, fa, third...)
		fourth := h.NewSend(first[0].To)
		h.Send(b, fb, fourth)
		h.Wants("", first[0], first[1], second[0], third[0], third[1], fourth)
		h.Mark(a, store.PhaseFresh, first[1], third[0])
		h.Wants("without the answered ones", first[0], second[0], third[1], fourth)
	}},
	{"OutboxReturnsAtMostLimitAndTellsOfMore", func(h *harness) {
		l, _, sends := h.Sender(5)
		for _, limit := range []int{0, -1} {
			got, next := h.Outbox(limit)
			h.Equal("number of records", len(got), 0)
			if next.IsZero() || next.After(h.Clock.Now()) {
				h.Fatalf("next: got %v, want a time that is past", next)
			}
		}
		var read []store.Send
		for {
			got, next := h.Outbox(2)
			if len(got) > 2 || len(got) == 0 {
				h.Fatalf("number of records: got %d, want 1 or 2", len(got))
			}
			for _, o := range got {
				read = append(read, o.Send)
				h.Mark(l, store.PhaseFresh, o.Send)
			}
			if next.IsZero() || next.After(h.Clock.Now()) {
				break
			}
		}
		h.Equal("records", read, sends)
	}},
	{"O2_ARecordPassesThroughItsPhases", func(h *harness) {
		l, _, sends := h.Sender(1)
		begin := h.Clock.Now()
		for n, phase := range []store.Phase{store.PhaseAnswered, store.PhaseSettled} {
			h.Settled(l, phase, sends...)
			h.phases("after the answer", l, phase)
			h.Equal("since", h.Inspect().Outbox[0].Since, h.Clock.Now())
			h.Equal("next", h.Wants("at once"), h.Clock.Now().Add(store.Horizon))
			h.Clock.Advance(store.Horizon - time.Millisecond)
			h.Equal("next", h.Wants("before the Horizon"), h.Clock.Now().Add(time.Millisecond))
			h.Clock.Advance(time.Millisecond)
			h.Equal("next", h.Wants("after the Horizon", sends...), time.Time{})
			got, _ := h.Outbox(1)
			h.Equal("record", got[0], store.Outgoing{
				Send: sends[0], From: l.Run, Phase: phase,
				Since: begin.Add(time.Duration(n) * store.Horizon), Deadline: h.Clock.Now().Add(store.Horizon / 2),
			})
			h.Mark(l, phase, sends...)
		}
		h.Equal("outbox", h.Inspect().Outbox, []store.Outgoing(nil))
		h.Equal("next", h.Wants("in the end"), time.Time{})
	}},
	{"OutboxTellsOfTheEarliestOfTheRecordsThatAreLeft", func(h *harness) {
		l, fence, _ := h.Sender(0)
		var sends []store.Send
		for range 3 {
			s := h.NewSend(h.RunID())
			h.Send(l, fence, s)
			sends = append(sends, s)
		}
		begin := h.Clock.Now()
		for _, i := range []int{1, 0} {
			h.Mark(l, store.PhaseFresh, sends[i])
			h.Clock.Advance(time.Second)
		}
		h.Equal("next", h.Wants("now", sends[2]), begin.Add(store.Horizon))
		h.Mark(l, store.PhaseFresh, sends[2])
		h.Clock.Advance(store.Horizon - 2*time.Second)
		h.Equal("next", h.Wants("at the time of the second", sends[1]), begin.Add(store.Horizon+time.Second))
	}},
}
