package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Release makes an owned run ready under a new fence. No recovery is counted.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	_, err := perform(ctx, s, func(t *tx) (struct{}, error) {
		r, err := t.run(run)
		if err != nil {
			return struct{}{}, err
		}
		if r == nil || !r.holds(fence) {
			return struct{}{}, refuse(store.ErrFenced)
		}
		r.epoch++
		return struct{}{}, t.makeReady(r)
	})
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}
