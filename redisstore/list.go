package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// pageSize is the size of a page that asks for none.
	pageSize = 100
	// lateness is how much later than its id says a run may have been created:
	// ids are made by clients, whose requests may be late and whose clocks differ.
	lateness = 24 * time.Hour
)

// List returns a page of runs by falling id, which is newest first. It reads the
// runs behind the cursor until the page is full: filters that few runs match cost
// reading many.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	if q.Cursor != "" {
		if _, err := event.ParseRunID(q.Cursor); err != nil {
			return store.Page{}, fmt.Errorf("list runs: read cursor: %w", err)
		}
	}
	if q.Limit <= 0 {
		q.Limit = pageSize
	}
	var page store.Page
	var mu sync.Mutex
	err := each(s.all(), func(p *partition, _ struct{}) error {
		var found []store.Record
		err := s.scan(ctx, p, &q, q.Limit+1, func(r *store.Record) bool {
			found = append(found, *r)
			return len(found) <= q.Limit
		})
		mu.Lock()
		defer mu.Unlock()
		page.Runs = append(page.Runs, found...)
		return err
	})
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	slices.SortFunc(page.Runs, func(a, b store.Record) int { return cmp.Compare(b.Run, a.Run) })
	if len(page.Runs) > q.Limit {
		page.Runs = slices.Clip(page.Runs[:q.Limit])
		page.Cursor = string(page.Runs[q.Limit-1].Run)
	}
	return page, nil
}

// Count returns how many runs of each status match. It reads them all.
func (s *Store) Count(ctx context.Context, q store.Query) (map[event.Status]int, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	q.Cursor = ""
	counts := map[event.Status]int{}
	var mu sync.Mutex
	err := each(s.all(), func(p *partition, _ struct{}) error {
		return s.scan(ctx, p, &q, 500, func(r *store.Record) bool {
			mu.Lock()
			defer mu.Unlock()
			counts[r.Status]++
			return true
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	return counts, nil
}

// all is every partition.
func (s *Store) all() map[*partition]struct{} {
	all := map[*partition]struct{}{}
	for _, p := range s.parts {
		all[p] = struct{}{}
	}
	return all
}

// scan calls found for the runs of a partition that match, newest first, until it
// has had enough.
func (s *Store) scan(ctx context.Context, p *partition, q *store.Query, chunk int, found func(*store.Record) bool) error {
	chunk = min(max(chunk, 50), 500)
	before := "+"
	if q.Cursor != "" {
		before = "(" + short(event.RunID(q.Cursor))
	}
	for {
		runs, err := s.before(ctx, p, q, before, chunk)
		if err != nil || len(runs) == 0 {
			return err
		}
		loads, members := make([]store.Load, len(runs)), make([]int, len(runs))
		for i, run := range runs {
			loads[i], members[i] = store.Load{Run: long(run), Limit: -1}, i
		}
		answers := make([]store.Loaded, len(runs))
		s.loadBatch(ctx, p, loads, members, answers)
		for i := range answers {
			if err := answers[i].Err; err != nil && !errors.Is(err, store.ErrRunNotFound) {
				return err
			}
			if a := &answers[i]; a.Err == nil && matches(&a.Record, q) && !found(&a.Record) {
				return nil
			}
		}
		last := runs[len(runs)-1]
		if len(runs) < chunk || !q.From.IsZero() && long(last).Time().Before(q.From.Add(-lateness)) {
			return nil
		}
		before = "(" + last
	}
}

// before returns the short ids of the newest runs before one, newest first.
func (s *Store) before(ctx context.Context, p *partition, q *store.Query, before string, limit int) ([]string, error) {
	by := &redis.ZRangeBy{Min: "-", Max: before, Count: int64(limit)}
	open, done := wants(q.Statuses)
	var lists []*redis.StringSliceCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		if open {
			lists = append(lists, tx.ZRevRangeByLex(ctx, p.open(), by))
		}
		if done {
			lists = append(lists, tx.ZRevRangeByLex(ctx, p.done(), by))
		}
	})
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, l := range lists {
		runs = append(runs, l.Val()...)
	}
	slices.SortFunc(runs, func(a, b string) int { return cmp.Compare(b, a) })
	return runs[:min(len(runs), limit)], nil
}

// wants reports whether runs that have not ended, and those that have, can have
// one of the statuses.
func wants(statuses []event.Status) (open, done bool) {
	for _, s := range statuses {
		if s.Terminal() {
			done = true
		}
		open = true // a run may be called so before it has ended
	}
	return open || len(statuses) == 0, done || len(statuses) == 0
}

func matches(r *store.Record, q *store.Query) bool {
	if len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.Status) ||
		q.Workflow != "" && q.Workflow != r.Class.Workflow ||
		q.Queue != "" && q.Queue != r.Class.Queue ||
		q.Parent != "" && q.Parent != r.Parent ||
		q.Root != "" && q.Root != cmp.Or(r.Root, r.Run) ||
		!q.From.IsZero() && r.CreatedAt.Before(q.From) ||
		!q.To.IsZero() && !r.CreatedAt.Before(q.To) {
		return false
	}
	for key, value := range q.Tags {
		if has, ok := r.Tags[key]; !ok || has != value {
			return false
		}
	}
	return true
}
