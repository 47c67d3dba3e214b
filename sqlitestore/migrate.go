package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/store"
)

// Migrate brings a file that an older release has written up to the present format, in one transaction: whoever
// stops it leaves the file as it was. A million runs take it some seconds and, until then, about half of the file
// once more in the write-ahead log. A file that has the present format stays as it is, and one that does not exist is
// a *store.MissingError. No process of the older release writes to the file afterwards, even if it has it open: its operations fail.
// Stop them nevertheless, or what their workers have begun waits until their leases have ended.
func Migrate(ctx context.Context, path string) error {
	if err := migrate(ctx, path); err != nil {
		return fmt.Errorf("migrate sqlite store: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, path string) error {
	path, err := checkPath(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &store.MissingError{What: path}
	}
	s := &Store{path: path} // which explains errors
	c, err := connect(ctx, path, sqlite.OpenReadWrite, `cache_size = -65536`)
	if err != nil {
		return s.explain(err)
	}
	return errors.Join(s.explain(c.migrate(ctx, path)), c.Close())
}

func (c *conn) migrate(ctx context.Context, path string) error {
	return c.immediate(ctx, func() error {
		version, err := inspectFile(c, path)
		if err != nil {
			return err
		}
		return c.execAll(migrations(version))
	})
}

// migrations returns the statements that bring a file of a version up to date. An empty file, which Open makes a store,
// needs none.
func migrations(version int) []string {
	steps := [][]string{1: limitSchema, 2: gatherSchema, 3: listSchema, 4: troubleSchema, 5: journalSchema, 6: routeSchema}
	if version == 0 || version >= len(steps) {
		return nil
	}
	return slices.Concat(steps[version:]...)
}
