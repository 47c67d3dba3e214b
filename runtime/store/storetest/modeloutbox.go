package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The model's outbox, and runs that continue.

// record returns where a record is in the outbox; -1: nowhere.
func (m *model) record(from event.RunID, id event.ItemID) int {
	return slices.IndexFunc(m.outbox, func(o store.Outgoing) bool { return o.From == from && o.ID == id })
}

// dueOf returns when there is something to do for a record by itself.
func dueOf(o store.Outgoing) time.Time {
	if o.Phase == store.PhaseFresh {
		return o.Since
	}
	return o.Since.Add(store.Horizon)
}

// nextRecord returns when there is something to do for some record.
func (m *model) nextRecord() time.Time {
	var next time.Time
	for _, o := range m.outbox {
		if at := dueOf(o); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// wanted returns the records for which there is something to do, if no limit cuts
// them off.
func (m *model) wanted() []store.Outgoing {
	var wanted []store.Outgoing
	for i, o := range m.outbox {
		if !dueOf(o).After(m.clock.Now()) && (o.Phase != store.PhaseAnswered || m.behindNone(m.outbox[:i], o)) {
			wanted = append(wanted, o)
		}
	}
	return wanted
}

// behindNone reports whether none of the records before one of their pair waits
// for its time.
func (m *model) behindNone(before []store.Outgoing, o store.Outgoing) bool {
	return !slices.ContainsFunc(before, func(b store.Outgoing) bool {
		return b.From == o.From && b.To == o.To && b.Phase == store.PhaseAnswered && dueOf(b).After(m.clock.Now())
	})
}

// turnOf returns when there is something to do for a record in its turn.
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

// settled reports whether an honest relay could confirm an item by now.
func (m *model) settled(id event.ItemID) bool {
	for chain, kept := range m.kept {
		if kept[id] && m.clock.Now().Before(m.seen[chain][id].Add(2*store.Horizon)) {
			return false
		}
	}
	return true
}
