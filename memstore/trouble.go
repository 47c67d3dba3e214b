package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

var _ store.TroubleLister = (*Store)(nil)

// troubles contains the failure groups of a partition and the runs in them.
type troubles struct {
	groups map[string]*troubleGroup
	all    index // the runs of all groups
}

// troubleGroup contains a failure group.
type troubleGroup struct {
	store.Trouble
	first, last int64
	total, open int
	runs        index
}

// EnterTrouble records that a run enters a group.
func (p *partition) EnterTrouble(t store.Trouble, at int64) (fresh bool, err error) {
	g := p.troubles.groups[t.Group]
	if fresh = g == nil; fresh {
		g = &troubleGroup{first: at}
		p.troubles.groups[t.Group] = g
	}
	g.Trouble, g.last, g.total = t, max(g.last, at), g.total+1
	return fresh, nil
}

// ForgetTroubles removes groups that are not needed any more. It visits all groups, because new
// ones are rare.
func (p *partition) ForgetTroubles(before int64, limit int) error {
	var idle []*troubleGroup
	for _, g := range p.troubles.groups {
		if g.open == 0 && g.last < before {
			idle = append(idle, g)
		}
	}
	slices.SortFunc(idle, func(a, b *troubleGroup) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.Group, b.Group))
	})
	for _, g := range idle[:min(limit, len(idle))] {
		delete(p.troubles.groups, g.Group)
	}
	return nil
}

// group returns the failure group of a run; empty if there is none.
func (r *run) group() string {
	if r.extra == nil {
		return ""
	}
	return r.extra.group
}

// regroup moves a run from its current failure group into another one.
func (p *partition) regroup(r *run, group string) {
	before := r.group()
	if before == group {
		return
	}
	if before != "" {
		p.leaveGroup(r)
	}
	r.rare().group = group
	if group != "" {
		g := p.troubles.groups[group]
		g.runs.add(r)
		g.open++
		p.troubles.all.add(r)
	}
}

func (p *partition) leaveGroup(r *run) {
	g := p.troubles.groups[r.extra.group]
	g.runs.remove(r)
	g.open--
	p.troubles.all.remove(r)
}

// inOrder returns the index with the runs that may match a query, or nil if there are none.
func (p *partition) inOrder(q *store.Query) *index {
	switch {
	case q.Group != "":
		if g := p.troubles.groups[q.Group]; g != nil {
			return &g.runs
		}
		return nil
	case q.Troubled:
		return &p.troubles.all
	}
	return &p.ids
}

// Troubles returns a page of the failure groups.
func (s *Store) Troubles(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	if err := s.enter(ctx); err != nil {
		return store.TroublePage{}, err
	}
	var found []store.TroubleGroup
	cut, share := false, paging.TroubleShare(&q, len(s.parts))
	for _, p := range s.parts {
		some := p.listTroubles()
		slices.SortFunc(some, func(a, b store.TroubleGroup) int { return b.Last.Compare(a.Last) })
		if len(some) > share {
			some, cut = some[:share], true
		}
		found = append(found, some...)
	}
	page, err := paging.Troubles(&q, found, cut)
	if err != nil {
		return store.TroublePage{}, fmt.Errorf("list troubles: %w", err)
	}
	return page, nil
}

func (p *partition) listTroubles() []store.TroubleGroup {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]store.TroubleGroup, 0, len(p.troubles.groups))
	for _, g := range p.troubles.groups {
		all = append(all, g.state())
	}
	return all
}

func (g *troubleGroup) state() store.TroubleGroup {
	return store.TroubleGroup{Trouble: g.Trouble, First: timeOf(g.first), Last: timeOf(g.last), Total: g.total, Open: g.open}
}

func (p *partition) inspectTroubles(snap *store.Snapshot) {
	for _, g := range p.troubles.groups {
		snap.AddTrouble(g.state(), g.runs.ids())
	}
	snap.AddTroubled(p.troubles.all.ids())
}

func (x *index) ids() (ids []event.RunID) {
	for r := range x.after(position{}) {
		ids = append(ids, r.id)
	}
	return ids
}
