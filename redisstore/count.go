package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

// Count returns how many runs match. Where the query asks for nothing but routes, statuses and roots, those
// that have ended are not looked at: the server knows how many there are in each set. A run that a list leaves out, because its
// tags are damaged, is counted.
func (s *Store) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	if err := s.enter(ctx); err != nil {
		return store.Counts{}, err
	}
	q.Cursor = ""
	c := &counting{s: s, q: &q, counter: paging.Count(&q)}
	var err error
	if len(q.Tags) > 0 || q.Group != "" || q.Troubled || q.Parent != "" || q.Root != "" || q.WorkflowID != "" || !q.From.IsZero() || !q.To.IsZero() {
		err = c.look(ctx)
	} else {
		err = c.bySets(ctx)
	}
	if err != nil {
		return store.Counts{}, fmt.Errorf("count runs: %w", err)
	}
	return c.counter.Counts, nil
}

// counting is one call of Count.
type counting struct {
	s       *Store
	q       *store.Query
	counter *paging.Counter
}

// look looks at all that may match, one after the other.
func (c *counting) look(ctx context.Context) error {
	page, err := paging.New(c.q)
	if err != nil {
		return err
	}
	_, err = c.s.look(ctx, c.q, page, lookup{
		more: c.counter.More, wanted: func() int { return mostRead },
		add: func(_ paging.Position, r *store.Record) {
			if r == nil {
				r = &store.Record{}
			}
			c.counter.Add(r.Run != "", r.Status, r.Route)
		},
	})
	return err
}

// sized is the sets of a partition and how large they were.
type sized struct {
	sets  []runSet
	sizes []int64
	take  []int64 // how many runs of a set are looked at
}

// bySets asks for the sizes of all sets, shares the budget among those of which the runs must be looked at, and
// asks once more, with their runs, as of one moment in each partition.
func (c *counting) bySets(ctx context.Context) error {
	parts := map[*partition]*sized{}
	for _, p := range c.s.parts {
		parts[p] = &sized{}
	}
	err := each(parts, func(p *partition, z *sized) (err error) {
		if z.sets, err = c.s.sets(ctx, p, c.q); err != nil {
			return err
		}
		_, err = c.read(ctx, p, z)
		return err
	})
	if err != nil {
		return err
	}
	c.share(parts)
	var mu sync.Mutex
	return each(parts, func(p *partition, z *sized) error {
		runs, err := c.read(ctx, p, z)
		if err != nil {
			return err
		}
		statuses := make([][]event.Status, len(runs))
		for i := range runs {
			if statuses[i], err = c.statuses(ctx, p, runs[i]); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		c.add(z, statuses)
		return nil
	})
}

// share decides how many runs of each set are looked at: all of them, if the budget lasts, and else a part. What
// comes until they are read is looked at, too, as far as it is few.
func (c *counting) share(parts map[*partition]*sized) {
	total := int64(0)
	for _, z := range parts {
		for i, set := range z.sets {
			if set.status == "" {
				total += z.sizes[i]
			}
		}
	}
	budget := int64(c.q.Work())
	for _, z := range parts {
		z.take = make([]int64, len(z.sets))
		for i, set := range z.sets {
			switch {
			case set.status != "":
			case total <= budget:
				z.take[i] = z.sizes[i] + 64
			default:
				z.take[i] = z.sizes[i] * budget / total
			}
		}
	}
}

// read reads the sizes of the sets of a partition, and runs of those that must be looked at.
func (c *counting) read(ctx context.Context, p *partition, z *sized) ([][]string, error) {
	sizes, members := make([]*redis.IntCmd, len(z.sets)), make([]*redis.StringSliceCmd, len(z.sets))
	err := c.s.transaction(ctx, p, func(tx redis.Pipeliner) {
		for i, set := range z.sets {
			sizes[i] = tx.ZCard(ctx, set.key)
			if z.take != nil && z.take[i] > 0 {
				members[i] = tx.ZRange(ctx, set.key, 0, z.take[i]-1)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	z.sizes = make([]int64, len(z.sets))
	runs := make([][]string, len(z.sets))
	for i := range z.sets {
		z.sizes[i] = sizes[i].Val()
		if members[i] != nil {
			runs[i] = members[i].Val()
		}
	}
	return runs, nil
}

// statuses returns those of runs; of one that is gone it is empty.
func (c *counting) statuses(ctx context.Context, p *partition, runs []string) ([]event.Status, error) {
	var all []event.Status
	for len(runs) > 0 {
		n := min(len(runs), mostRead)
		headers := make([]*redis.StringCmd, n)
		err := c.s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
			for i, run := range runs[:n] {
				headers[i] = tx.HGet(ctx, p.meta(run), "H")
			}
		})
		if err != nil {
			return nil, err
		}
		for _, h := range headers {
			all = append(all, unpackHeader(h.Val()).status)
		}
		runs = runs[n:]
	}
	return all, nil
}

// add counts the runs of a partition.
func (c *counting) add(z *sized, statuses [][]event.Status) {
	counts := &c.counter.Counts
	for i, set := range z.sets {
		if set.status != "" {
			counts.Add(set.status, set.route, int(z.sizes[i]))
			continue
		}
		for _, status := range statuses[i] {
			counts.Looked++
			if status != "" && c.q.OfStatus(status) {
				counts.Add(status, set.route, 1)
			}
		}
		if left := int(z.sizes[i]) - len(statuses[i]); left > 0 {
			counts.Exact = false
			if len(c.q.Statuses) == 0 {
				counts.Add("", set.route, left)
			}
		}
	}
}
