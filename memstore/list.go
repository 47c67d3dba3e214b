package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

// List returns a page of runs. The records share memory with the store and must not be changed.
// There are only two indexes by creation: one of all runs, and one of the runs in failure groups.
// List examines their runs one by one.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	page, err := paging.New(&q)
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	sources := make([]paging.Source[*store.Record], len(s.parts))
	for i, p := range s.parts {
		sources[i] = func(after paging.Position, n int) ([]paging.Entry[*store.Record], bool, error) {
			runs, more := p.list(&q, position{after.Created, after.Run}, n)
			return runs, more, nil
		}
	}
	merge := paging.NewMerge(page, false, sources)
	for page.More() {
		next, found, err := merge.Next()
		if err != nil {
			return store.Page{}, fmt.Errorf("list runs: %w", err)
		}
		if !found {
			page.End()
			break
		}
		page.Add(next.At, next.Value)
	}
	return page.Done(), nil
}

// list returns up to n runs after a position. Runs that do not match the query have no record.
func (p *partition) list(q *store.Query, at position, n int) (runs []paging.Entry[*store.Record], more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.inOrder(q)
	if x == nil {
		return nil, false
	}
	order := x.before
	if q.Oldest {
		order = x.after
	}
	for r := range order(at) {
		if r.hidden {
			continue
		}
		if len(runs) == n {
			return runs, true
		}
		next := paging.Entry[*store.Record]{At: paging.Position{Created: r.created, Run: r.id}}
		if rec := r.record(); q.Matches(&rec) {
			next.Value = &rec
		}
		runs = append(runs, next)
	}
	return runs, false
}

// Count returns the number of matching runs. The partitions share the budget of the query, in
// order.
func (s *Store) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	if err := s.enter(ctx); err != nil {
		return store.Counts{}, err
	}
	counter := paging.Count(&q)
	for _, p := range s.parts {
		p.count(&q, counter)
	}
	return counter.Counts, nil
}

func (p *partition) count(q *store.Query, counter *paging.Counter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.inOrder(q)
	if x == nil {
		return
	}
	for r := range x.before(position{}) {
		if r.hidden {
			continue
		}
		if !counter.More() {
			return
		}
		rec := r.record()
		counter.Add(q.Matches(&rec), r.status, r.route.Route)
	}
}

// Audit returns the interventions in a run by the store and by operators, the oldest first.
func (s *Store) Audit(ctx context.Context, run event.RunID) ([]store.AuditEntry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.find(run); r != nil && r.extra != nil {
		return slices.Clone(r.extra.audit), nil
	}
	return nil, nil
}
