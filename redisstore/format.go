package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// formatVersion is the version of what this release stores. Names of keys contain it, so a process
// that works with another version neither reads nor writes the same keys. For how to change it see
// docs/internals/formats.md.
const formatVersion = 1

// prepare checks, before the first operation, that the database is one that this
// release knows, with as many partitions as configured; a new one is marked. It
// is tried again until it has worked once.
//
// It is asked for an operation on a partition: in a cluster it needs the server of that
// one, and the mark, of which there are copies beside that in partition 0.
func (s *Store) prepare(ctx context.Context, p *partition) error {
	if s.prepared.Load() {
		return nil
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared.Load() {
		return nil
	}
	if err := s.checkServer(ctx, p); err != nil {
		return err
	}
	if err := s.readClock(ctx, p); err != nil {
		return s.explain(ctx, err)
	}
	mark, err := s.checkFormat(ctx)
	switch {
	case err == nil:
		s.copyMark(ctx, mark)
	case !store.Unknown(err):
		return err
	default:
		if !s.copied(ctx, p) {
			return err
		}
	}
	s.prepared.Store(true)
	return nil
}

// checkFormat returns the mark, and sets it if there is none. It reads first: a server at its memory limit refuses all that could need more, even to set
// what is there, and whoever looks for the cause must be able to open the store.
func (s *Store) checkFormat(ctx context.Context) (string, error) {
	key := s.parts[0].format()
	mark, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		var kept *redis.StringCmd
		_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.SetNX(ctx, key, s.mark(), 0)
			kept = p.Get(ctx, key)
			return nil
		})
		mark = kept.Val()
	}
	if err != nil {
		return "", s.explain(ctx, fmt.Errorf("read the format of the store: %w", err))
	}
	return mark, s.compareMark(mark)
}

// copyMark puts copies of the mark beside the one in partition 0, one for each partition
// of a cluster, so that its other servers can be worked with while that of partition 0 is
// lost. Only once it is known that the mark is right: the number of partitions is decided
// in one place. Copies that cannot be written are written by the next process.
func (s *Store) copyMark(ctx context.Context, mark string) {
	if _, cluster := s.client.(*redis.ClusterClient); !cluster || len(s.parts) == 1 {
		return
	}
	_, _ = s.client.Pipelined(ctx, func(tx redis.Pipeliner) error {
		for _, p := range s.parts[1:] {
			tx.SetNX(ctx, p.format(), mark, 0)
		}
		return nil
	})
}

// copied reports whether a partition has a copy of the mark that this store goes by.
func (s *Store) copied(ctx context.Context, p *partition) bool {
	if p.number == 0 {
		return false
	}
	mark, err := s.client.Get(ctx, p.format()).Result()
	return err == nil && s.compareMark(mark) == nil
}

// mark returns the value by which a database names its format.
func (s *Store) mark() string { return fmt.Sprintf("flowgen %d %d", formatVersion, len(s.parts)) }

// compareMark returns an error if this store must leave a database with this
// mark alone.
func (s *Store) compareMark(mark string) error {
	words := strings.Fields(mark)
	if len(words) != 3 || words[0] != "flowgen" {
		return fmt.Errorf("%w: key %s is %q", store.ErrForeign, s.parts[0].format(), mark)
	}
	version, err1 := strconv.Atoi(words[1])
	partitions, err2 := strconv.Atoi(words[2])
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: key %s is %q", store.ErrForeign, s.parts[0].format(), mark)
	case version != formatVersion:
		return &store.VersionError{What: "redis prefix " + s.cfg.Prefix, Got: version, Known: formatVersion}
	case partitions != len(s.parts):
		return &PartitionsError{Prefix: s.cfg.Prefix, Got: len(s.parts), Want: partitions}
	}
	return nil
}

// checkServer refuses servers that are too old. A server that does not tell its
// version is taken for new enough.
func (s *Store) checkServer(ctx context.Context, p *partition) error {
	node, err := s.master(ctx, p)
	if err != nil {
		return s.explain(ctx, fmt.Errorf("ask the server for its version: %w", err))
	}
	info, err := node.Info(ctx, "server").Result()
	if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR") {
		return nil
	}
	if err != nil {
		return s.explain(ctx, fmt.Errorf("ask the server for its version: %w", err))
	}
	_, after, ok := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(after, "\r\n")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); ok && err == nil && n < 7 {
		return &serverVersionError{version}
	}
	return nil
}

// serverVersionError says that a server is too old.
type serverVersionError struct{ version string }

// Permanent is true.
func (e *serverVersionError) Permanent() bool { return true }

func (e *serverVersionError) Error() string {
	return fmt.Sprintf("the server is Redis %s: version 7.0 or later is needed", e.version)
}
