package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkOutbox is 12 as far as it begins with a record.
func (c *checker) checkOutbox() {
	for _, from := range slices.Sorted(maps.Keys(c.records)) {
		for _, id := range slices.Sorted(maps.Keys(c.records[from])) {
			if n := c.records[from][id]; n > 1 {
				c.find(12, from, fmt.Sprintf("its record %s is in the outbox %d times", id, n), "what it does is done twice, or out of order")
			}
		}
	}
	for _, o := range c.Outbox {
		if o.Phase < store.PhaseFresh || o.Phase > store.PhaseNote {
			c.find(12, o.From, fmt.Sprintf("its record %s is in phase %d, which does not exist", o.ID, o.Phase), "it is never carried over, and holds its sender back")
		}
		if _, ok := c.Runs[o.From]; !ok {
			c.find(12, o.From, fmt.Sprintf("it does not exist, and has record %s in the outbox", o.ID), "nobody knows why it was written")
			continue
		}
		h := c.logs[o.From]
		if c.causes == nil || h == nil || !h.whole {
			continue
		}
		if _, ok := h.causes[o.ID]; !ok {
			c.find(12, o.From, fmt.Sprintf("its record %s is in the outbox, and nothing in its log has caused it", o.ID), "something is done that the run does not know of")
		}
	}
}

// checkCauses is 12 as far as it begins with a log. A record exists for longer than
// the Horizon, whatever becomes of it.
func (c *checker) checkCauses(r *store.RunState, h *history) {
	for _, id := range slices.Sorted(maps.Keys(h.causes)) {
		if c.Now.Sub(h.causes[id]) >= store.Horizon || c.records[r.Run][id] > 0 {
			continue
		}
		c.find(12, r.Run, fmt.Sprintf("its log has caused record %s, which is not in the outbox", id), "what it has begun is never done")
	}
}

// checkLeft is 14. A record may still be on its way back to its sender.
func (c *checker) checkLeft() {
	const explain = "nobody will ever confirm it, and it is kept for ever"
	const late = settling + store.Horizon
	for r := range c.runs {
		if r.Birth != "" && !c.sent[r.Birth] && c.Now.Sub(r.CreatedAt) > late {
			c.find(14, r.Run, fmt.Sprintf("record %s has created it, and is in no outbox", r.Birth), explain)
		}
	}
	for _, chain := range slices.Sorted(maps.Keys(c.Kept)) {
		for _, id := range c.Kept[chain] {
			if at, ok := c.Seen[chain][id]; ok && !c.sent[id] && c.Now.Sub(at) > late {
				c.find(14, chain, fmt.Sprintf("item %s is remembered until it is confirmed, and is in no outbox", id), explain)
			}
		}
	}
}
