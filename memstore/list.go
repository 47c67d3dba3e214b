package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pageSize is the size of a page that asks for none.
const pageSize = 100

// List returns a page of runs, newest first. The records share memory with the store
// and must not be changed.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	created, last, err := q.After()
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	if q.Limit <= 0 {
		q.Limit = pageSize
	}
	var page store.Page
	for _, p := range s.parts {
		page.Runs = append(page.Runs, p.list(&q, position{millis(created), last})...)
	}
	slices.SortFunc(page.Runs, func(a, b store.Record) int { return store.NewestFirst(&a, &b) })
	if len(page.Runs) > q.Limit {
		page.Runs = slices.Clip(page.Runs[:q.Limit])
		page.Cursor = store.CursorAfter(&page.Runs[q.Limit-1])
	}
	return page, nil
}

// list returns the newest runs before a position, one more than the page holds.
func (p *partition) list(q *store.Query, after position) []store.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []store.Record
	for r := range p.ids.before(after) {
		if len(found) > q.Limit {
			break
		}
		if matches(r, q) {
			found = append(found, r.record())
		}
	}
	return found
}

// Count returns how many runs of each status match.
func (s *Store) Count(ctx context.Context, q store.Query) (map[event.Status]int, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	counts := map[event.Status]int{}
	for _, p := range s.parts {
		p.count(&q, counts)
	}
	return counts, nil
}

func (p *partition) count(q *store.Query, counts map[event.Status]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.ids.before(position{}) {
		if matches(r, q) {
			counts[r.status]++
		}
	}
}

func matches(r *run, q *store.Query) bool {
	if r.hidden || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.status) ||
		q.Workflow != "" && q.Workflow != r.route.Workflow ||
		q.Queue != "" && q.Queue != r.route.Queue ||
		q.Started && event.Internal(r.route.Workflow) ||
		!q.From.IsZero() && timeOf(r.created).Before(q.From) ||
		!q.To.IsZero() && !timeOf(r.created).Before(q.To) {
		return false
	}
	if len(q.Tags) == 0 && q.Parent == "" && q.Root == "" {
		return true
	}
	if q.Root != "" && q.Root != r.root() || (q.Parent != "" || len(q.Tags) > 0) && r.extra == nil {
		return false
	}
	if q.Parent != "" && q.Parent != r.extra.parent {
		return false
	}
	for key, value := range q.Tags {
		if has, ok := r.extra.tags[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// root returns the run at the top of the tree of a run: that itself if it has no parent.
func (r *run) root() event.RunID {
	if r.extra == nil || r.extra.root == "" {
		return r.id
	}
	return r.extra.root
}

// Audit returns the interventions into a run from outside of it, oldest first.
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
