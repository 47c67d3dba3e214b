package speed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// sqliteTarget measures sqlitestore with files in temporary directories.
type sqliteTarget struct{ dir, base string }

func newSQLiteTarget(path string) (*sqliteTarget, error) {
	dir, base := filepath.Split(path)
	if base == "" {
		return nil, fmt.Errorf("-store sqlite:%s: name a file, not a directory", path)
	}
	if dir == "" {
		dir = "."
	}
	return &sqliteTarget{dir, base}, nil
}

func (*sqliteTarget) name() string { return "sqlite" }
func (*sqliteTarget) close() error { return nil }

func (t *sqliteTarget) fresh(context.Context) (_ bed, err error) {
	dir, err := os.MkdirTemp(t.dir, t.base+"-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the files: %w", err)
	}
	b := &sqliteBed{dir: dir, path: filepath.Join(dir, t.base)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.discard())
		}
	}()
	if b.st, err = sqlitestore.Open(b.path); err != nil {
		return nil, err
	}
	if b.limit, err = openBare(filepath.Join(dir, "limit")); err != nil {
		return nil, fmt.Errorf("open the file of the limit: %w", err)
	}
	return b, nil
}

type sqliteBed struct {
	dir, path string
	st        *sqlitestore.Store
	mu        sync.Mutex
	limit     *sqlite.Conn
}

func (b *sqliteBed) store() store.Store                   { return b.st }
func (b *sqliteBed) usage(context.Context) (usage, error) { return usage{}, nil }

// bytes writes the log of the file back and returns the size of the file.
func (b *sqliteBed) bytes(context.Context) (size int64, err error) {
	c, err := sqlite.OpenConn(b.path, sqlite.OpenReadOnly|sqlite.OpenWAL)
	if err != nil {
		return 0, fmt.Errorf("open the file to see its size: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	err = sqlitex.ExecuteTransient(c, `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`,
		&sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			size = s.ColumnInt64(0)
			return nil
		}})
	if err != nil {
		return 0, fmt.Errorf("read the size of the file: %w", err)
	}
	return size, nil
}

func (b *sqliteBed) discard() error {
	var err error
	if b.st != nil {
		err = b.st.Close()
	}
	if b.limit != nil {
		err = errors.Join(err, b.limit.Close())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// openBare opens a file with the settings of the store and creates the tables for the limit.
func openBare(path string) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	for _, q := range []string{
		`PRAGMA journal_mode = WAL`, `PRAGMA synchronous = NORMAL`, `PRAGMA wal_autocheckpoint = 4000`, `PRAGMA cache_size = -16384`,
		`CREATE TABLE runs (id TEXT PRIMARY KEY, n INTEGER NOT NULL, last BLOB NOT NULL) STRICT, WITHOUT ROWID`,
		`CREATE TABLE frames (run TEXT, n INTEGER, frame BLOB NOT NULL, PRIMARY KEY (run, n)) STRICT, WITHOUT ROWID`,
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// append writes all rows in a single transaction.
func (b *sqliteBed) append(_ context.Context, rows []*row, frame []byte) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end, err := sqlitex.ImmediateTransaction(b.limit)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer end(&err)
	for _, r := range rows {
		if r.n == 0 {
			err = b.exec(`INSERT INTO runs VALUES (?, 1, ?)`, r.id, r.cid[:])
		} else {
			err = b.exec(`UPDATE runs SET n = n + 1, last = ? WHERE id = ? AND last = ?`, r.cid[:], r.id, r.prev[:])
		}
		if err == nil && b.limit.Changes() != 1 {
			err = errPosition
		}
		if err == nil {
			err = b.exec(`INSERT INTO frames VALUES (?, ?, ?)`, r.id, int64(r.n+1), frame)
		}
		if err != nil {
			return fmt.Errorf("append to log %s: %w", r.id, err)
		}
	}
	return nil
}

// exec executes a query. Like the store, it binds values without reflection.
func (b *sqliteBed) exec(query string, args ...any) error {
	s, err := b.limit.Prepare(query)
	if err != nil {
		return err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			s.BindText(i+1, v)
		case int64:
			s.BindInt64(i+1, v)
		case []byte:
			s.BindBytes(i+1, v)
		}
	}
	_, err = s.Step()
	return errors.Join(err, s.Reset())
}

func (b *sqliteBed) drop(_ context.Context, rows []*row) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rows {
		if err := b.exec(`DELETE FROM runs WHERE id = ?`, r.id); err != nil {
			return err
		}
		if err := b.exec(`DELETE FROM frames WHERE run = ?`, r.id); err != nil {
			return err
		}
		if got := b.limit.Changes(); uint64(got) != r.n {
			return fmt.Errorf("log %s has %d frames, want %d", r.id, got, r.n)
		}
	}
	return nil
}
