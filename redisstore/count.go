package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

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
	mu      sync.Mutex // of the counter
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
		return c.size(ctx, p, z)
	})
	if err != nil {
		return err
	}
	c.share(parts)
	return each(parts, func(p *partition, z *sized) error { return c.count(ctx, p, z) })
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

// size asks for the sizes of the sets of a partition.
func (c *counting) size(ctx context.Context, p *partition, z *sized) error {
	sizes := make([]*redis.IntCmd, len(z.sets))
	err := c.s.transaction(ctx, p, func(tx redis.Pipeliner) {
		for i, set := range z.sets {
			sizes[i] = tx.ZCard(ctx, set.key)
		}
	})
	if err != nil {
		return err
	}
	z.sizes = make([]int64, len(z.sets))
	for i := range z.sets {
		z.sizes[i] = sizes[i].Val()
	}
	return nil
}

// count counts the runs of a partition, as of one moment. The server reads the statuses: five thousand of them are five kilobytes.
func (c *counting) count(ctx context.Context, p *partition, z *sized) error {
	if len(z.sets) == 0 {
		return nil
	}
	count := &call{script: scriptCount, p: p}
	for i, set := range z.sets {
		count.keys, count.args = append(count.keys, set.key), append(count.args, z.take[i])
	}
	if err := c.s.do(ctx, count); err != nil {
		return err
	}
	answer := count.answer()
	c.s.findings(p, answer.texts(2*len(z.sets)))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, set := range z.sets {
		c.add(set, int(answer.number(2*i)), answer.text(2*i+1))
	}
	return nil
}

// add counts the runs of a set, with the statuses of those that were looked at.
func (c *counting) add(set runSet, size int, statuses string) {
	counts := &c.counter.Counts
	if set.status != "" {
		counts.Add(set.status, set.route, size)
		return
	}
	for i := range len(statuses) {
		counts.Looked++
		if status := statusOf(statuses[i]); status != "" && c.q.OfStatus(status) {
			counts.Add(status, set.route, 1)
		}
	}
	if left := size - len(statuses); left > 0 {
		counts.Exact = false
		if len(c.q.Statuses) == 0 {
			counts.Add("", set.route, left)
		}
	}
}
