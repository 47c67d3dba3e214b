package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Inspect returns a copy of the complete contents of the store as of one moment.
func (s *Store) Inspect(ctx context.Context) (*store.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.parts { // lock all partitions, for a consistent copy
		p.mu.Lock()
	}
	defer func() {
		for _, p := range s.parts {
			p.mu.Unlock()
		}
	}()
	snap := newSnapshot(s.clock.Now())
	snap.Entries = s.entries.all()
	for _, p := range s.parts {
		p.inspectRuns(snap)
		p.inspectSeen(snap)
		p.inspectCollecting(snap)
		p.inspectStreams(snap)
		p.inspectOutbox(snap)
		p.inspectNames(snap)
		p.inspectWork(snap)
		p.inspectLimits(snap)
		p.inspectSessions(snap)
		p.inspectFailureGroups(snap)
	}
	slices.SortStableFunc(snap.Audit, func(a, b store.AuditEntry) int { return a.Time.Compare(b.Time) })
	return snap, nil
}

func newSnapshot(now time.Time) *store.Snapshot {
	return &store.Snapshot{
		Now:           now,
		Runs:          map[event.RunID]*store.RunState{},
		Active:        map[string]event.RunID{},
		LastEnded:     map[string]event.RunID{},
		Lines:         map[string][]event.RunID{},
		Collecting:    map[string]event.RunID{},
		Seen:          map[event.RunID]map[event.ItemID]time.Time{},
		Ready:         map[store.Route][]event.RunID{},
		Timers:        map[event.RunID]time.Time{},
		Leases:        map[store.SessionID]store.Lease{},
		Owned:         map[store.SessionID][]event.RunID{},
		Unread:        map[store.SessionID][]event.RunID{},
		Wakes:         map[store.Route]bool{},
		Purges:        map[event.RunID]time.Time{},
		Kept:          map[event.RunID][]event.ItemID{},
		Streams:       map[event.RunID]map[string]store.StreamState{},
		Limits:        map[store.LimitID]store.LimitState{},
		FairKeys:      map[store.FairID]int{},
		FailureGroups: map[string]store.FailureGroupState{},
	}
}

func (p *partition) inspectRuns(snap *store.Snapshot) {
	for r := range p.ids.before(position{}) {
		state := &store.RunState{Record: r.record(), Hidden: r.hidden, Incompatible: p.blockers(r)}
		state.Tags = maps.Clone(state.Tags)
		for _, f := range r.frames {
			state.Frames = append(state.Frames, bytes.Clone(f))
		}
		for _, i := range r.inbox {
			i.Body = bytes.Clone(i.Body)
			state.Inbox = append(state.Inbox, i)
		}
		snap.Runs[r.id] = state
		if r.extra != nil {
			snap.Audit = append(snap.Audit, r.extra.audit...)
		}
	}
}

func (p *partition) inspectSeen(snap *store.Snapshot) {
	for chain, s := range p.seen {
		at := map[event.ItemID]time.Time{}
		for _, i := range s.items {
			at[i.id] = timeOf(i.at)
		}
		snap.Seen[chain] = at
	}
	for chain, items := range p.kept {
		if snap.Seen[chain] == nil {
			snap.Seen[chain] = map[event.ItemID]time.Time{}
		}
		for id, at := range items {
			snap.Seen[chain][id] = timeOf(at)
		}
		snap.Kept[chain] = slices.Sorted(maps.Keys(items))
	}
}

func (p *partition) inspectOutbox(snap *store.Snapshot) {
	for _, r := range p.outbox.sorted() {
		o := r.outgoing()
		o.Body = bytes.Clone(o.Body)
		snap.Outbox = append(snap.Outbox, o)
	}
}

func (p *partition) inspectNames(snap *store.Snapshot) {
	for workflowID, n := range p.names {
		if n.active != nil {
			snap.Active[workflowID] = n.active.id
		}
		if n.last != nil {
			snap.LastEnded[workflowID] = n.last.id
		}
		for _, r := range n.line {
			snap.Lines[workflowID] = append(snap.Lines[workflowID], r.id)
		}
	}
}

func (p *partition) inspectWork(snap *store.Snapshot) {
	for known, c := range p.routes {
		for r := range c.ready() {
			snap.Ready[known] = append(snap.Ready[known], r.id)
		}
		if c.wake {
			snap.Wakes[known] = true
		}
	}
	for _, t := range p.timers {
		snap.Timers[t.run.id] = timeOf(t.at)
	}
	for _, t := range p.purges {
		snap.Purges[t.run.id] = timeOf(t.at)
	}
}

func (p *partition) inspectSessions(snap *store.Snapshot) {
	for id, l := range p.sessions {
		snap.Leases[id] = p.lease(l)
		owned := make([]event.RunID, 0, l.owned.n)
		for r := l.owned.first; r != nil; r = r.after {
			owned = append(owned, r.id)
		}
		if len(owned) > 0 {
			slices.Sort(owned)
			snap.Owned[id] = owned
		}
		if unread := ids(l.unread); unread != nil {
			snap.Unread[id] = unread
		}
	}
}
