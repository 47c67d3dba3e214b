package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Release makes an owned run ready under a new fence. No recovery is counted.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	_, err := performOn(ctx, s, run, 0, func(t *tx) (struct{}, error) {
		return struct{}{}, t.op.Release(run, fence)
	})
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}
