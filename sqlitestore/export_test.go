package sqlitestore

import (
	"context"
	"fmt"
)

// CheckpointEvery makes the store write its log into the database whenever that
// has so many pages.
func (s *Store) CheckpointEvery(ctx context.Context, pages int) error {
	return s.write(ctx, func(t *tx) error { return t.ExecOnce(fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", pages)) })
}
