package outbox

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// recordKey identifies a record of an outbox.
type recordKey struct {
	from event.RunID
	id   event.ItemID
}

func keyOf(o *store.Outgoing) recordKey { return recordKey{o.From, o.ID} }

// holds contains the records that could not be delivered. Each record waits separately, longer
// after each failure. It is logged at the first failure and then at growing intervals. A damaged
// record, or one whose receiver is in a partition that does not answer, delays only the later
// records of the same pair, which must keep their order.
type holds struct {
	clock store.Clock
	held  map[recordKey]*hold
}

type hold struct {
	failures int
	until    time.Time
	seen     bool // whether the last read of the outbox contained the record
}

const (
	holdFirst   = 100 * time.Millisecond
	holdMost    = 5 * time.Second
	damagedMost = 10 * time.Minute // maximum for an unreadable record, which another release may be able to read
)

// waits reports whether a record must wait longer before its next delivery.
func (h *holds) waits(o *store.Outgoing) bool {
	k := h.held[keyOf(o)]
	return k != nil && h.clock.Now().Before(k.until)
}

// fail makes a record wait. The time grows with each failure and is bounded by most. fail reports
// whether the failure should be logged.
func (h *holds) fail(o *store.Outgoing, most time.Duration) bool {
	if h.held == nil {
		h.held = map[recordKey]*hold{}
	}
	k := h.held[keyOf(o)]
	if k == nil {
		k = &hold{seen: true}
		h.held[keyOf(o)] = k
	}
	k.failures++
	k.until = h.clock.Now().Add(min(holdFirst<<min(k.failures, 16), most))
	return k.failures&(k.failures-1) == 0
}

// sweep drops held records that the outbox does not contain. If all is false, records is only a
// part of the outbox, and sweep drops none.
func (h *holds) sweep(records []store.Outgoing, all bool) {
	if len(h.held) == 0 {
		return
	}
	for _, k := range h.held {
		k.seen = false
	}
	for i := range records {
		if k := h.held[keyOf(&records[i])]; k != nil {
			k.seen = true
		}
	}
	for key, k := range h.held {
		if all && !k.seen {
			delete(h.held, key)
		}
	}
}

// next returns the earliest time at which a held record of the outbox may be delivered again. It
// returns zero if no record is held.
func (h *holds) next() time.Time {
	var next time.Time
	for _, k := range h.held {
		if k.seen && (next.IsZero() || k.until.Before(next)) {
			next = k.until
		}
	}
	return next
}
