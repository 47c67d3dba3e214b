package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// An outbox is repaired record by record, unlike other derived data, which are deleted and derived
// again. The reason is that the delivery state of a record is not in the log. If a settled record
// were sent again, its receiver might have forgotten it, and it would take effect twice. Therefore
// intact records are kept, and only records that are missing or cannot be delivered are derived
// from the log.

// describeLinks returns a description of the repair of the links of a run.
func describeLinks(m *store.Rebuild, reason store.Reason) string {
	written := map[event.ItemID]bool{}
	var all []string
	for _, s := range m.Write {
		written[s.ID] = true
		all = append(all, fmt.Sprintf("write record %s to run %s again", s.ID, s.To))
	}
	for _, o := range m.Remove {
		if reason == store.ReasonLostRecord && !written[o.ID] {
			all = append(all, fmt.Sprintf("remove record %s to run %s: its purpose is not recorded", o.ID, cmp.Or(string(o.To), "?")))
		} else if !written[o.ID] {
			all = append(all, fmt.Sprintf("remove record %s to run %s, which is %s", o.ID, cmp.Or(string(o.To), "?"), o.Phase))
		}
	}
	for _, id := range m.Confirm {
		all = append(all, fmt.Sprintf("forget record %s", id))
	}
	return strings.Join(all, ", ")
}

// outboxOf returns the records of a run in the order in which they were written.
func (c *checker) outboxOf(run event.RunID) []store.Outgoing {
	var all []store.Outgoing
	for _, o := range c.Outbox {
		if o.From == run {
			all = append(all, o)
		}
	}
	return all
}

// sound reports whether a record can be delivered. A settled record needs no body, because only its
// confirmation remains.
func sound(o *store.Outgoing) bool {
	return o.Phase >= store.PhaseFresh && o.Phase <= store.PhaseSettled && o.To != "" && (o.Phase == store.PhaseSettled || effects.Check(o) == nil)
}

// again returns a copy of a record for another delivery.
func again(o store.Outgoing) store.Outgoing {
	o.Phase = store.PhaseFresh
	return o
}

// newer reports whether a newer release wrote the record. That release can deliver it.
func newer(o *store.Outgoing) bool { return errors.Is(effects.Check(o), effects.ErrNewer) }

// disown adds to m the removal of records whose sender does not exist. It keeps fresh records that
// can be delivered, because they may not have arrived. It removes answered records, because they
// are kept only to be sent again after a loss.
func (d *decider) disown(m *store.Rebuild) {
	for _, o := range d.outboxOf(m.Run) {
		if o.Phase != store.PhaseFresh || !sound(&o) && !newer(&o) {
			m.Remove = append(m.Remove, o)
		}
	}
}

// resend makes an outbox consistent with the log of its run. It writes records again that are
// missing or cannot be delivered, followed by the records that were caused later. It removes a
// record without a cause in the log if the log can be read to its end.
//
// A record with an unreadable cause is delivered unchanged. If its phase is lost, it is delivered
// again; it takes effect once, because it has the same ID. If no worker can deliver the record,
// because its action or its receiver is unknown, it is removed. Otherwise workers would retry it
// forever, and its sender would never be purged. No record that could be delivered is lost. If the
// log is later restored from a backup, the missing record is a finding with a repair of its own.
// This holds for a day, and for longer if the record starts a child or reports an end.
//
// resend returns the reason for the audit trail, and an explanation if no repair is possible.
func (d *decider) resend(m *store.Rebuild, h *history) (reason store.Reason, why string) {
	reason, why = store.ReasonWrongRecord, "it exists more than once, and the copies contradict each other"
	told := h.whole && !h.underived && !d.damaged(d.Runs[m.Run])
	sends, records, write := slices.Clone(h.sends), map[event.ItemID]store.Outgoing{}, map[event.ItemID]bool{}
	for _, o := range d.outboxOf(m.Run) {
		records[o.ID] = o
		fresh := again(o)
		switch _, caused := h.causes[o.ID]; {
		case caused:
			write[o.ID] = !sound(&o)
		case told:
			m.Remove = append(m.Remove, o)
		case sound(&o), sound(&fresh):
			write[o.ID] = !sound(&o)
			sends = append(sends, o.Send)
		case newer(&o), h.newer:
			why = "a newer release wrote it, or the log of its sender: repair with that release"
		default:
			m.Remove, reason = append(m.Remove, o), store.ReasonLostRecord
		}
	}
	for id := range h.causes {
		if d.missing(m.Run, h, id) {
			write[id] = true
		}
	}
	rewrite(m, sends, records, write)
	return reason, why
}

// rewrite adds the changes that write records again to m. Unsettled records for the same receiver
// that were caused later are written after them.
func rewrite(m *store.Rebuild, sends []store.Send, records map[event.ItemID]store.Outgoing, again map[event.ItemID]bool) {
	behind, done := map[event.RunID]bool{}, map[event.ItemID]bool{}
	for _, s := range sends {
		o, there := records[s.ID]
		if done[s.ID] || !again[s.ID] && (!behind[s.To] || !there || o.Phase == store.PhaseSettled) {
			continue
		}
		behind[s.To], done[s.ID] = true, true
		if there {
			m.Remove = append(m.Remove, o)
		}
		m.Write = append(m.Write, s)
	}
}
