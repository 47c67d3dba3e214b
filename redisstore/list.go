package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pageSize is the size of a page that asks for none.
const pageSize = 100

// List returns a page of runs, newest first. It reads the runs after the cursor until
// the page is full: filters that few runs match cost reading many.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	after, err := indexedAfter(&q)
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	if q.Limit <= 0 {
		q.Limit = pageSize
	}
	var page store.Page
	var mu sync.Mutex
	err = each(s.all(), func(p *partition, _ struct{}) error {
		var found []store.Record
		err := s.scan(ctx, p, &q, after, q.Limit+1, func(r *store.Record) bool {
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
	slices.SortFunc(page.Runs, func(a, b store.Record) int { return store.NewestFirst(&a, &b) })
	if len(page.Runs) > q.Limit {
		page.Runs = slices.Clip(page.Runs[:q.Limit])
		page.Cursor = store.CursorAfter(&page.Runs[q.Limit-1])
	}
	return page, nil
}

// Count returns how many runs of each status match. It reads them all.
func (s *Store) Count(ctx context.Context, q store.Query) (map[event.Status]int, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	counts := map[event.Status]int{}
	var mu sync.Mutex
	err := each(s.all(), func(p *partition, _ struct{}) error {
		return s.scan(ctx, p, &q, indexed{}, 500, func(r *store.Record) bool {
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

// scan calls found for the runs of a partition that match and come after a position,
// newest first, until it has had enough.
func (s *Store) scan(ctx context.Context, p *partition, q *store.Query, after indexed, chunk int, found func(*store.Record) bool) error {
	chunk = min(max(chunk, 50), 500)
	for {
		all, more, err := s.after(ctx, p, q, after, chunk)
		if err != nil {
			return err
		}
		for runs := range slices.Chunk(all, chunk) {
			loads, members := make([]store.Load, len(runs)), make([]int, len(runs))
			for i, r := range runs {
				loads[i], members[i] = store.Load{Run: long(r.run), Limit: -1}, i
			}
			answers := make([]store.Loaded, len(runs))
			s.loadBatch(ctx, p, loads, members, answers)
			for i := range answers {
				if err := answers[i].Err; err != nil && !errors.Is(err, store.ErrRunNotFound) && !s.leftOut(err) {
					return err
				}
				if a := &answers[i]; a.Err == nil && matches(&a.Record, q) && !found(&a.Record) {
					return nil
				}
			}
		}
		if !more {
			return nil
		}
		after = all[len(all)-1]
	}
}

// leftOut reports whether a run could not be read for damage to that run alone, and notes
// that it is left out.
func (s *Store) leftOut(err error) bool {
	damage, ok := errors.AsType[*store.DamagedError](err)
	if !ok || damage.Run == "" || errors.Is(err, errNameless) {
		return false
	}
	text := string(damage.Run)
	if o, ok := errors.AsType[*overwrittenError](err); ok {
		text = o.key + " " + o.is // as scripts name it
	}
	s.damages.Note(text, damage)
	return true
}

// indexed is where a run stands in the indexes of open and of done runs: those are sorted
// by the creation, and what was created in the same millisecond by the id. A run has the
// same place in both.
type indexed struct {
	created int64
	run     string // empty: before the newest
}

func indexedAfter(q *store.Query) (indexed, error) {
	created, run, err := q.After()
	return indexed{millis(created), short(run)}, err
}

func (a indexed) newestFirst(b indexed) int {
	return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(b.run, a.run))
}

// after returns the runs that come after one, newest first: at least as many as the
// limit, if there are more. Sets cannot be asked for what follows a member that may be
// gone. So all that was created in the same millisecond is asked for with what is older:
// a server creates some dozens in one.
func (s *Store) after(ctx context.Context, p *partition, q *store.Query, last indexed, limit int) (runs []indexed, more bool, err error) {
	older := redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(limit)}
	if !q.From.IsZero() {
		older.Min = number(millis(q.From))
	}
	if !q.To.IsZero() {
		older.Max = "(" + number(millis(q.To))
	}
	if last.run != "" && (q.To.IsZero() || last.created < millis(q.To)) {
		older.Max = "(" + number(last.created)
	}
	same := redis.ZRangeBy{Min: number(last.created), Max: number(last.created)}
	var sames, olders []*redis.ZSliceCmd
	err = s.transaction(ctx, p, func(tx redis.Pipeliner) {
		for _, key := range p.indexes(q.Statuses) {
			if last.run != "" {
				sames = append(sames, tx.ZRevRangeByScoreWithScores(ctx, key, &same))
			}
			olders = append(olders, tx.ZRevRangeByScoreWithScores(ctx, key, &older))
		}
	})
	if err != nil {
		return nil, false, err
	}
	runs = slices.DeleteFunc(indexedIn(sames), func(r indexed) bool { return r.newestFirst(last) <= 0 })
	rest := indexedIn(olders)
	more = len(rest) >= limit
	return append(runs, rest[:min(len(rest), limit)]...), more, nil
}

// indexedIn returns what stands in parts of indexes, newest first.
func indexedIn(parts []*redis.ZSliceCmd) []indexed {
	var all []indexed
	for _, part := range parts {
		for _, z := range part.Val() {
			run, _ := z.Member.(string)
			all = append(all, indexed{int64(z.Score), run})
		}
	}
	slices.SortFunc(all, indexed.newestFirst)
	return all
}

// indexes returns the keys of the indexes that hold runs of one of the statuses.
func (p *partition) indexes(statuses []event.Status) []string {
	if len(statuses) == 0 || slices.ContainsFunc(statuses, event.Status.Terminal) {
		return []string{p.open(), p.done()} // a run may be called so before it has ended
	}
	return []string{p.open()}
}

func matches(r *store.Record, q *store.Query) bool {
	if len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.Status) ||
		q.Workflow != "" && q.Workflow != r.Route.Workflow ||
		q.Queue != "" && q.Queue != r.Route.Queue ||
		q.Started && event.Internal(r.Route.Workflow) ||
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
