package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The failure groups of the model. The model computes the runs of each group and their number.

func (m *model) EnterFailureGroup(t store.FailureGroup, at int64) (bool, error) {
	g, known := m.failureGroups[t.Group]
	if !known {
		g.First = protocol.Time(at)
	}
	g.FailureGroup, g.Last, g.Total = t, protocol.Time(at), g.Total+1
	m.failureGroups = maps.Clone(m.failureGroups)
	m.failureGroups[t.Group] = g
	return !known, nil
}

func (m *model) ForgetFailureGroups(before int64, limit int) error {
	var idle []string
	for _, id := range slices.Sorted(maps.Keys(m.failureGroups)) {
		if len(m.inFailureGroup(id)) == 0 && m.failureGroups[id].Last.Before(protocol.Time(before)) {
			idle = append(idle, id)
		}
	}
	slices.SortStableFunc(idle, func(a, b string) int { return m.failureGroups[a].Last.Compare(m.failureGroups[b].Last) })
	m.failureGroups = maps.Clone(m.failureGroups)
	for _, id := range idle[:min(limit, len(idle))] {
		delete(m.failureGroups, id)
	}
	return nil
}

// inFailureGroup returns the runs of a failure group, or of all groups if group is empty.
func (m *model) inFailureGroup(group string) (runs []event.RunID) {
	for _, r := range m.sorted() {
		if r.Group == cmp.Or(group, r.Group) && r.Group != "" {
			runs = append(runs, r.Run)
		}
	}
	return runs
}

func (m *model) knownFailureGroups() (groups map[string]store.FailureGroupState, failing []event.RunID) {
	groups = map[string]store.FailureGroupState{}
	for id, g := range m.failureGroups {
		runs := m.inFailureGroup(id)
		g.Open = len(runs)
		groups[id] = store.FailureGroupState{FailureGroupInfo: g, Runs: runs}
	}
	return groups, m.inFailureGroup("")
}

// listedFailureGroups returns the failure groups in the order in which stores list them.
func (m *model) listedFailureGroups() (all []store.FailureGroupInfo) {
	groups, _ := m.knownFailureGroups()
	for _, g := range groups {
		all = append(all, g.FailureGroupInfo)
	}
	slices.SortFunc(all, func(a, b store.FailureGroupInfo) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Group, b.Group))
	})
	return all
}
