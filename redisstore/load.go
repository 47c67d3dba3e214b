package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// readBatch is how many runs are read in one transaction.
	readBatch = 64
	// rereads is how often a run is read again that has moved on, or was purged, while
	// the name of its owner or its tags were asked for.
	rereads = 5
)

// Load reads runs: each as of one moment, pipelined, and the partitions at the
// same time.
func (s *Store) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	members := map[*partition][]int{}
	for i := range runs {
		p := s.partitionOf(runs[i].Run)
		members[p] = append(members[p], i)
	}
	answers := make([]store.Loaded, len(runs))
	err := each(members, func(p *partition, members []int) error {
		for len(members) > 0 {
			n := min(len(members), readBatch)
			if err := s.loadBatch(ctx, p, runs, members[:n], answers); err != nil {
				return err
			}
			members = members[n:]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %d runs: %w", len(runs), err)
	}
	return answers, nil
}

// each calls f for all partitions at the same time.
func each[T any](members map[*partition]T, f func(*partition, T) error) error {
	if len(members) == 1 {
		for p, m := range members {
			return f(p, m)
		}
	}
	var all sync.WaitGroup
	errs := make(chan error, len(members))
	for p, m := range members {
		all.Go(func() { errs <- f(p, m) })
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// reading is a run on its way from the server.
type reading struct {
	meta   *redis.MapStringStringCmd
	frames *redis.XMessageSliceCmd // nil: not asked for
	inbox  *redis.StringSliceCmd   // nil: not asked for
}

func read(ctx context.Context, tx redis.Pipeliner, p *partition, l store.Load) reading {
	run := short(l.Run)
	r := reading{meta: tx.HGetAll(ctx, p.meta(run))}
	from := number(int64(min(l.After, 1<<62)+1)) + "-0"
	switch {
	case l.Limit == 0:
		r.frames = tx.XRange(ctx, p.log(run), from, "+")
	case l.Limit > 0:
		r.frames = tx.XRangeN(ctx, p.log(run), from, "+", int64(l.Limit))
	}
	if l.Inbox {
		r.inbox = tx.LRange(ctx, p.inbox(run), 0, -1)
	}
	return r
}

// loadBatch reads the members of runs that are in one partition.
func (s *Store) loadBatch(ctx context.Context, p *partition, runs []store.Load, members []int, answers []store.Loaded) error {
	for range rereads {
		readings := make([]reading, len(members))
		err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
			for i, m := range members {
				readings[i] = read(ctx, tx, p, runs[m])
			}
		})
		if err != nil {
			return err
		}
		var moved []int
		for i, m := range members {
			loaded, err := s.loaded(ctx, p, runs[m].Run, readings[i])
			if err != nil {
				return err
			}
			if loaded == nil {
				moved = append(moved, m)
				continue
			}
			answers[m] = *loaded
		}
		if members = moved; len(moved) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: the owner of run %s has no session, or its tags are gone", errDamaged, runs[members[0]].Run)
}

// loaded makes an answer of what was read; nil: the run has moved on, read it
// again.
func (s *Store) loaded(ctx context.Context, p *partition, run event.RunID, r reading) (*store.Loaded, error) {
	if len(r.meta.Val()) == 0 {
		return &store.Loaded{Err: store.ErrRunNotFound}, nil
	}
	record, err := s.record(ctx, p, run, r.meta.Val())
	if err != nil || record == nil {
		return nil, err
	}
	answer := &store.Loaded{Record: *record}
	if r.frames != nil {
		answer.Frames = framesOf(r.frames.Val())
	}
	if r.inbox != nil {
		if answer.Inbox, err = itemsOf(r.inbox.Val()); err != nil {
			return nil, fmt.Errorf("read run %s: %w", run, err)
		}
	}
	return answer, nil
}

func framesOf(entries []redis.XMessage) [][]byte {
	if len(entries) == 0 {
		return nil
	}
	frames := make([][]byte, len(entries))
	for i, e := range entries {
		frame, _ := e.Values["f"].(string)
		frames[i] = []byte(frame)
	}
	return frames
}

func itemsOf(packed []string) ([]store.Item, error) {
	var items []store.Item
	for _, one := range packed {
		item, err := unpackItem(one)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// Resolve returns the active run of a workflow id, else the last that ended.
func (s *Store) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p, wid := s.partitionOfName(workflowID), widKey(workflowID)
	var active, latest *redis.StringCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		active, latest = tx.HGet(ctx, p.active(), wid), tx.HGet(ctx, p.latest(), wid)
	})
	if err != nil {
		return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, err)
	}
	switch {
	case active.Val() != "":
		return long(active.Val()), nil
	case latest.Val() != "":
		return long(latest.Val()), nil
	}
	return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, store.ErrRunNotFound)
}
