package history

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The model's outbox.

// record returns the index of a record in the outbox, or -1 if the outbox does not contain it.
func (m *model) record(from event.RunID, id event.ItemID) int {
	return slices.IndexFunc(m.outbox, func(o store.Outgoing) bool { return o.From == from && o.ID == id })
}

// dueOf returns when a record is due if other records are ignored.
func dueOf(o store.Outgoing) time.Time {
	if o.Phase == store.PhaseFresh {
		return o.Since
	}
	return o.Since.Add(store.Horizon)
}

// nextRecord returns when the next record is due.
func (m *model) nextRecord() time.Time {
	var next time.Time
	for _, o := range m.outbox {
		if at := dueOf(o); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// wanted returns the due records that an outbox must return if its limit does not cut them off.
func (m *model) wanted() []store.Outgoing {
	var wanted []store.Outgoing
	for i, o := range m.outbox {
		if !dueOf(o).After(m.clock.Now()) && (o.Phase != store.PhaseAnswered || m.behindNone(m.outbox[:i], o)) {
			wanted = append(wanted, o)
		}
	}
	return wanted
}

// behindNone reports whether no earlier record of the same sender and receiver must be sent before
// o.
func (m *model) behindNone(before []store.Outgoing, o store.Outgoing) bool {
	return !slices.ContainsFunc(before, func(b store.Outgoing) bool {
		return b.From == o.From && b.To == o.To && b.Phase == store.PhaseAnswered && dueOf(b).After(m.clock.Now())
	})
}

// turnOf returns when a record is due after the earlier records of the same sender and receiver.
func (m *model) turnOf(o store.Outgoing) time.Time {
	at := dueOf(o)
	if o.Phase != store.PhaseAnswered {
		return at
	}
	for _, b := range m.outbox[:m.record(o.From, o.ID)] {
		if due := dueOf(b); b.To == o.To && b.From == o.From && b.Phase == store.PhaseAnswered && due.After(at) {
			at = due
		}
	}
	return at
}

// settled reports whether a correct relay may confirm an item now.
func (m *model) settled(id event.ItemID) bool {
	for chain, kept := range m.kept {
		if kept[id] && m.clock.Now().Before(m.seen[chain][id].Add(2*store.Horizon)) {
			return false
		}
	}
	return true
}
