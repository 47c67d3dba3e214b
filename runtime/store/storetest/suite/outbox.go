package suite

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// NewSend returns a new outbox record whose receiver is a run.
func (h *Harness) NewSend(to event.RunID) store.Send {
	id := h.IDs.Item()
	return store.Send{ID: id, To: to, Body: []byte("do " + id)}
}

// Sending returns the commit with additional outbox records.
func Sending(c store.Commit, sends ...store.Send) store.Commit {
	c.Send = append(slices.Clone(c.Send), sends...)
	return c
}

// Send commits work of an owned run that writes outbox records.
func (h *Harness) Send(l *Log, fence store.Fence, sends ...store.Send) {
	h.Helper()
	h.Commit(l, Sending(l.Commit(fence, l.Work()...), sends...))
}

// Sender starts an owned run that has written n records for the same receiver.
func (h *Harness) Sender(n int) (*Log, store.Fence, []store.Send) {
	h.Helper()
	l, fence := h.StartOwned(h.Session())
	to := h.RunID()
	var sends []store.Send
	for range n {
		sends = append(sends, h.NewSend(to))
	}
	h.Send(l, fence, sends...)
	return l, fence, sends
}

// Outbox returns up to limit due records of partition 0, and when the next record is due.
func (h *Harness) Outbox(limit int) ([]store.Outgoing, time.Time) {
	h.Helper()
	records, next, err := h.Store.Outbox(h.Ctx, 0, limit)
	h.Check("outbox", err)
	return records, next
}

// Wants fails the test unless exactly the given records are due in the outbox. It returns when the
// next record is due.
func (h *Harness) Wants(what string, want ...store.Send) time.Time {
	h.Helper()
	records, next := h.Outbox(100)
	var got []event.ItemID
	for _, r := range records {
		got = append(got, r.ID)
	}
	var ids []event.ItemID
	for _, s := range want {
		ids = append(ids, s.ID)
	}
	h.Equal("records to carry over "+what, got, ids)
	return next
}

// Mark marks records of a run in the way of a relay that has read the records in the given phase.
func (h *Harness) Mark(l *Log, phase store.Phase, sends ...store.Send) {
	h.Helper()
	var marks []store.Mark
	for _, s := range sends {
		marks = append(marks, store.Mark{From: l.Run, ID: s.ID, Phase: phase})
	}
	h.Marks(marks...)
}

// Marks marks records of partition 0.
func (h *Harness) Marks(marks ...store.Mark) {
	h.Helper()
	h.Check("mark", h.Store.Mark(h.Ctx, 0, marks))
}

// Settled marks records until they have reached the given phase. If phase is 0, it marks them until
// they are removed.
func (h *Harness) Settled(l *Log, phase store.Phase, sends ...store.Send) {
	h.Helper()
	for _, p := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
		if p == phase {
			return
		}
		h.Mark(l, p, sends...)
	}
}
