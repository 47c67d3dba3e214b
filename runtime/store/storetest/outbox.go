package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// newSend returns a record for a run.
func (h *harness) newSend(to event.RunID) store.Send {
	id := h.ids.Item()
	return store.Send{ID: id, To: to, Body: []byte("do " + id)}
}

// sending adds records to a commit.
func sending(c store.Commit, sends ...store.Send) store.Commit {
	c.Send = append(slices.Clone(c.Send), sends...)
	return c
}

// send commits work of an owned run that writes records.
func (h *harness) send(l *Log, fence store.Fence, sends ...store.Send) {
	h.Helper()
	h.commit(l, sending(l.Commit(fence, l.Work()...), sends...))
}

// answers commits c. It fails the test if the answer contains a record that is not in most, or that
// differs from the record in the outbox.
func (h *harness) answers(l *Log, c store.Commit, most ...store.Send) {
	h.Helper()
	sent := h.commit(l, c).Sent
	records, _ := h.outbox(100)
	for _, o := range sent {
		if !slices.ContainsFunc(most, func(s store.Send) bool { return s.ID == o.ID }) {
			h.Errorf("a commit returns record %s, and there is one before it, or it is not new", o.ID)
		}
		i := slices.IndexFunc(records, func(r store.Outgoing) bool { return r.ID == o.ID })
		if i < 0 {
			h.Fatalf("a commit returns record %s, which is not due", o.ID)
		}
		h.equal("record that a commit returns", o, records[i])
	}
}

// sender starts a run that has written n records for one receiver.
func (h *harness) sender(n int) (*Log, store.Fence, []store.Send) {
	h.Helper()
	l, fence := h.startOwned(h.session())
	to := h.runID()
	var sends []store.Send
	for range n {
		sends = append(sends, h.newSend(to))
	}
	h.send(l, fence, sends...)
	return l, fence, sends
}

// outbox reads the outbox of partition 0.
func (h *harness) outbox(limit int) ([]store.Outgoing, time.Time) {
	h.Helper()
	records, next, err := h.store.Outbox(h.ctx, 0, limit)
	h.check("outbox", err)
	return records, next
}

// wants fails the test unless exactly these records are due in the outbox. It returns when the next
// other record is due.
func (h *harness) wants(what string, want ...store.Send) time.Time {
	h.Helper()
	records, next := h.outbox(100)
	var got []event.ItemID
	for _, r := range records {
		got = append(got, r.ID)
	}
	var ids []event.ItemID
	for _, s := range want {
		ids = append(ids, s.ID)
	}
	h.equal("records to carry over "+what, got, ids)
	return next
}

// mark marks records of a run as a relay does that has read them in this phase.
func (h *harness) mark(l *Log, phase store.Phase, sends ...store.Send) {
	h.Helper()
	var marks []store.Mark
	for _, s := range sends {
		marks = append(marks, store.Mark{From: l.Run, ID: s.ID, Phase: phase})
	}
	h.marks(marks...)
}

func (h *harness) marks(marks ...store.Mark) {
	h.Helper()
	h.check("mark", h.store.Mark(h.ctx, 0, marks))
}

// settled marks records until they are in a phase, or until they are gone if phase is 0.
func (h *harness) settled(l *Log, phase store.Phase, sends ...store.Send) {
	h.Helper()
	for _, p := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
		if p == phase {
			return
		}
		h.mark(l, p, sends...)
	}
}

// phases fails the test unless the records of a run are in these phases.
func (h *harness) phases(what string, l *Log, want ...store.Phase) {
	h.Helper()
	var got []store.Phase
	for _, o := range h.inspect().Outbox {
		if o.From == l.Run {
			got = append(got, o.Phase)
		}
	}
	h.equal("phases of the records "+what, got, want)
}

var outboxBehaviors = []behavior{
	{"ARecordThatComesTwiceInOneCommitIsOne", func(h *harness) {
		l, fence := h.startOwned(h.session())
		a := h.newSend(h.runID())
		again := a
		again.Body = []byte("do something else")
		h.send(l, fence, a, again)
		h.wants("that came twice", a)
		got, _ := h.outbox(1)
		h.equal("body of the record", string(got[0].Body), string(a.Body))
		h.phases("that came twice", l, store.PhaseFresh)
		h.settled(l, 0, a)
		h.wants("once it is settled")
	}},
	{"ACommitWritesItsRecords", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.clock.Advance(time.Second)
		a, b := h.newSend(h.runID()), h.newSend(l.Run)
		b.Body = nil
		h.send(l, fence, a, b)
		want := []store.Outgoing{
			{Send: a, From: l.Run, Phase: store.PhaseFresh, Since: h.clock.Now()},
			{Send: b, From: l.Run, Phase: store.PhaseFresh, Since: h.clock.Now()},
		}
		h.equal("outbox in the snapshot", h.inspect().Outbox, want)
		h.clock.Advance(time.Second)
		for i := range want {
			want[i].Deadline = h.clock.Now().Add(time.Minute)
		}
		h.unchanged("a read", func() {
			got, next := h.outbox(10)
			h.equal("outbox", got, want)
			h.equal("next", next, time.Time{})
		})
	}},
	{"O1_ACommitReturnsOnlyWhatNothingComesBefore", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.clock.Advance(time.Second)
		to := h.runID()
		a, b, created := h.newSend(to), h.newSend(h.runID()), h.newSend(h.runID())
		h.answers(l, sending(l.Commit(fence, l.Work()...), a, h.newSend(to), b), a, b)
		h.answers(l, sending(l.Commit(fence, l.Work()...), h.newSend(to), a)) // record a exists already
		h.settled(l, store.PhaseAnswered, a)
		created.First = true
		c := sending(l.Commit(fence, l.Work()...), h.newSend(to), created, h.newSend(created.To))
		h.answers(l, c, created)
		for _, again := range h.try(c).Sent {
			h.equal("record that is returned again", again.ID, created.ID)
		}
		h.answers(l, sending(l.Commit(fence, l.Work()...), created)) // the record exists already
		for _, o := range h.inspect().Outbox {
			h.equal("what the outbox knows of a first record", o.First, false)
		}
	}},
	{"ACommitWritesItsRecordsWithEveryEffect", func(h *harness) {
		for _, e := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish, store.EffectContinue} {
			l, fence := h.startOwnedAs(h.session(), store.Route{Queue: "q", Workflow: string(rune('a' + e))})
			c := withEffect(l.Commit(fence, l.Work()...), e, "")
			switch e {
			case store.EffectFinish:
				c = withEffect(l.Commit(fence, append(l.started(), l.End(event.StatusCompleted)...)...), e, event.StatusCompleted)
			case store.EffectContinue:
				c, _ = l.Continue(fence, nil)
			}
			h.commit(l, sending(c, h.newSend(h.runID())))
			h.phases("after the commit", l, store.PhaseFresh)
		}
	}},
	{"ACommitThatIsRefusedWritesNoRecord", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.deliver(l.Run)
		h.unchanged("commits that are refused", func() {
			c := sending(l.Commit(store.Fence{Epoch: fence.Epoch}, l.Work()...), h.newSend(h.runID()))
			h.is("without a token", h.try(c).Err, store.ErrFenced)
			c = withEffect(sending(l.Commit(fence, l.Work()...), h.newSend(h.runID())), store.EffectPark, "")
			h.is("with unread items", h.try(c).Err, store.ErrUnread)
		})
	}},
	{"W3_TheSameCommitWritesItsRecordsOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		s := h.newSend(h.runID())
		c := sending(l.Commit(fence, l.Work()...), s)
		h.commit(l, c)
		h.unchanged("the same commit", func() { h.check("commit", h.try(c).Err) })
		h.settled(l, 0, s)
		h.unchanged("the same commit when the record is gone", func() { h.check("commit", h.try(c).Err) })
	}},
	{"O1_ARecordThatIsThereStaysAsItIs", func(h *harness) {
		for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
			l, fence, sends := h.sender(1)
			h.settled(l, phase, sends...)
			h.clock.Advance(time.Second)
			want := h.inspect().Outbox
			again := sends[0]
			again.To, again.Body = h.runID(), []byte("something else")
			h.send(l, fence, again, again)
			h.equal("outbox", h.inspect().Outbox, want)
			h.settled(l, 0, sends...)
		}
	}},
	{"ARecordIsNamedBySenderAndID", func(h *harness) {
		a, _, sends := h.sender(1)
		b, fence := h.startOwned(h.session())
		h.send(b, fence, sends[0])
		h.mark(a, store.PhaseFresh, sends[0])
		h.phases("of one sender", a, store.PhaseAnswered)
		h.phases("of the other", b, store.PhaseFresh)
	}},
	{"O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten", func(h *harness) {
		a, fa, first := h.sender(2)
		b, fb, second := h.sender(1)
		third := []store.Send{h.newSend(first[0].To), h.newSend(h.runID())}
		h.send(a, fa, third...)
		fourth := h.newSend(first[0].To)
		h.send(b, fb, fourth)
		h.wants("", first[0], first[1], second[0], third[0], third[1], fourth)
		h.mark(a, store.PhaseFresh, first[1], third[0])
		h.wants("without the answered ones", first[0], second[0], third[1], fourth)
	}},
	{"OutboxReturnsAtMostLimitAndTellsOfMore", func(h *harness) {
		l, _, sends := h.sender(5)
		for _, limit := range []int{0, -1} {
			got, next := h.outbox(limit)
			h.equal("number of records", len(got), 0)
			if next.IsZero() || next.After(h.clock.Now()) {
				h.Fatalf("next: got %v, want a time that is past", next)
			}
		}
		var read []store.Send
		for {
			got, next := h.outbox(2)
			if len(got) > 2 || len(got) == 0 {
				h.Fatalf("number of records: got %d, want 1 or 2", len(got))
			}
			for _, o := range got {
				read = append(read, o.Send)
				h.mark(l, store.PhaseFresh, o.Send)
			}
			if next.IsZero() || next.After(h.clock.Now()) {
				break
			}
		}
		h.equal("records", read, sends)
	}},
	{"O2_ARecordPassesThroughItsPhases", func(h *harness) {
		l, _, sends := h.sender(1)
		begin := h.clock.Now()
		for n, phase := range []store.Phase{store.PhaseAnswered, store.PhaseSettled} {
			h.settled(l, phase, sends...)
			h.phases("after the answer", l, phase)
			h.equal("since", h.inspect().Outbox[0].Since, h.clock.Now())
			h.equal("next", h.wants("at once"), h.clock.Now().Add(store.Horizon))
			h.clock.Advance(store.Horizon - time.Millisecond)
			h.equal("next", h.wants("before the Horizon"), h.clock.Now().Add(time.Millisecond))
			h.clock.Advance(time.Millisecond)
			h.equal("next", h.wants("after the Horizon", sends...), time.Time{})
			got, _ := h.outbox(1)
			h.equal("record", got[0], store.Outgoing{
				Send: sends[0], From: l.Run, Phase: phase,
				Since: begin.Add(time.Duration(n) * store.Horizon), Deadline: h.clock.Now().Add(store.Horizon / 2),
			})
			h.mark(l, phase, sends...)
		}
		h.equal("outbox", h.inspect().Outbox, []store.Outgoing(nil))
		h.equal("next", h.wants("in the end"), time.Time{})
	}},
	{"OutboxTellsOfTheEarliestOfTheRecordsThatAreLeft", func(h *harness) {
		l, fence, _ := h.sender(0)
		var sends []store.Send
		for range 3 {
			s := h.newSend(h.runID())
			h.send(l, fence, s)
			sends = append(sends, s)
		}
		begin := h.clock.Now()
		for _, i := range []int{1, 0} {
			h.mark(l, store.PhaseFresh, sends[i])
			h.clock.Advance(time.Second)
		}
		h.equal("next", h.wants("now", sends[2]), begin.Add(store.Horizon))
		h.mark(l, store.PhaseFresh, sends[2])
		h.clock.Advance(store.Horizon - 2*time.Second)
		h.equal("next", h.wants("at the time of the second", sends[1]), begin.Add(store.Horizon+time.Second))
	}},
}
