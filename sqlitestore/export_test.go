package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
)

// What tests with other processes need of older files.
var (
	Older    = older
	Migrated = migrated
)

// StatementsOfMigration returns how many statements bring a file of a version up to date.
func StatementsOfMigration(version int) int { return len(migrations(version)) }

// MigrateInPart migrates a file as Migrate does, and calls then before statement n.
func MigrateInPart(ctx context.Context, path string, n int, then func()) error {
	c, err := connect(ctx, path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	err = c.immediate(ctx, func() error {
		version, err := inspectFile(c, path)
		if err != nil {
			return err
		}
		statements := migrations(version)
		if err := c.execAll(statements[:n]); err != nil {
			return err
		}
		then()
		return c.execAll(statements[n:])
	})
	return errors.Join(err, c.Close())
}

// CheckpointEvery makes the store write its log into the database whenever that
// has so many pages.
func (s *Store) CheckpointEvery(ctx context.Context, pages int) error {
	return s.write(ctx, func(t *tx) error { return t.execOnce(fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", pages)) })
}
