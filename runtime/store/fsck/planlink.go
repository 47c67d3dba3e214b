package fsck

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/parcel"
	"github.com/flowgen/flowgen/runtime/store"
)

// link decides about the outbox of a run, which must hold the records that its log has caused. A
// record is removed only if that loses nothing that the run, as its log tells it,
// has done.
func (p *planner) link(id event.RunID) Fix {
	fix := Fix{Run: id, Findings: p.linked[id]}
	m := store.LinkMend{Run: id, Reason: store.ReasonWrongRecord, By: p.by}
	switch r, h := p.Runs[id], p.logs[id]; {
	case r == nil:
		p.disown(&m)
		fix.Why = "its sender is lost, and it may not have been delivered yet: restore its sender from a backup"
	case h == nil || !h.whole || h.underived:
		p.refresh(&m)
		fix.Why = "the log of its sender does not tell what it is"
	default:
		p.resend(&m, h)
		fix.Why = "it is there more than once, and what one of them does, the other one undoes"
	}
	if len(m.Remove) == 0 && len(m.Write) == 0 {
		return fix
	}
	return p.linking(fix, m)
}

// linking returns the fix of the links of a run.
func (p *planner) linking(fix Fix, m store.LinkMend) Fix {
	fix.Why, fix.Action = "", describeLinks(&m)
	if p.Runs[m.Run] != nil {
		fix.Reason = m.Reason
	}
	fix.do = func(ctx context.Context, e store.Examination) (bool, error) { return e.MendLinks(ctx, m) }
	return fix
}

func describeLinks(m *store.LinkMend) string {
	written := map[event.ItemID]bool{}
	var all []string
	for _, s := range m.Write {
		written[s.ID] = true
		all = append(all, fmt.Sprintf("write record %s to run %s again", s.ID, s.To))
	}
	for _, o := range m.Remove {
		if !written[o.ID] {
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

// sound reports whether a record can be delivered.
func sound(o *store.Outgoing) bool {
	_, err := parcel.Decode(o.Body)
	return o.Phase >= store.PhaseFresh && o.Phase <= store.PhaseNote && o.To != "" && err == nil
}

// disown removes records whose sender does not exist, unless they may not have
// arrived: an answered one is only sent again in case of a loss.
func (p *planner) disown(m *store.LinkMend) {
	for _, o := range p.outboxOf(m.Run) {
		if o.Phase != store.PhaseFresh || !sound(&o) {
			m.Remove = append(m.Remove, o)
		}
	}
}

// refresh lets those records be delivered again whose phase is lost.
func (p *planner) refresh(m *store.LinkMend) {
	for _, o := range p.outboxOf(m.Run) {
		again := o
		again.Phase = store.PhaseFresh
		if !sound(&o) && sound(&again) {
			m.Remove, m.Write = append(m.Remove, o), append(m.Write, o.Send)
		}
	}
}

// resend makes an outbox agree with the log of its run: it removes records that the log
// has not caused, and writes again those that are missing or cannot be delivered. The
// records that were caused after them are written after them.
func (p *planner) resend(m *store.LinkMend, h *history) {
	records, again := map[event.ItemID]store.Outgoing{}, map[event.ItemID]bool{}
	for _, o := range p.outboxOf(m.Run) {
		records[o.ID] = o
		if _, caused := h.causes[o.ID]; !caused {
			m.Remove = append(m.Remove, o)
		} else if !sound(&o) {
			again[o.ID] = true
		}
	}
	for id := range h.causes {
		if p.missing(m.Run, h, id) {
			again[id] = true
		}
	}
	rewrite(m, h.sends, records, again)
}

// rewrite adds to m what it takes to write records again. Those of the same
// receiver that were caused later, and are not notes, follow them.
func rewrite(m *store.LinkMend, sends []store.Send, records map[event.ItemID]store.Outgoing, again map[event.ItemID]bool) {
	behind, done := map[event.RunID]bool{}, map[event.ItemID]bool{}
	for _, s := range sends {
		o, there := records[s.ID]
		if done[s.ID] || !again[s.ID] && (!behind[s.To] || !there || o.Phase == store.PhaseNote) {
			continue
		}
		behind[s.To], done[s.ID] = true, true
		if there {
			m.Remove = append(m.Remove, o)
		}
		m.Write = append(m.Write, s)
	}
}
