package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// toLabelled brings format 3 to format 4: it puts all runs into the sets of their labels. Stores of this release work
// with both and do so with each run that they create; so they go on meanwhile, and there is no mark for that.
func (s *Store) toLabelled(ctx context.Context, mark string, atOnce int) error {
	if err := s.eachNode(ctx, func(ctx context.Context, node redis.Cmdable) error { return s.dropLabels(ctx, node, atOnce) }); err != nil {
		return err
	}
	for _, p := range s.parts {
		if err := s.labelRuns(ctx, p, atOnce); err != nil {
			return err
		}
	}
	if err := s.confirmAll(ctx); err != nil {
		return err
	}
	return s.stamp(ctx, mark, s.mark())
}

// labelRuns puts the runs of a partition into the sets of their labels. Runs leave the sets of open runs for those of done
// ones, and never come back: none that was there before is missed.
func (s *Store) labelRuns(ctx context.Context, p *partition, atOnce int) error {
	codes, err := s.client.HKeys(ctx, p.routes()).Result()
	if err != nil {
		return fmt.Errorf("read the routes of partition %d: %w", p.number, err)
	}
	var open, done []string
	for _, code := range codes {
		o, d := p.openAndDone(code)
		open, done = append(open, o...), append(done, d...)
	}
	for _, sets := range [][]string{open, done} {
		if err := s.walkSets(ctx, p, sets, atOnce); err != nil {
			return err
		}
	}
	return nil
}

// dropLabels takes runs that are gone out of the sets of labels that a server has: a process of the older release has
// deleted or purged them, and knew of no labels.
func (s *Store) dropLabels(ctx context.Context, node redis.Cmdable, atOnce int) error {
	found := map[*partition][]string{}
	scan := node.Scan(ctx, 0, escaped("{"+s.cfg.Prefix+":")+"*"+s.parts[0].labelled("*")[len(s.parts[0].hash):], 1000).Iterator()
	for scan.Next(ctx) {
		key := scan.Val()
		i := slices.IndexFunc(s.parts, func(p *partition) bool { return strings.HasPrefix(key, p.labelled("")) })
		if i < 0 {
			continue
		}
		p := s.parts[i]
		if found[p] = append(found[p], key); len(found[p]) == atOnce {
			if err := s.walkSets(ctx, p, found[p], atOnce); err != nil {
				return err
			}
			found[p] = nil
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("find keys: %w", err)
	}
	for p, keys := range found {
		if err := s.walkSets(ctx, p, keys, atOnce); err != nil {
			return err
		}
	}
	return nil
}

// walkSets goes through sets by the script that labels, about so many runs at once.
func (s *Store) walkSets(ctx context.Context, p *partition, keys []string, atOnce int) error {
	sizes := make([]*redis.IntCmd, len(keys))
	if _, err := s.client.Pipelined(ctx, func(tx redis.Pipeliner) error {
		for i, key := range keys {
			sizes[i] = tx.ZCard(ctx, key)
		}
		return nil
	}); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("read the sizes of sets: %w", err)
	}
	var some []string
	n := int64(0)
	for i, key := range keys {
		size := sizes[i].Val()
		if size == 0 {
			continue
		}
		if n+size > int64(atOnce) {
			if err := s.walkTogether(ctx, p, some, atOnce); err != nil {
				return err
			}
			some, n = nil, 0
		}
		some, n = append(some, key), n+size
	}
	return s.walkTogether(ctx, p, some, atOnce)
}

// walkTogether goes through sets at the same time.
func (s *Store) walkTogether(ctx context.Context, p *partition, keys []string, atOnce int) error {
	at := map[string]string{}
	for len(keys) > 0 {
		calls := make([]*call, len(keys))
		for i, key := range keys {
			calls[i] = &call{script: scriptLabel, p: p, keys: []string{key}, args: []any{cmp.Or(at[key], "0"), atOnce}}
		}
		if err := s.do(ctx, calls...); err != nil {
			return fmt.Errorf("label runs of partition %d: %w", p.number, err)
		}
		var left []string
		for i, c := range calls {
			a := c.answer()
			s.findings(p, a.texts(1))
			if at[keys[i]] = a.text(0); a.text(0) != "0" {
				left = append(left, keys[i])
			}
		}
		keys = left
	}
	return nil
}
