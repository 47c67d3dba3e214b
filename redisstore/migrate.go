package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// migratedAtOnce is how many keys one script moves: a few milliseconds of the server.
	migratedAtOnce = 500
	// fencedKeys are the letters of the keys that a partition of format 2 has once, which its scripts write to.
	fencedKeys = "tewkuvdhcTGDALKYJQpf"
)

// Migrate brings what a release with format version 2 or 3 has written up to the present one, in small steps, so that a
// server which others use, too, goes on. A million runs take it some ten seconds from version 2, and half a minute from version 3. It may be interrupted and called
// again, and be called by several processes; what has the present format stays as it is.
//
// Version 3 lacks the index of tags and workflow ids. Stores of this release work with it and go on meanwhile; they search by
// the index once Migrate has ended. All other processes must have this release before: what one of an older release writes
// afterwards, which it does until it is started again, is found by its tags only once package fsck has repaired it.
//
// Until version 2 is migrated stores of this release answer with a *[store.OldFormatError]. Stop the processes of the older release first: a *[store.FleetError] says that there are sessions with leases that are
// not past. One that starts later refuses the prefix. One that was forgotten, because it only starts runs, is fenced off: every key has
// another name afterwards, and where it counts and lists there is a text. Its operations fail; what a script of it writes before it does is under
// names that nothing reads. If a failover could lose writes set Config.WaitReplicas: the format is stamped when the replicas have all.
func Migrate(ctx context.Context, client redis.UniversalClient, cfg Config) error {
	s, err := New(client, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it does not own the client
	return s.Migrate(ctx)
}

// Migrate is the function Migrate, for the prefix of the store.
func (s *Store) Migrate(ctx context.Context) error { return s.migrate(ctx, migratedAtOnce) }

func (s *Store) migrate(ctx context.Context, atOnce int) error {
	for {
		again, err := s.migrateOnce(ctx, atOnce)
		if err != nil {
			return fmt.Errorf("migrate redis prefix %s: %w", s.cfg.Prefix, s.explain(ctx, err))
		}
		if !again {
			return nil
		}
	}
}

// migrateOnce reports whether the mark has changed, which may have been somebody else's doing: then it must be read again.
func (s *Store) migrateOnce(ctx context.Context, atOnce int) (again bool, err error) {
	mark, err := s.client.Get(ctx, s.parts[0].format()).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil // nothing has been written yet
	case err != nil:
		return false, fmt.Errorf("read the format: %w", err)
	case mark == s.markOf(migratable):
		if err := s.checkFleet(ctx); err != nil {
			return false, err
		}
		return true, s.stamp(ctx, mark, s.markMeanwhile())
	case mark == s.markMeanwhile():
		return true, s.toUnlabelled(ctx, mark, atOnce)
	case mark == s.markOf(unlabelled):
		return true, s.toLabelled(ctx, mark, atOnce)
	}
	return false, s.compareMark(mark)
}

// toUnlabelled brings format 2 to format 3.
func (s *Store) toUnlabelled(ctx context.Context, mark string, atOnce int) error {
	for _, p := range s.parts {
		if err := s.moveKeys(ctx, p, fencedKeys, nil); err != nil {
			return err
		}
	}
	if err := s.eachNode(ctx, func(ctx context.Context, node redis.Cmdable) error { return s.moveAll(ctx, node, atOnce) }); err != nil {
		return err
	}
	if err := s.confirmAll(ctx); err != nil {
		return err
	}
	return s.stamp(ctx, mark, s.markOf(unlabelled))
}

// confirmAll waits until replicas have all that was written, if that is configured: the server counts what came before.
func (s *Store) confirmAll(ctx context.Context) error {
	if s.cfg.WaitReplicas == 0 {
		return nil
	}
	for _, p := range s.parts {
		if err := s.moveKeys(ctx, p, "", nil); err != nil {
			return err
		}
	}
	return nil
}

// checkFleet returns an error if there are sessions of the older release.
func (s *Store) checkFleet(ctx context.Context) error {
	if err := s.readClock(ctx, s.parts[0]); err != nil {
		return err
	}
	fleet := store.FleetError{What: "redis prefix " + s.cfg.Prefix}
	seen := map[store.SessionID]bool{}
	for _, p := range s.parts {
		live, err := s.client.ZRangeByScoreWithScores(ctx, p.tagBefore()+"e", &redis.ZRangeBy{Min: "(" + number(millis(s.Clock().Now())), Max: "+inf"}).Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil // another process has gone on already: the mark will say so
		}
		if err != nil {
			return fmt.Errorf("read the leases of sessions: %w", err)
		}
		for _, z := range live {
			code, _ := z.Member.(string)
			name, err := s.client.HGet(ctx, p.tagBefore()+"z:"+code, "i").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read a session: %w", err)
			}
			if until := timeOf(int64(z.Score)); until.After(fleet.Until) {
				fleet.Until = until
			}
			if id := store.SessionID(name); !seen[id] { // it has a lease in each partition
				seen[id], fleet.Sessions = true, append(fleet.Sessions, id)
			}
		}
	}
	if len(fleet.Sessions) > 0 {
		return &fleet
	}
	return nil
}

// stamp replaces the mark, and the copies of it that a cluster has: that in partition 0 last, as it decides. One that somebody else has
// replaced stays. A copy that is missing is written, too: somebody who has read the mark before may be about to, and comes too late then.
func (s *Store) stamp(ctx context.Context, seen, mark string) error {
	for n, p := range slices.Backward(s.parts) {
		if n > 0 && s.keepsCopies() {
			if err := s.client.SetNX(ctx, p.format(), mark, 0).Err(); err != nil {
				return fmt.Errorf("write the format: %w", err)
			}
		}
		c := s.replaceMark(p, seen, mark)
		if insist(ctx, []*call{c}, s.confirming(true)); c.err != nil {
			return fmt.Errorf("write the format: %w", c.err)
		}
	}
	return nil
}

// eachNode calls do with every server that has partitions.
func (s *Store) eachNode(ctx context.Context, do func(context.Context, redis.Cmdable) error) error {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, s.client)
}

// moveAll moves the keys of format 2 that a server has, whatever leads to them.
func (s *Store) moveAll(ctx context.Context, node redis.Cmdable, atOnce int) error {
	names := map[*partition][]string{}
	scan := node.Scan(ctx, 0, escaped("{"+s.cfg.Prefix+":")+"*", 1000).Iterator()
	for scan.Next(ctx) {
		p, name := s.before(scan.Val())
		if p == nil {
			continue
		}
		if names[p] = append(names[p], name); len(names[p]) == atOnce {
			if err := s.moveKeys(ctx, p, "", names[p]); err != nil {
				return err
			}
			names[p] = names[p][:0]
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("find keys: %w", err)
	}
	for p, some := range names {
		if err := s.moveKeys(ctx, p, "", some); err != nil {
			return err
		}
	}
	return nil
}

// before returns the partition of a key of format 2, and its name behind the tag; nil: it is none, or one of those that a
// partition has once, which are moved already.
func (s *Store) before(key string) (*partition, string) {
	rest, _ := strings.CutPrefix(key, "{"+s.cfg.Prefix+":")
	digits, name, ok := strings.Cut(rest, "}:")
	n := parseNumber(digits)
	if !ok || !strings.Contains(name, ":") || n < 0 || n >= int64(len(s.parts)) || s.parts[n].tagBefore()+name != key {
		return nil, ""
	}
	return s.parts[n], name
}

// takenError says that a key which must get another name would replace one.
type takenError struct{ key string }

// Permanent is true.
func (e *takenError) Permanent() bool { return true }

func (e *takenError) Error() string {
	return fmt.Sprintf("key %s is there already, and no release has written it: rename it, and migrate again", e.key)
}

func (s *Store) moveKeys(ctx context.Context, p *partition, fence string, names []string) error {
	args := make([]any, 0, 1+len(names))
	args = append(args, fence)
	for _, name := range names {
		args = append(args, name)
	}
	c := &call{script: scriptMigrate, p: p, keys: []string{p.routes()}, args: args}
	if insist(ctx, []*call{c}, s.confirming(len(names) == 0)); c.err != nil {
		return fmt.Errorf("move keys of partition %d: %w", p.number, c.err)
	}
	answer, _ := c.reply.([]any)
	if len(answer) == 2 {
		key, _ := answer[1].(string)
		return &takenError{key}
	}
	return nil
}

// confirming returns how to send scripts: so that replicas have them, if that is asked for and configured.
func (s *Store) confirming(asked bool) sender {
	if asked && s.cfg.WaitReplicas > 0 {
		return s.sendReplicated
	}
	return s.send
}

func migrateURL(ctx context.Context, url string) error {
	s, err := Open(url)
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), s.Close())
}
