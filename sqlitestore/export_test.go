package sqlitestore

import (
	"context"
	"fmt"
)

// CheckpointEvery makes the store write its log to the database whenever the log has the given
// number of pages.
func (s *Store) CheckpointEvery(ctx context.Context, pages int) error {
	return s.write(ctx, func(t *tx) error { return t.ExecOnce(fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", pages)) })
}
