package redisstore

import (
	"context"
	"fmt"

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

// sized is the sets of a partition, and what was found in each of them.
type sized struct {
	sets  []runSet
	take  []int64 // how many runs of a set it looks at
	found []found
}

// found has the runs of a set at one moment, as numbers.
type found struct {
	size, looked int64
	statuses     map[event.Status]int // how many of those that were looked at have each; empty: it cannot be read
}

// bySets asks for the sizes of all sets, shares the budget among those of which the runs must be looked at, and
// asks once more, for their statuses, as of one moment in each partition.
func (c *counting) bySets(ctx context.Context) error {
	parts := map[*partition]*sized{}
	for _, p := range c.s.parts {
		parts[p] = &sized{}
	}
	err := each(parts, func(p *partition, z *sized) (err error) {
		if z.sets, err = c.s.sets(ctx, p, c.q); err != nil {
			return err
		}
		z.take = make([]int64, len(z.sets))
		return c.read(ctx, p, z)
	})
	if err != nil {
		return err
	}
	c.share(parts)
	err = each(parts, func(p *partition, z *sized) error { return c.read(ctx, p, z) })
	if err != nil {
		return err
	}
	for _, z := range parts {
		c.add(z)
	}
	return nil
}

// share decides how many runs of each set are looked at: all of them, if the budget lasts, and else a part. What
// comes until they are read is looked at, too, as far as it is few.
func (c *counting) share(parts map[*partition]*sized) {
	total := int64(0)
	for _, z := range parts {
		for i, set := range z.sets {
			if set.status == "" {
				total += z.found[i].size
			}
		}
	}
	budget := int64(c.q.Work())
	for _, z := range parts {
		for i, set := range z.sets {
			switch {
			case set.status != "":
			case total <= budget:
				z.take[i] = z.found[i].size + 64
			default:
				z.take[i] = z.found[i].size * budget / total
			}
		}
	}
}

// read asks for the sizes of the sets of a partition, and for the statuses of as many runs of each as take says.
func (c *counting) read(ctx context.Context, p *partition, z *sized) error {
	z.found = make([]found, len(z.sets))
	if len(z.sets) == 0 {
		return nil
	}
	ask := &call{script: scriptCount, p: p}
	for i, set := range z.sets {
		ask.keys, ask.args = append(ask.keys, set.key), append(ask.args, z.take[i])
	}
	if err := c.s.do(ctx, ask); err != nil {
		return err
	}
	for i, one := range ask.answer() {
		values, _ := one.([]any)
		a := answer(values)
		f := found{size: a.number(0), statuses: map[event.Status]int{}}
		for j := 1; j < len(a); j += 2 {
			n := a.number(j + 1)
			f.statuses[statusOf(byte(a.number(j)))] += int(n)
			f.looked += n
		}
		z.found[i] = f
	}
	return nil
}

// add counts the runs of a partition.
func (c *counting) add(z *sized) {
	counts := &c.counter.Counts
	for i, set := range z.sets {
		f := z.found[i]
		if set.status != "" {
			counts.Add(set.status, set.route, int(f.size))
			continue
		}
		counts.Looked += int(f.looked)
		for status, n := range f.statuses {
			if status != "" && c.q.OfStatus(status) {
				counts.Add(status, set.route, n)
			}
		}
		if left := int(f.size - f.looked); left > 0 {
			counts.Exact = false
			if len(c.q.Statuses) == 0 {
				counts.Add("", set.route, left)
			}
		}
	}
}
