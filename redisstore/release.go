package redisstore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Release makes an owned run ready under a new fence. No recovery is counted.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	c := &call{
		script: scriptRelease, p: p, keys: []string{p.meta(short(run))},
		args: []any{s.at(), short(run), packFence(fence)},
	}
	if err := s.do(ctx, c); err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	if c.answer().word() != "ok" {
		return fmt.Errorf("release run %s: %w", run, store.ErrFenced)
	}
	return nil
}
