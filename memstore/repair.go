package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// RepairRun puts a run where it belongs, if it is as it was examined.
func (e *partitionScan) RepairRun(ctx context.Context, m store.RunRepair) (bool, error) {
	if err := e.s.enter(ctx); err != nil {
		return false, fmt.Errorf("repair run %s: %w", m.Record.Run, err)
	}
	p := e.p
	p.mu.Lock()
	defer p.mu.Unlock()
	r, seen := p.runs[m.Record.Run], e.snap.Runs[m.Record.Run]
	if r == nil || seen == nil || r.hidden != seen.Hidden || !sameRecord(r.record(), seen.Record) || !r.sameInbox(seen.Inbox, m.Drop) {
		return false, nil
	}
	owner := r.owner
	p.audit(r, m.Reason, m.By)
	p.expel(r)
	p.rewrite(r, &m)
	p.place(r, owner, &m)
	p.frames.Notify(r.id)
	return true, nil
}

// sameRecord compares records; no tags are the same as none.
func sameRecord(a, b store.Record) bool {
	same := maps.Equal(a.Tags, b.Tags)
	a.Tags, b.Tags = nil, nil
	return same && reflect.DeepEqual(a, b)
}

// sameInbox reports whether the items to drop are still at the positions where they
// were seen.
func (r *run) sameInbox(seen []store.Item, drop []int) bool {
	return !slices.ContainsFunc(drop, func(n int) bool { return n >= len(r.inbox) || r.inbox[n].ID != seen[n].ID })
}

// audit notes an intervention, with what the run is now.
func (p *partition) audit(r *run, reason store.Reason, by store.SessionID) {
	rec := r.record()
	r.rare().audit = append(r.rare().audit, store.AuditEntry{
		Time: timeOf(p.now()), Run: r.id, Reason: reason, By: by, Owner: rec.Owner, QueueState: rec.QueueState, Status: rec.Status, Epoch: rec.Fence.Epoch,
	})
}

// expel takes a run out of everything that only runs in a place are in, whatever
// the run itself says of its place.
func (p *partition) expel(r *run) {
	for _, c := range p.routes {
		c.blocked.expel(r)
		for i := len(c.levels) - 1; i >= 0; i-- {
			c.levels[i].runs.expel(r)
			if c.levels[i].runs.n == 0 && len(c.levels) > 1 {
				c.levels = slices.Delete(c.levels, i, i+1)
			}
		}
	}
	for _, s := range p.sessions {
		s.owned.expel(r)
		s.read(r)
	}
	p.timers.expel(r)
	p.purges.expel(r)
	r.place, r.owner, r.token, r.due, r.ended, r.closing = 0, nil, event.Token{}, 0, 0, false
	r.rare().blockers = nil
}

// expel is remove for a run that may not be there.
func (l *list) expel(r *run) {
	for other := l.first; other != nil; other = other.after {
		if other == r {
			l.remove(r)
			return
		}
	}
}

// expel removes all entries of a run, even if their positions are wrong.
func (t *timers) expel(r *run) {
	kept := slices.DeleteFunc(slices.Clone(*t), func(one timer) bool { return one.run == r })
	if len(kept) == len(*t) {
		return
	}
	*t = (*t)[:0]
	for _, one := range kept {
		t.add(one.run, one.at)
	}
}

// rewrite writes the repaired metadata of a run, except for its place.
func (p *partition) rewrite(r *run, m *store.RunRepair) {
	rec := &m.Record
	if route := p.route(rec.Route); route != r.route {
		before := r.route
		r.route = route
		before.runs--
		route.runs++
		p.tidy(before)
	}
	p.rechain(r, rec.Chain)
	r.wid, r.priority, r.status, r.seq, r.last = rec.WorkflowID, rec.Priority, rec.Status, rec.Seq, rec.Last
	r.epoch, r.recoveries, r.hidden = rec.Fence.Epoch, int32(rec.Recoveries), m.Hidden
	p.ids.remove(r)
	r.created = millis(rec.CreatedAt)
	p.ids.add(r)
	x := r.rare()
	x.tags, x.parent, x.root, x.retention = rec.Tags, rec.Parent, rec.Root, 0
	if rec.Retention != store.DefaultRetention {
		x.retention = rec.Retention
	}
	if r.links != nil || rec.Next != "" || rec.CreatedBy != "" {
		r.linked().next, r.links.createdBy = rec.Next, rec.CreatedBy
	}
	p.retip(rec.Chain)
	maps.Copy(p.notesOf(r, len(m.Notes)), m.Notes)
	p.recall(rec.Chain, m.Remember)
	inbox := r.inbox
	r.inbox = nil
	for n, i := range inbox {
		if !slices.Contains(m.Drop, n) {
			r.inbox = append(r.inbox, i)
		}
	}
}

// rechain puts a run into another chain.
func (p *partition) rechain(r *run, to event.RunID) {
	if to == r.chain {
		return
	}
	before := r.chain
	if r.chain = to; to != r.id {
		if p.chains[to] == nil {
			p.chains[to] = &chain{}
		}
		p.chains[to].later++
	}
	c := p.chains[before]
	if c == nil || before == r.id {
		return
	}
	if c.later--; c.later > 0 {
		p.retip(before)
		return
	}
	delete(p.chains, before)
	if head := p.runs[before]; head != nil {
		p.reschedule(head)
	}
}

// retip finds the last run of a chain of more than one again.
func (p *partition) retip(chain event.RunID) {
	if c := p.chains[chain]; c != nil {
		c.tip = p.tips()[chain]
	}
}

// tips returns the run of each chain that has not continued, none if that is gone.
// Of several, which is damage, it is the newest.
func (p *partition) tips() map[event.RunID]*run {
	last := map[event.RunID]*run{}
	for _, r := range p.runs {
		if (r.links == nil || r.links.next == "") && (last[r.chain] == nil || newer(r, last[r.chain])) {
			last[r.chain] = r
		}
	}
	return last
}

// newer reports whether a run of a chain comes after another one. The first run comes
// before those that were created in the same millisecond.
func newer(a, b *run) bool {
	if a.created == b.created && (a.id == a.chain) != (b.id == b.chain) {
		return b.id == b.chain
	}
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.id, b.id)) > 0
}

func (p *partition) notesOf(r *run, more int) map[string][]byte {
	if r.rare().notes == nil && more > 0 {
		r.extra.notes = map[string][]byte{}
	}
	return r.extra.notes
}

// recall adds items to what a chain has accepted, in order of acceptance.
func (p *partition) recall(chain event.RunID, items map[event.ItemID]time.Time) {
	if len(items) == 0 {
		return
	}
	s := p.seenOf(chain)
	for id, at := range items {
		if !p.accepted(chain, id) {
			s.add(id, millis(at))
		}
	}
	slices.SortStableFunc(s.items, func(a, b seenItem) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
}

// place puts a run that is nowhere into its place.
func (p *partition) place(r *run, owner *session, m *store.RunRepair) {
	switch rec := &m.Record; rec.QueueState {
	case store.StateReady:
		p.makeReady(r)
	case store.StateOwned:
		r.place, r.owner, r.token = store.StateOwned, owner, rec.Fence.Token
		owner.owned.push(r)
		if len(r.inbox) > 0 {
			p.tell(r)
		}
	case store.StateParked:
		p.park(r, millis(rec.Due))
	case store.StateBlocked:
		p.block(r)
	case store.StateQueued:
		r.place = store.StateQueued
	case store.StateEnded:
		r.place, r.inbox, r.ended = store.StateEnded, nil, millis(rec.EndedAt)
		r.rare().notes, r.timer = nil, unpurged
		p.reschedule(r)
	}
}

// RepairName sets what a workflow id leads to, if it leads to what it was seen to.
func (e *partitionScan) RepairName(ctx context.Context, m store.NameRepair) (bool, error) {
	if err := e.s.enter(ctx); err != nil {
		return false, fmt.Errorf("repair workflow id %q: %w", m.WorkflowID, err)
	}
	p := e.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leads(m.WorkflowID, e.snap) {
		return false, nil
	}
	n := p.name(m.WorkflowID)
	n.active, n.last, n.line = p.runs[m.Active], p.runs[m.Last], nil
	for _, id := range m.Line {
		if r := p.runs[id]; r != nil {
			n.line = append(n.line, r)
		}
	}
	if n.active == nil && n.last == nil && len(n.line) == 0 {
		delete(p.names, m.WorkflowID)
	}
	if r := p.runs[m.Run]; r != nil {
		p.audit(r, m.Reason, m.By)
	}
	return true, nil
}

// leads reports whether a workflow id leads to what it was seen to.
func (p *partition) leads(workflowID string, seen *store.Snapshot) bool {
	id := func(r *run) event.RunID {
		if r == nil {
			return ""
		}
		return r.id
	}
	n := p.names[workflowID]
	if n == nil {
		n = &name{}
	}
	return id(n.active) == seen.Active[workflowID] && id(n.last) == seen.LastEnded[workflowID] &&
		slices.EqualFunc(n.line, seen.Lines[workflowID], func(r *run, s event.RunID) bool { return id(r) == s })
}

// Forget removes what is kept under the id of a run that does not exist.
func (e *partitionScan) Forget(ctx context.Context, id event.RunID) (bool, error) {
	if err := e.s.enter(ctx); err != nil {
		return false, fmt.Errorf("forget run %s: %w", id, err)
	}
	p := e.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[id] != nil {
		return false, nil
	}
	done := p.strangers(id)
	if p.chains[id] == nil {
		done = done || p.seen[id] != nil || p.kept[id] != nil || p.streams[id] != nil
		delete(p.streams, id)
		delete(p.seen, id)
		delete(p.kept, id)
	}
	return done, nil
}

// strangers expels runs of an id that are not known, wherever they are.
func (p *partition) strangers(id event.RunID) (found bool) {
	all := map[*run]struct{}{}
	note := func(r *run) {
		if r != nil && r.id == id {
			all[r] = struct{}{}
		}
	}
	for _, t := range slices.Concat(p.timers, p.purges) {
		note(t.run)
	}
	for _, c := range p.routes {
		for r := range c.ready() {
			note(r)
		}
	}
	for _, s := range p.sessions {
		for r := s.owned.first; r != nil; r = r.after {
			note(r)
		}
		for r := range s.mail {
			note(r)
		}
	}
	for _, n := range p.names {
		note(n.active)
		note(n.last)
		for _, r := range n.line {
			note(r)
		}
	}
	for r := range all {
		p.expel(r)
		for _, n := range p.names {
			p.unname(n, r)
		}
	}
	return len(all) > 0
}

func (p *partition) unname(n *name, r *run) {
	if n.active == r {
		n.active = nil
	}
	if n.last == r {
		n.last = nil
	}
	n.line = slices.DeleteFunc(n.line, func(one *run) bool { return one == r })
}
