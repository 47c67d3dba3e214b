package memstore

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
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.op.Release(run, fence)
	p.announce()
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}
