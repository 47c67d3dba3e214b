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

var _ store.FailureGroupLister = (*Store)(nil)

// failureGroups contains the failure groups of a partition and their runs.
type failureGroups struct {
	groups map[string]*failureGroup
	all    index // runs of all groups
}

// failureGroup is a failure group with its runs.
type failureGroup struct {
	store.FailureGroup
	first, last int64
	total, open int
	runs        index
}

// EnterFailureGroup records that a run enters a group.
func (p *partition) EnterFailureGroup(t store.FailureGroup, at int64) (fresh bool, err error) {
	g := p.failureGroups.groups[t.Group]
	if fresh = g == nil; fresh {
		g = &failureGroup{first: at}
		p.failureGroups.groups[t.Group] = g
	}
	g.FailureGroup, g.last, g.total = t, max(g.last, at), g.total+1
	return fresh, nil
}

// ForgetFailureGroups removes up to limit groups without runs that no run has entered since before.
// It visits all groups, which is acceptable because new groups are rare.
func (p *partition) ForgetFailureGroups(before int64, limit int) error {
	var idle []*failureGroup
	for _, g := range p.failureGroups.groups {
		if g.open == 0 && g.last < before {
			idle = append(idle, g)
		}
	}
	slices.SortFunc(idle, func(a, b *failureGroup) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.Group, b.Group))
	})
	for _, g := range idle[:min(limit, len(idle))] {
		delete(p.failureGroups.groups, g.Group)
	}
	return nil
}

// group returns the failure group of a run; empty if it is in none.
func (r *run) group() string {
	if r.extra == nil {
		return ""
	}
	return r.extra.group
}

// regroup moves a run from its present failure group into another one.
func (p *partition) regroup(r *run, group string) {
	if r.group() != "" {
		p.leaveGroup(r)
	}
	r.rare().group = group
	if group != "" {
		g := p.failureGroups.groups[group]
		g.runs.add(r)
		g.open++
		p.failureGroups.all.add(r)
	}
}

func (p *partition) leaveGroup(r *run) {
	g := p.failureGroups.groups[r.extra.group]
	g.runs.remove(r)
	g.open--
	p.failureGroups.all.remove(r)
}

// inOrder returns the index with the runs that may match a query, or nil if no run can match.
func (p *partition) inOrder(q *store.Query) *index {
	switch {
	case q.Group != "":
		if g := p.failureGroups.groups[q.Group]; g != nil {
			return &g.runs
		}
		return nil
	case q.Failing:
		return &p.failureGroups.all
	}
	return &p.ids
}

// FailureGroups returns a page of the failure groups.
func (s *Store) FailureGroups(ctx context.Context, q store.FailureGroupQuery) (store.FailureGroupPage, error) {
	if err := s.enter(ctx); err != nil {
		return store.FailureGroupPage{}, err
	}
	var found []store.FailureGroupInfo
	cut, share := false, paging.FailureGroupShare(&q, len(s.parts))
	for _, p := range s.parts {
		some := p.listFailureGroups()
		slices.SortFunc(some, func(a, b store.FailureGroupInfo) int { return b.Last.Compare(a.Last) })
		if len(some) > share {
			some, cut = some[:share], true
		}
		found = append(found, some...)
	}
	page, err := paging.FailureGroups(&q, found, cut)
	if err != nil {
		return store.FailureGroupPage{}, fmt.Errorf("list failure groups: %w", err)
	}
	return page, nil
}

func (p *partition) listFailureGroups() []store.FailureGroupInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]store.FailureGroupInfo, 0, len(p.failureGroups.groups))
	for _, g := range p.failureGroups.groups {
		all = append(all, g.state())
	}
	return all
}

func (g *failureGroup) state() store.FailureGroupInfo {
	return store.FailureGroupInfo{FailureGroup: g.FailureGroup, First: timeOf(g.first), Last: timeOf(g.last), Total: g.total, Open: g.open}
}

func (p *partition) inspectFailureGroups(snap *store.Snapshot) {
	for _, g := range p.failureGroups.groups {
		snap.AddFailureGroup(g.state(), g.runs.ids())
	}
	snap.AddFailing(p.failureGroups.all.ids())
}

func (x *index) ids() (ids []event.RunID) {
	for r := range x.after(position{}) {
		ids = append(ids, r.id)
	}
	return ids
}
