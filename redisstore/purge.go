package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Purge removes at most limit runs whose retention is over. One call removes at most 500 runs.
func (s *Store) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("purge runs: %w", err)
	}
	c := &call{
		script: scriptPurge, p: p,
		keys: []string{p.purges(), p.latest(), p.chains(), p.latestOfChains(), p.routes(), p.wakes(), p.counter(), p.held()},
		args: []any{s.at(), min(max(limit, 0), chores)},
	}
	if err := s.do(ctx, c); err != nil {
		return 0, time.Time{}, fmt.Errorf("purge runs: %w", err)
	}
	a := c.answer()
	s.findings(p, a.texts(2))
	return int(a.number(0)), a.time(1), nil
}

// Delete hides an ended run until it is purged.
func (s *Store) Delete(ctx context.Context, run event.RunID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	c := &call{
		script: scriptDelete, p: p,
		keys: []string{p.meta(short(run)), p.hidden(short(run)), p.purges(), p.latest(), p.held()},
		args: []any{short(run), store.Horizon.Milliseconds()},
	}
	err := s.do(ctx, c)
	if err == nil {
		err = deleted(run, c)
	}
	if err != nil {
		return fmt.Errorf("delete run %s: %w", run, err)
	}
	return nil
}

func deleted(run event.RunID, c *call) error {
	a := c.answer()
	switch a.word() {
	case answerOK:
		return nil
	case refusedUnknown:
		return store.ErrRunNotFound
	case refusedNotEnded:
		return &store.NotEndedError{Run: run, Status: statusOf(byte(a.number(1)))}
	}
	return unexpected(c)
}
