package history

import (
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Sends between runs and continued runs in random histories.

// newContinue draws a commit that continues a run. The commit consumes the items, and carries some
// of them over to the new run.
func (h *history) newContinue(t *rapid.T, l *suite.Log, fence store.Fence, items []store.Item) store.Commit {
	carried := items[:rapid.IntRange(0, len(items)).Draw(t, "carried")]
	c, next := l.Continue(fence, carried, l.Receive(items...)...)
	c.Continue.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
	c.Send, c.Publish, c.Progress = h.sends(t, l), h.publications(t), rapid.Bool().Draw(t, "progress")
	if len(items) > 0 {
		c = suite.Consuming(c, items...)
	}
	if r := h.m.runs[l.Run]; r != nil && chance(t, "the same limits", 70) {
		c.Continue.Uses, c.Continue.Whole = r.Uses, r.Whole
	} else {
		h.drawUses(t, c.Continue)
	}
	h.drawFair(t, c.Continue)
	h.logs = append(h.logs, next)
	return c
}

// sends draws records for a small set of receivers.
func (h *history) sends(t *rapid.T, l *suite.Log) []store.Send {
	if chance(t, "none", 60) {
		return nil
	}
	var sends []store.Send
	for range rapid.IntRange(1, 3).Draw(t, "records") {
		s := h.NewSend(rapid.SampledFrom([]event.RunID{h.ghost.Run, l.Run, h.logs[len(h.logs)-1].Run}).Draw(t, "receiver"))
		known := slices.DeleteFunc(slices.Clone(h.m.outbox), func(o store.Outgoing) bool { return o.From != l.Run })
		if len(known) > 0 && chance(t, "known record", 20) {
			s.ID = rapid.SampledFrom(known).Draw(t, "record").ID
		}
		sends = append(sends, s)
	}
	return h.twice(sends)
}

// twice repeats one record in about every fourth list, with another receiver and body. The store
// must ignore the repetition. The choice depends on the IDs of the records and is not drawn, so
// that it does not change the histories of existing seeds.
func (h *history) twice(sends []store.Send) []store.Send {
	n := crc32.ChecksumIEEE([]byte(sends[0].ID))
	if n%4 != 0 {
		return sends
	}
	again := sends[int(n/4)%len(sends)]
	again.To, again.Body = h.ghost.Run, []byte("do it again")
	return append(sends, again)
}

// drawOutbox reads the outbox. It fails the test unless each returned record is due and in order,
// and enough records are returned.
func (h *history) drawOutbox(t *rapid.T) {
	limit := rapid.SampledFrom([]int{0, 1, 2, 5, 1000}).Draw(t, "limit")
	got, next := h.Outbox(limit)
	wanted := h.m.wanted()
	returned := map[int]bool{}
	before := -1
	for _, o := range got {
		i := h.m.record(o.From, o.ID)
		if i <= before {
			h.Fatalf("outbox: got record %s of %s, which does not exist, or was written before the one in front of it", o.ID, o.From)
		}
		want := h.m.outbox[i]
		want.Deadline = h.Clock.Now().Add(store.Horizon / 2)
		h.Equal("record", o, want)
		if !slices.ContainsFunc(wanted, func(d store.Outgoing) bool { return d.From == o.From && d.ID == o.ID }) || !h.inOrder(i, returned) {
			h.Fatalf("outbox: got record %s of %s before its turn", o.ID, o.From)
		}
		before, returned[i] = i, true
	}
	h.read = append(h.read, got...)
	if len(got) > limit || len(got) == 0 && limit > 0 && len(wanted) > 0 || limit == 1000 && len(got) < len(wanted) {
		h.Fatalf("outbox: got %d records of %d, limit %d", len(got), len(wanted), limit)
	}
	if len(got) < len(wanted) {
		if next.IsZero() || next.After(h.Clock.Now()) {
			h.Fatalf("outbox: next is %v, and %d records are left", next, len(wanted)-len(got))
		}
		return
	}
	h.checkLater(next)
}

// inOrder reports whether record i of the model's outbox may be returned after the records in
// returned.
func (h *history) inOrder(i int, returned map[int]bool) bool {
	for n, o := range h.m.outbox[:i] {
		if o.From != h.m.outbox[i].From || o.To != h.m.outbox[i].To || returned[n] {
			continue
		}
		switch h.m.outbox[i].Phase {
		case store.PhaseFresh:
			if o.Phase == store.PhaseFresh {
				return false
			}
		case store.PhaseAnswered:
			if o.Phase != store.PhaseSettled {
				return false
			}
		}
	}
	return true
}

// checkLater checks the next due time of the outbox after the outbox has returned all due records.
func (h *history) checkLater(next time.Time) {
	h.Helper()
	later := slices.DeleteFunc(slices.Clone(h.m.outbox), func(o store.Outgoing) bool { return !dueOf(o).After(h.Clock.Now()) })
	if !next.IsZero() && !next.After(h.Clock.Now()) {
		h.Fatalf("outbox: next is %v, and nothing is left", next)
	}
	h.checkNext("outbox", next, later, false)
}

// checkNext fails the test unless next is the due time of the earliest record. Because of the order
// of records between two runs, next may be too early.
func (h *history) checkNext(what string, next time.Time, records []store.Outgoing, none bool) {
	h.Helper()
	if none || len(records) == 0 {
		h.Equal("outbox time of "+what, next, time.Time{})
		return
	}
	now := h.Clock.Now()
	var earliest, right time.Time
	for _, o := range records {
		at, inTurn := dueOf(o), h.m.turnOf(o)
		if earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
		if right.IsZero() || inTurn.Before(right) {
			right = inTurn
		}
	}
	if past := !right.After(now); next.IsZero() || past && next.After(now) || !past && (next.After(right) || next.Before(earliest)) {
		h.Fatalf("outbox time of %s: got %v, want %v, or as early as %v", what, next, right, earliest)
	}
}

// drawMark marks records. Each mark has the present phase of the record, or the phase in which the
// record was read some time ago.
func (h *history) drawMark(t *rapid.T) {
	records := h.m.outbox
	if chance(t, "read long ago", 15) {
		records = h.read
	}
	if len(records) == 0 {
		return
	}
	var marks []store.Mark
	for range rapid.IntRange(1, 3).Draw(t, "marks") {
		o := rapid.SampledFrom(records).Draw(t, "record")
		k := store.Mark{From: o.From, ID: o.ID, Phase: o.Phase, Unknown: chance(t, "unknown", 25), Deadline: o.Deadline}
		if chance(t, "wrong phase", 15) {
			k.Phase = store.Phase(rapid.IntRange(1, 3).Draw(t, "phase"))
		}
		if chance(t, "refused", 40) {
			refusal := store.Item{ID: "refusal of " + o.ID, Scope: store.Scope(rapid.IntRange(0, 1).Draw(t, "scope")), Body: []byte("1")}
			k.Refusal = &refusal
		}
		marks = append(marks, k)
	}
	h.request(t, func() {
		h.Marks(marks...)
		for _, k := range marks {
			h.m.mark(k)
		}
	})
}

// drawConfirm confirms the creation of a run, an item, or an unknown record.
func (h *history) drawConfirm(t *rapid.T) {
	type left struct {
		run event.RunID
		id  event.ItemID
	}
	all := []left{{h.ghost.Run, "nothing"}}
	for _, r := range h.m.sorted() {
		all = append(all, left{r.Run, "nothing"})
		if r.CreatedBy != "" {
			all = append(all, left{r.Run, r.CreatedBy})
		}
		for _, name := range slices.Compact([]event.RunID{r.Chain, r.Run}) {
			for _, id := range slices.Sorted(maps.Keys(h.m.kept[name])) {
				all = append(all, left{r.Run, id})
			}
		}
	}
	c := rapid.SampledFrom(all).Draw(t, "record")
	h.request(t, func() {
		if !h.m.settled(c.id) {
			return
		}
		h.Confirm(c.run, c.id)
		h.m.confirm(c.run, c.id)
		h.confirmed[c.id] = true
	})
}
