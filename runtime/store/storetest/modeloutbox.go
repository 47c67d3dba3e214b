package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The model's outbox, and runs that continue.

// tip follows a run to the last of its chain. It walks: each run says which one
// is next. If the last is gone, the run itself answers.
func (m *model) tip(r *modelRun) *modelRun {
	last := r
	for last.Next != "" {
		next := m.runs[last.Next]
		if next == nil { // one in the middle may be gone; the last is then looked for by the chain
			return m.tipByChain(r)
		}
		last = next
	}
	if last.Hidden {
		return r
	}
	return last
}

func (m *model) tipByChain(r *modelRun) *modelRun {
	for _, other := range m.sorted() {
		if other.Chain == r.Chain && other.Next == "" && !other.Hidden {
			return other
		}
	}
	return r
}

func (m *model) refuseContinue(r *modelRun, c store.Commit) error {
	switch {
	case slices.ContainsFunc(r.Inbox[c.Consume:], func(i store.Item) bool { return i.Scope == store.ScopeRun }):
		return store.ErrMail
	case r.WorkflowID != "" && m.active[r.WorkflowID] != r.Run, m.runs[c.Continue.Run] != nil:
		return &store.ConflictError{Run: c.Run, Seq: c.First, StoredSeq: r.Seq, Prev: c.Prev, Stored: r.Last}
	}
	return nil
}

func (m *model) goOn(r *modelRun, c store.Create) {
	inbox := r.Inbox
	m.retire(r)
	r.Next = c.Run
	next := m.insert(c)
	next.Chain, next.Inbox = r.Chain, inbox
	if r.WorkflowID != "" {
		m.active[r.WorkflowID] = c.Run
	}
	m.makeReady(next, m.nextTurn())
}

// record returns where a record is in the outbox; -1: nowhere.
func (m *model) record(from event.RunID, id event.ItemID) int {
	return slices.IndexFunc(m.outbox, func(o store.Outgoing) bool { return o.From == from && o.ID == id })
}

func (m *model) write(r *modelRun, sends []store.Send) {
	for _, s := range sends {
		if m.record(r.Run, s.ID) < 0 {
			m.outbox = append(slices.Clone(m.outbox), store.Outgoing{Send: s, From: r.Run, Phase: store.PhaseFresh, Since: m.clock.Now()})
		}
	}
}

// dueOf returns when something is to be done for a record by itself.
func dueOf(o store.Outgoing) time.Time {
	if o.Phase == store.PhaseFresh {
		return o.Since
	}
	return o.Since.Add(store.Horizon)
}

// nextRecord returns when something is to be done for some record.
func (m *model) nextRecord() time.Time {
	var next time.Time
	for _, o := range m.outbox {
		if at := dueOf(o); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// wanted returns the records for which something is to be done, if no limit cuts
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

func (m *model) mark(k store.Mark) {
	i := m.record(k.From, k.ID)
	if i < 0 || m.outbox[i].Phase != k.Phase {
		return
	}
	m.outbox = slices.Clone(m.outbox) // a snapshot may hold it
	if k.Unknown && k.Phase != store.PhaseNote && m.takeBack(i) {
		return
	}
	o := &m.outbox[i]
	if o.Phase == store.PhaseNote {
		m.outbox = slices.Delete(m.outbox, i, i+1)
	} else {
		o.Phase, o.Since = o.Phase+1, m.clock.Now()
	}
	sender := m.runs[k.From]
	if k.Refusal != nil && sender.Place != store.PlaceEnded && m.seen[sender.Chain][k.Refusal.ID].IsZero() {
		m.push(sender, *k.Refusal)
	}
}

// takeBack makes the record number i and the answered ones before it fresh, if one
// before it is open.
func (m *model) takeBack(i int) bool {
	pair := func(b store.Outgoing) bool { return b.From == m.outbox[i].From && b.To == m.outbox[i].To }
	if !slices.ContainsFunc(m.outbox[:i], func(b store.Outgoing) bool { return pair(b) && b.Phase != store.PhaseNote }) {
		return false
	}
	for n := range m.outbox[:i+1] {
		if o := &m.outbox[n]; pair(*o) && o.Phase == store.PhaseAnswered {
			o.Phase, o.Since = store.PhaseFresh, m.clock.Now()
		}
	}
	return true
}

func (m *model) confirm(run event.RunID, record event.ItemID) {
	r := m.runs[run]
	if r == nil {
		return
	}
	if r.Birth == record {
		r.Birth = ""
	}
	if m.kept[r.Chain][record] {
		delete(m.kept[r.Chain], record)
		delete(m.seen[r.Chain], record)
		if len(m.seen[r.Chain]) == 0 {
			delete(m.seen, r.Chain)
		}
	}
}

// turnOf returns when something is to be done for a record in its turn.
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
