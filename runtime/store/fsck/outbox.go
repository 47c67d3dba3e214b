package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkOutbox checks for each record that its cause exists (invariant 12).
func (c *checker) checkOutbox() {
	for _, from := range slices.Sorted(maps.Keys(c.records)) {
		for _, id := range slices.Sorted(maps.Keys(c.records[from])) {
			if n := c.records[from][id]; n > 1 {
				c.find(12, from, fmt.Sprintf("its record %s is in the outbox %d times", id, n), "its effect happens twice, or out of order")
			}
		}
	}
	for _, o := range c.Outbox {
		if o.Phase < store.PhaseFresh || o.Phase > store.PhaseSettled {
			c.find(12, o.From, fmt.Sprintf("its record %s is in phase %d, which does not exist", o.ID, o.Phase), "it is never delivered, and holds its sender back")
		}
		if _, ok := c.Runs[o.From]; !ok {
			c.find(12, o.From, fmt.Sprintf("it does not exist, and has record %s in the outbox", o.ID), "its cause is unknown")
			continue
		}
		if o.To == "" {
			c.find(12, o.From, fmt.Sprintf("its record %s names no receiver", o.ID), "it is never delivered, and holds its sender back")
		}
		if err := effects.Check(&o); c.cfg.sends != nil && o.Phase != store.PhaseSettled && err != nil {
			c.find(12, o.From, fmt.Sprintf("its record %s cannot be read: %v", o.ID, err), "it is never delivered, and holds its sender back")
		}
		h := c.logs[o.From]
		if !c.caused() || h == nil || h.underived || c.damaged(c.Runs[o.From]) {
			continue // the cause may be in the unreadable part of the log
		}
		if _, ok := h.causes[o.ID]; !ok {
			c.find(12, o.From, fmt.Sprintf("its record %s is in the outbox, but no event of its log has caused it", o.ID), "an effect happens that the run has not recorded")
		}
	}
}

// caused reports whether the check can derive records from events.
func (c *checker) caused() bool { return c.cfg.Causes != nil || c.cfg.sends != nil }

// note adds the records that an event has caused to the history of a run. A repeated cause does not
// change the time of a record, so the record expires after its first cause.
func (c *checker) note(run event.RunID, h *history, e *event.Event) {
	first := func(id event.ItemID) {
		if _, ok := h.causes[id]; !ok {
			h.causes[id] = e.Time
		}
	}
	if c.cfg.Causes != nil {
		for _, id := range c.cfg.Causes(run, e) {
			first(id)
		}
	}
	if c.cfg.sends == nil {
		return
	}
	sends, err := c.cfg.sends(run, &h.state, e)
	if err != nil {
		h.underived = true
		return
	}
	for _, s := range sends {
		first(s.ID)
		h.sends = append(h.sends, s)
	}
}

// checkCauses checks for each cause in a log that its record exists (invariant 12). Every record
// exists for longer than store.Horizon.
func (c *checker) checkCauses(r *store.RunState, h *history) {
	for _, id := range slices.Sorted(maps.Keys(h.causes)) {
		if !c.missing(r.Run, h, id) {
			continue
		}
		c.find(12, r.Run, fmt.Sprintf("its log has caused record %s, which is not in the outbox", id), "the operation that it has begun is never performed")
	}
}

// missing reports whether a record that a log has caused is missing. It returns false for an
// imported run, because its records are in the store in which it was executed.
func (c *checker) missing(run event.RunID, h *history, id event.ItemID) bool {
	return !c.imported[run] && c.Now.Sub(h.causes[id]) < store.Horizon && c.records[run][id] == 0
}

// checkLeft checks invariant 14: the trace of a record at its receiver exists as long as the
// record.
func (c *checker) checkLeft() {
	for _, l := range c.left(c.sent) {
		c.findings = append(c.findings, l.finding())
	}
}

// left is the trace of a record at its receiver: the data that the record has left there.
type left struct {
	run     event.RunID // receiver of the record, or the first run of its chain
	id      event.ItemID
	creates bool // the record has created the run
}

func (l left) finding() Finding {
	what := "item %s is kept until it is confirmed, but is in no outbox"
	if l.creates {
		what = "record %s has created it, and is in no outbox"
	}
	return Finding{Invariant: 14, Run: l.run, What: fmt.Sprintf(what, l.id), Explain: "it is never confirmed, and kept for ever"}
}

// left returns the traces of records that are not in sent. It omits recent traces, because their
// records may still be in progress.
func (c *checker) left(sent map[event.ItemID]bool) []left {
	const late = settling + store.Horizon
	var all []left
	for r := range c.runs {
		if r.CreatedBy != "" && !sent[r.CreatedBy] && c.Now.Sub(r.CreatedAt) > late {
			all = append(all, left{r.Run, r.CreatedBy, true})
		}
	}
	for _, run := range slices.Sorted(maps.Keys(c.Kept)) {
		for _, id := range c.Kept[run] {
			if at, ok := c.Seen[run][id]; ok && !sent[id] && c.Now.Sub(at) > late && !c.sentToLater(run, id) {
				all = append(all, left{run, id, false})
			}
		}
	}
	return all
}

// sentToLater reports whether a later run of a chain has a trace of the same item. Confirming the
// item for the later run also confirms it for the chain.
func (c *checker) sentToLater(chain event.RunID, id event.ItemID) bool {
	for run, ids := range c.Kept {
		if r := c.Runs[run]; r != nil && run != chain && r.Chain == chain && slices.Contains(ids, id) {
			return true
		}
	}
	return false
}
