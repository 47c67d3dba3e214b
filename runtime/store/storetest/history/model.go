package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// model is the reference store of random histories. It executes package protocol on plain maps and
// has one partition. It stores no data that it can compute: it must be obviously correct, and it
// may be slow. Where the contract leaves a choice to the store, the model checks the choice of the
// store and adopts it.
type model struct {
	clock  store.Clock
	runs   map[event.RunID]*modelRun
	active map[string]event.RunID
	last   map[string]event.RunID
	lines  map[string][]event.RunID
	joined map[event.RunID]event.RunID                // the run that a start has joined, by the run ID of the start
	seen   map[event.RunID]map[event.ItemID]time.Time // when each item was accepted, by chain
	kept   map[event.RunID]map[event.ItemID]bool      // the items in seen that are kept until Confirm, by chain
	// streams contains the streams of each chain.
	streams map[event.RunID]map[string]store.StreamState
	outbox  []store.Outgoing // in the order of writing
	leases  map[store.SessionID]store.Lease
	up      time.Duration                     // total time that counts for the expiry of leases
	heard   time.Time                         // time of the last heartbeat or opening of a session
	renewed map[store.SessionID]time.Duration // the value of up at the last renewal of each lease
	wakes   map[store.Route]bool
	untold  map[store.SessionID]map[event.RunID]bool // runs with items that no Wait has reported
	audit   []store.AuditEntry

	failureGroups map[string]store.FailureGroupInfo // without the number of their runs

	limits   modelLimits
	fairKeys map[store.FairID]*modelFairKey

	turn   int // the number of times that runs became ready
	action int // the number of operations
	op     protocol.Op[*modelRun, store.SessionID]
}

type modelRun struct {
	store.RunState
	// turn and rank determine the order of the ready runs of a priority. Runs that became ready in
	// one action have equal turns and rank 0 until the store has shown their order.
	turn, rank int
	collect    string // key of the starts that the run collects; empty for other runs
	// place and placeRank are the position in the limiter queue of a run that waits or has waited
	// for permits. A run without permits returns to its place. A run with place 0 joins at the end.
	place, placeRank int
	fresh            bool // the last action has set place
	// keyed is set if place is a position in a flow, which consists of the ready runs with fairness
	// keys of one route and priority. placed is set if the model has the order of the run among
	// runs that became ready in the same action.
	keyed, placed bool
}

func newModel(clock store.Clock) *model {
	m := &model{
		clock:    clock,
		runs:     map[event.RunID]*modelRun{},
		active:   map[string]event.RunID{},
		last:     map[string]event.RunID{},
		lines:    map[string][]event.RunID{},
		joined:   map[event.RunID]event.RunID{},
		seen:     map[event.RunID]map[event.ItemID]time.Time{},
		kept:     map[event.RunID]map[event.ItemID]bool{},
		streams:  map[event.RunID]map[string]store.StreamState{},
		leases:   map[store.SessionID]store.Lease{},
		renewed:  map[store.SessionID]time.Duration{},
		wakes:    map[store.Route]bool{},
		untold:   map[store.SessionID]map[event.RunID]bool{},
		limits:   newModelLimits(),
		fairKeys: map[store.FairID]*modelFairKey{},

		failureGroups: map[string]store.FailureGroupInfo{},
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

// cannotReplay reports whether a live session with the same fingerprint as s has blocked the run.
func (m *model) cannotReplay(r *modelRun, s store.SessionID) bool {
	return slices.ContainsFunc(r.Incompatible, func(o store.SessionID) bool {
		return !m.over(o) && m.leases[o].Fingerprint == m.leases[s].Fingerprint
	})
}

// sorted returns all runs in the order of their IDs.
func (m *model) sorted() []*modelRun {
	var all []*modelRun
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		all = append(all, m.runs[id])
	}
	return all
}

// readyRuns returns the ready runs of a route that do not wait for permits, in the order of claims.
// The store may claim runs that compare equal in any order.
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
			by = cmp.Compare(a.rank, b.rank) // the store has shown the order of the two runs and must keep it
		}
		return by
	}
	return cmp.Or(compareTurns(a, b), cmp.Compare(a.rank, b.rank))
}

// passes reports whether claiming r before other violates the order of claims.
func (r *modelRun) passes(other *modelRun) bool {
	if r.Waits() {
		return compareTurns(other, r) < 0
	}
	return compareReady(other, r) < 0
}

// compareTurns compares runs of different queues. It ignores their ranks, which order only the runs
// of one queue.
func compareTurns(a, b *modelRun) int {
	by := -cmp.Compare(a.Priority, b.Priority)
	if a.keyed || b.keyed {
		return cmp.Or(by, compareKeyed(a, b))
	}
	return cmp.Or(by, cmp.Compare(a.turn, b.turn))
}

// owned returns the runs of a session in the order of their IDs.
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

// snapshot returns the state of the model in the form of a store's snapshot.
func (m *model) snapshot() *store.Snapshot {
	s := &store.Snapshot{
		Purges: map[event.RunID]time.Time{}, Limits: m.knownLimits(), Now: m.clock.Now(), Runs: map[event.RunID]*store.RunState{},
		Active: m.active, LastEnded: m.last, Lines: map[string][]event.RunID{}, Seen: m.seen,
		Ready: map[store.Route][]event.RunID{}, Timers: map[event.RunID]time.Time{}, Leases: m.leases,
		Owned: map[store.SessionID][]event.RunID{}, Unread: map[store.SessionID][]event.RunID{},
		Wakes: m.wakes, Audit: m.audit, Outbox: slices.Clone(m.outbox), Kept: map[event.RunID][]event.ItemID{},
		Streams: m.streams, Collecting: map[string]event.RunID{}, FairKeys: m.flowCounts(),
	}
	for chain, items := range m.kept {
		if len(items) > 0 {
			s.Kept[chain] = slices.Sorted(maps.Keys(items))
		}
	}
	for id, r := range m.runs {
		if r.collect != "" {
			s.Collecting[r.collect] = id
		}
		state := r.RunState
		state.Incompatible = slices.DeleteFunc(slices.Sorted(slices.Values(r.Incompatible)), m.over)
		s.Runs[id] = &state
		if r.QueueState == store.StateEnded && !m.heldBack(r) {
			s.Purges[id] = r.purgeTime()
		}
		if r.QueueState == store.StateReady && !r.Waits() && s.Ready[r.Route] == nil {
			ready := m.readyRuns(r.Route)
			slices.SortStableFunc(ready, func(a, b *modelRun) int { return cmp.Compare(a.rank, b.rank) }) // the order that the store has shown
			for _, o := range ready {
				s.Ready[r.Route] = append(s.Ready[r.Route], o.Run)
			}
		}
	}
	s.FailureGroups, s.Failing = m.knownFailureGroups()
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
