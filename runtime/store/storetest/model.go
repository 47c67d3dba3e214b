package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// model does what a store should do: package protocol on one partition, plain maps, and
// nothing kept that can be computed. It is written to be obviously right, not fast. Where the
// contract leaves a choice to stores, it takes over what the store has chosen
// after checking that it was allowed.
type model struct {
	clock  store.Clock
	runs   map[event.RunID]*modelRun
	active map[string]event.RunID
	last   map[string]event.RunID
	lines  map[string][]event.RunID
	joined map[event.RunID]event.RunID                // by start
	seen   map[event.RunID]map[event.ItemID]time.Time // by chain
	kept   map[event.RunID]map[event.ItemID]bool      // those of them that are remembered until Confirm
	// streams are by chain.
	streams map[event.RunID]map[string]store.StreamState
	outbox  []store.Outgoing // in the order in which they were written
	leases  map[store.SessionID]store.Lease
	up      time.Duration                     // for how long somebody was heard
	heard   time.Time                         // when that was last
	renewed map[store.SessionID]time.Duration // how long that had been when a lease was renewed
	wakes   map[store.Route]bool
	untold  map[store.SessionID]map[event.RunID]bool // items that no Wait has told
	audit   []store.AuditEntry

	troubles map[string]store.TroubleGroup // without the number of runs that are in it

	limits modelLimits
	flows  map[store.FlowID]*modelFlow

	turn   int // counts what makes runs ready
	action int // counts what is asked of the store
	op     protocol.Op[*modelRun, store.SessionID]
}

type modelRun struct {
	store.RunState
	// turn and rank order the ready runs of a priority. Runs that became ready
	// in one action share a turn; their ranks are zero until the store has shown
	// in which order it keeps them.
	turn, rank int
	gather     string // the key of which it gathers the starts
	// place and placeRank are those of a run that waits for permits, or has waited: with them
	// it comes back to its line; 0: it comes anew.
	place, placeRank int
	fresh            bool // the place is of the last action, as turn may be
	// keyed says that the place is one of a flow, and placed that it is known.
	keyed, placed bool
}

func newModel(clock store.Clock) *model {
	m := &model{
		clock:   clock,
		runs:    map[event.RunID]*modelRun{},
		active:  map[string]event.RunID{},
		last:    map[string]event.RunID{},
		lines:   map[string][]event.RunID{},
		joined:  map[event.RunID]event.RunID{},
		seen:    map[event.RunID]map[event.ItemID]time.Time{},
		kept:    map[event.RunID]map[event.ItemID]bool{},
		streams: map[event.RunID]map[string]store.StreamState{},
		leases:  map[store.SessionID]store.Lease{},
		renewed: map[store.SessionID]time.Duration{},
		wakes:   map[store.Route]bool{},
		untold:  map[store.SessionID]map[event.RunID]bool{},
		limits:  newModelLimits(),
		flows:   map[store.FlowID]*modelFlow{},

		troubles: map[string]store.TroubleGroup{},
	}
	m.op.Tx = m
	return m
}

func (m *model) nextTurn() int {
	m.turn++
	return m.turn
}

func (m *model) over(s store.SessionID) bool {
	_, live := m.leases[s]
	return !live
}

// cannotReplay reports whether a live session with the code of this one has blocked the run.
func (m *model) cannotReplay(r *modelRun, s store.SessionID) bool {
	return slices.ContainsFunc(r.Incompatible, func(o store.SessionID) bool {
		return !m.over(o) && m.leases[o].Fingerprint == m.leases[s].Fingerprint
	})
}

// sorted returns all runs in the order of their ids.
func (m *model) sorted() []*modelRun {
	var all []*modelRun
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		all = append(all, m.runs[id])
	}
	return all
}

// readyRuns returns the ready runs of a route, without those that wait for permits, in the order of their claims; runs
// that compare equal may be claimed in any order.
func (m *model) readyRuns(route store.Route) []*modelRun {
	var ready []*modelRun
	for _, r := range m.sorted() {
		if r.QueueState == store.StateReady && r.Route == route && !r.Waits() {
			ready = append(ready, r)
		}
	}
	slices.SortStableFunc(ready, compareReady)
	return ready
}

func compareReady(a, b *modelRun) int {
	if a.keyed || b.keyed {
		by := compareTurns(a, b)
		if by == 0 && !a.Waits() && !b.Waits() && a.rank > 0 && b.rank > 0 {
			by = cmp.Compare(a.rank, b.rank) // both were shown, and stay in that order
		}
		return by
	}
	return cmp.Or(compareTurns(a, b), cmp.Compare(a.rank, b.rank))
}

// passes reports whether a run that is claimed comes before another one that is ready.
func (r *modelRun) passes(other *modelRun) bool {
	if r.Waits() {
		return compareTurns(other, r) < 0
	}
	return compareReady(other, r) < 0
}

// compareTurns compares runs that are not in one list: their ranks say nothing.
func compareTurns(a, b *modelRun) int {
	by := -cmp.Compare(a.Priority, b.Priority)
	if a.keyed || b.keyed {
		return cmp.Or(by, compareKeyed(a, b))
	}
	return cmp.Or(by, cmp.Compare(a.turn, b.turn))
}

// owned returns the runs of a session in the order of their ids.
func (m *model) owned(s store.SessionID) []*modelRun {
	var owned []*modelRun
	for _, r := range m.sorted() {
		if r.QueueState == store.StateOwned && r.Owner == s {
			owned = append(owned, r)
		}
	}
	return owned
}

func (m *model) unread(s store.SessionID) []event.RunID {
	var unread []event.RunID
	for _, r := range m.owned(s) {
		if len(r.Inbox) > 0 {
			unread = append(unread, r.Run)
		}
	}
	return unread
}

// timers returns the runs that have a due time, the earliest first.
func (m *model) timers() []*modelRun {
	var timed []*modelRun
	for _, r := range m.sorted() {
		if !r.Due.IsZero() {
			timed = append(timed, r)
		}
	}
	slices.SortStableFunc(timed, func(a, b *modelRun) int { return a.Due.Compare(b.Due) })
	return timed
}

func (m *model) nextDue() time.Time {
	if timed := m.timers(); len(timed) > 0 {
		return timed[0].Due
	}
	return time.Time{}
}

// snapshot returns the state as a store shows it.
func (m *model) snapshot() *store.Snapshot {
	s := &store.Snapshot{
		Purges: map[event.RunID]time.Time{}, Limits: m.knownLimits(), Now: m.clock.Now(), Runs: map[event.RunID]*store.RunState{},
		Active: m.active, LastEnded: m.last, Lines: map[string][]event.RunID{}, Seen: m.seen,
		Ready: map[store.Route][]event.RunID{}, Timers: map[event.RunID]time.Time{}, Leases: m.leases,
		Owned: map[store.SessionID][]event.RunID{}, Unread: map[store.SessionID][]event.RunID{},
		Wakes: m.wakes, Audit: m.audit, Outbox: slices.Clone(m.outbox), Kept: map[event.RunID][]event.ItemID{},
		Streams: m.streams, Gathering: map[string]event.RunID{}, Flows: m.flowCounts(),
	}
	for chain, items := range m.kept {
		if len(items) > 0 {
			s.Kept[chain] = slices.Sorted(maps.Keys(items))
		}
	}
	for id, r := range m.runs {
		if r.gather != "" {
			s.Gathering[r.gather] = id
		}
		state := r.RunState
		state.Incompatible = slices.DeleteFunc(slices.Sorted(slices.Values(r.Incompatible)), m.over)
		s.Runs[id] = &state
		if r.QueueState == store.StateEnded && !m.heldBack(r) {
			s.Purges[id] = r.purgeTime()
		}
		if r.QueueState == store.StateReady && !r.Waits() && s.Ready[r.Route] == nil {
			ready := m.readyRuns(r.Route)
			slices.SortStableFunc(ready, func(a, b *modelRun) int { return cmp.Compare(a.rank, b.rank) }) // as the store has shown them
			for _, o := range ready {
				s.Ready[r.Route] = append(s.Ready[r.Route], o.Run)
			}
		}
	}
	s.Troubles, s.Troubled = m.knownTroubles()
	for _, r := range m.timers() {
		s.Timers[r.Run] = r.Due
	}
	for wid, line := range m.lines {
		if len(line) > 0 {
			s.Lines[wid] = line
		}
	}
	for id := range m.leases {
		for _, r := range m.owned(id) {
			s.Owned[id] = append(s.Owned[id], r.Run)
		}
		if unread := m.unread(id); unread != nil {
			s.Unread[id] = unread
		}
	}
	return s
}
