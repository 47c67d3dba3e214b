package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Deliver puts an item into an inbox.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	run, err := performOn(ctx, s, d.Run, len(d.Item.Body), func(t *tx) (event.RunID, error) { return t.op.Deliver(&d) })
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return run, nil
}
