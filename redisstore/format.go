package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// formatVersion grows when an older release could not work with what this one
// writes. Version 1 had no headers; it was never released, and nothing reads it. Version 2 had one set
// of all open runs and one of all done ones, and no version in the names of its keys. Version 3 has no sets of
// labels, or only of the runs that this release has created; this one works with it, too, and searches without them.
// Migrate brings both up to the present version.
const formatVersion = 4

const (
	unlabelled = 3
	migratable = 2
	// keyVersion is the version in the names of keys: all since format 3 have the same.
	keyVersion = 3
)

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
	return mark, s.goBy(mark)
}

// copyMark puts copies of the mark beside the one in partition 0, one for each partition
// of a cluster, so that its other servers can be worked with while that of partition 0 is
// lost. Only once it is known that the mark is right: the number of partitions is decided
// in one place. Copies that cannot be written are written by whoever comes next, as are those that have stayed at an older
// format: a failover may have lost what Migrate has written. A newer copy stays, for Migrate may have come to it since the mark was read.
func (s *Store) copyMark(ctx context.Context, mark string) {
	if !s.keepsCopies() {
		return
	}
	copies := make([]*redis.StringCmd, len(s.parts))
	_, _ = s.client.Pipelined(ctx, func(tx redis.Pipeliner) error {
		for n, p := range s.parts[1:] {
			tx.SetNX(ctx, p.format(), mark, 0)
			copies[n+1] = tx.Get(ctx, p.format())
		}
		return nil
	})
	var calls []*call
	for n, p := range s.parts[1:] {
		if old := copies[n+1].Val(); s.older(old, mark) {
			calls = append(calls, s.replaceMark(p, old, mark))
		}
	}
	if len(calls) > 0 {
		insist(ctx, calls, s.send)
	}
}

// keepsCopies reports whether partitions have copies of the mark.
func (s *Store) keepsCopies() bool {
	_, cluster := s.client.(*redis.ClusterClient)
	return cluster && len(s.parts) > 1
}

// older reports whether a mark is one of this prefix that Migrate replaces on its way to another one.
func (s *Store) older(mark, than string) bool {
	way := []string{s.markOf(migratable), s.markMeanwhile(), s.markOf(unlabelled), s.mark()}
	n := slices.Index(way, mark)
	return n >= 0 && n < slices.Index(way, than)
}

// replaceMark returns the script that replaces the mark of a partition, if it is as it was seen.
func (s *Store) replaceMark(p *partition, seen, mark string) *call {
	return &call{script: scriptReplace, p: p, keys: []string{p.format()}, args: []any{"string", "", seen, mark}}
}

// copied reports whether a partition has a copy of the mark that this store goes by.
func (s *Store) copied(ctx context.Context, p *partition) bool {
	if p.number == 0 {
		return false
	}
	mark, err := s.client.Get(ctx, p.format()).Result()
	return err == nil && s.goBy(mark) == nil
}

// goBy takes over what the mark of a database says, or returns an error if this store must leave it alone.
func (s *Store) goBy(mark string) error {
	err := s.compareMark(mark)
	if err == nil {
		s.labelled.Store(mark == s.mark())
	}
	return err
}

// version returns the version of the format that the database has, as far as this store knows.
func (s *Store) version() int {
	if s.labelled.Load() {
		return formatVersion
	}
	return unlabelled
}

// Format returns the version of the format of the store, and of that to which Migrate brings it.
func (s *Store) Format(ctx context.Context) (has, newest int, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, 0, err
	}
	if _, err := s.hasLabels(ctx, s.parts[0]); err != nil {
		return 0, 0, fmt.Errorf("read the format: %w", err)
	}
	return s.version(), formatVersion, nil
}

// mark returns the value by which a database names its format.
func (s *Store) mark() string { return s.markOf(formatVersion) }

func (s *Store) markOf(version int) string {
	return fmt.Sprintf("flowgen %d %d", version, len(s.parts))
}

// markMeanwhile is the mark while the keys of format 2 are being moved. Older releases take it for that of something else.
func (s *Store) markMeanwhile() string { return s.markOf(unlabelled) + " migrating" }

// compareMark returns an error if this store must leave a database with this
// mark alone.
func (s *Store) compareMark(mark string) error {
	old := &store.OldFormatError{What: "redis prefix " + s.cfg.Prefix, Got: migratable, Known: formatVersion, Migrates: true}
	if mark == s.markMeanwhile() {
		return old
	}
	words := strings.Fields(mark)
	if len(words) != 3 || words[0] != "flowgen" {
		return fmt.Errorf("%w: key %s is %q", store.ErrForeign, s.parts[0].format(), mark)
	}
	version, err1 := strconv.Atoi(words[1])
	partitions, err2 := strconv.Atoi(words[2])
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: key %s is %q", store.ErrForeign, s.parts[0].format(), mark)
	case version > formatVersion:
		return &store.VersionError{What: "redis prefix " + s.cfg.Prefix, Got: version, Known: formatVersion}
	case version < unlabelled:
		old.Got, old.Migrates = version, version == migratable
		return old
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
