package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// formatVersion grows when an older release could not work with what this one
// writes. Version 1 had no heads; it was never released, and nothing reads it.
const formatVersion = 2

// prepare checks, before the first operation, that the database is one that this
// release knows, with as many partitions as configured; a new one is marked. It
// is tried again until it has worked once.
func (s *Store) prepare(ctx context.Context) error {
	if s.prepared.Load() {
		return nil
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared.Load() {
		return nil
	}
	if err := s.checkServer(ctx); err != nil {
		return err
	}
	if err := s.checkFormat(ctx); err != nil {
		return err
	}
	if err := s.readClock(ctx); err != nil {
		return s.explain(ctx, err)
	}
	s.prepared.Store(true)
	return nil
}

// checkFormat reads the mark, or sets it.
func (s *Store) checkFormat(ctx context.Context) error {
	key := s.parts[0].format()
	var kept *redis.StringCmd
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.SetNX(ctx, key, s.mark(), 0)
		kept = p.Get(ctx, key)
		return nil
	})
	if err != nil {
		return s.explain(ctx, fmt.Errorf("read the format of the store: %w", err))
	}
	return s.compareMark(kept.Val())
}

// mark is what a database says of itself.
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
	case version > formatVersion:
		return &store.VersionError{What: "redis prefix " + s.cfg.Prefix, Got: version, Known: formatVersion}
	case version < formatVersion:
		return &OldFormatError{Prefix: s.cfg.Prefix, Got: version, Want: formatVersion}
	case partitions != len(s.parts):
		return &PartitionsError{Prefix: s.cfg.Prefix, Got: len(s.parts), Want: partitions}
	}
	return nil
}

// checkServer refuses servers that are too old. A server that does not tell its
// version is taken for new enough.
func (s *Store) checkServer(ctx context.Context) error {
	info, err := s.client.Info(ctx, "server").Result()
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
		return fmt.Errorf("the server is Redis %s: version 7.0 or later is needed", version)
	}
	return nil
}
