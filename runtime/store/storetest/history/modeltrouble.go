package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The failure groups of the model. Their runs, and the numbers of them, are computed.

func (m *model) EnterTrouble(t store.Trouble, at int64) (bool, error) {
	g, known := m.troubles[t.Group]
	if !known {
		g.First = protocol.Time(at)
	}
	g.Trouble, g.Last, g.Total = t, protocol.Time(at), g.Total+1
	m.troubles = maps.Clone(m.troubles)
	m.troubles[t.Group] = g
	return !known, nil
}

func (m *model) ForgetTroubles(before int64, limit int) error {
	var idle []string
	for _, id := range slices.Sorted(maps.Keys(m.troubles)) {
		if len(m.inTrouble(id)) == 0 && m.troubles[id].Last.Before(protocol.Time(before)) {
			idle = append(idle, id)
		}
	}
	slices.SortStableFunc(idle, func(a, b string) int { return m.troubles[a].Last.Compare(m.troubles[b].Last) })
	m.troubles = maps.Clone(m.troubles)
	for _, id := range idle[:min(limit, len(idle))] {
		delete(m.troubles, id)
	}
	return nil
}

// inTrouble returns the runs of a failure group, or of all groups if group is empty.
func (m *model) inTrouble(group string) (runs []event.RunID) {
	for _, r := range m.sorted() {
		if r.Group == cmp.Or(group, r.Group) && r.Group != "" {
			runs = append(runs, r.Run)
		}
	}
	return runs
}

func (m *model) knownTroubles() (groups map[string]store.TroubleState, troubled []event.RunID) {
	groups = map[string]store.TroubleState{}
	for id, g := range m.troubles {
		runs := m.inTrouble(id)
		g.Open = len(runs)
		groups[id] = store.TroubleState{TroubleGroup: g, Runs: runs}
	}
	return groups, m.inTrouble("")
}

// troubleGroups returns the failure groups in the order of lists.
func (m *model) troubleGroups() (all []store.TroubleGroup) {
	groups, _ := m.knownTroubles()
	for _, g := range groups {
		all = append(all, g.TroubleGroup)
	}
	slices.SortFunc(all, func(a, b store.TroubleGroup) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Group, b.Group))
	})
	return all
}
