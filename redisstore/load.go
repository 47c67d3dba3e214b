package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	_ = each(members, func(p *partition, members []int) error {
		for len(members) > 0 {
			n := s.readable(runs, members)
			s.loadBatch(ctx, p, runs, members[:n], answers)
			members = members[n:]
		}
		return nil
	})
	if err := unanswered(len(answers), func(i int) error { return answers[i].Err }); err != nil {
		return nil, fmt.Errorf("read %d runs: %w", len(runs), err)
	}
	return answers, nil
}

// all is every partition.
func (s *Store) all() map[*partition]struct{} {
	all := map[*partition]struct{}{}
	for _, p := range s.parts {
		all[p] = struct{}{}
	}
	return all
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

// err returns the error of a command that the server refused by itself.
func (r *reading) err() error {
	err := r.meta.Err()
	if err == nil && r.frames != nil {
		err = r.frames.Err()
	}
	if err == nil && r.inbox != nil {
		err = r.inbox.Err()
	}
	return err
}

func read(ctx context.Context, tx redis.Pipeliner, p *partition, l store.Load) reading {
	run := short(l.Run)
	r := reading{meta: tx.HGetAll(ctx, p.meta(run))}
	from := streamID(l.After + 1)
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

// readable returns how many of the runs are read in one transaction: so many that the
// answer is not large, as far as it is known how long their logs are.
func (s *Store) readable(runs []store.Load, members []int) int {
	bytes := 0
	for i, m := range members[:min(len(members), readBatch)] {
		if bytes += runs[m].Bytes; i > 0 && bytes > large {
			return i
		}
	}
	return min(len(members), readBatch)
}

// loadBatch reads the members of runs that are in one partition.
func (s *Store) loadBatch(ctx context.Context, p *partition, runs []store.Load, members []int, answers []store.Loaded) {
	for range rereads {
		readings := make([]reading, len(members))
		err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) {
			for i, m := range members {
				readings[i] = read(ctx, tx, p, runs[m])
			}
		})
		if timedOut(err) && len(members) == 1 && ctx.Err() == nil {
			readings[0], err = s.readSlowly(ctx, p, runs[members[0]])
		}
		var moved []int
		for i, m := range members {
			if err != nil {
				answers[m] = store.Loaded{Err: fmt.Errorf("run %s: %w", runs[m].Run, err)}
				continue
			}
			loaded, err := s.loaded(ctx, p, runs[m].Run, readings[i])
			switch {
			case err != nil:
				answers[m] = store.Loaded{Err: aboutRun(runs[m].Run, 0, err)}
			case loaded == nil:
				moved = append(moved, m)
			default:
				answers[m] = *loaded
			}
		}
		if members = moved; len(moved) == 0 {
			return
		}
	}
	for _, m := range members {
		answers[m] = store.Loaded{Err: aboutRun(runs[m].Run, 0, fmt.Errorf("%w: the owner of run %s has no session, or its tags are gone", errDamaged, runs[m].Run))}
	}
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// readSlowly reads a run whose answer did not come in time: page by page, each with more
// time. What is appended meanwhile is not read; if the run is purged meanwhile it looks
// damaged, and is read as one that does not exist by whoever looks again.
func (s *Store) readSlowly(ctx context.Context, p *partition, l store.Load) (reading, error) {
	var r reading
	brief := l
	brief.Limit = -1
	err := s.transactionOf(ctx, p, func(tx redis.Pipeliner) { r = read(ctx, tx, p, brief) })
	if err != nil {
		return r, err
	}
	h := unpackHeader(r.meta.Val()["H"])
	if l.Limit < 0 || h.frames <= l.After {
		return r, nil
	}
	node, err := s.master(ctx, p)
	if err != nil {
		return r, s.explain(ctx, err)
	}
	upTo := h.frames
	if l.Limit > 0 {
		upTo = min(upTo, l.After+uint64(l.Limit))
	}
	page := max(1, large*h.frames/uint64(max(h.bytes, 1)))
	var frames []redis.XMessage
	for next := l.After + 1; next <= upTo; next += page {
		got, err := allow(node, h.bytes).XRange(ctx, p.log(short(l.Run)), streamID(next), streamID(min(next+page-1, upTo))).Result()
		if err != nil {
			return r, s.explain(ctx, err)
		}
		frames = append(frames, got...)
	}
	r.frames = redis.NewXMessageSliceCmd(ctx)
	r.frames.SetVal(frames)
	return r, nil
}

func streamID(n uint64) string { return number(int64(min(n, 1<<62))) + "-0" }

// loaded makes an answer of what was read; nil: the run has moved on, read it
// again.
func (s *Store) loaded(ctx context.Context, p *partition, run event.RunID, r reading) (*store.Loaded, error) {
	if err := r.err(); err != nil {
		return nil, s.explain(ctx, s.damageOf(ctx, &call{p: p, keys: []string{p.meta(short(run))}}, err))
	}
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
