package sqlstep

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/flowgen/flowgen/runtime/step"
)

const table = `CREATE TABLE IF NOT EXISTS flowgen_steps (
	idempotency_key varchar(32) PRIMARY KEY, step text NOT NULL, result text, created bigint NOT NULL)`

// dialect contains the SQL statements for one kind of database. The comments list their parameters.
type dialect struct {
	begin  string // parameters: key, step; affects a row if the step had no record
	finish string // parameters: result, key
	read   string // parameter: key
	forget string // parameter: age in seconds
}

var (
	postgres = &dialect{
		begin: `INSERT INTO flowgen_steps (idempotency_key, step, created)
			VALUES ($1, $2, extract(epoch FROM now())::bigint) ON CONFLICT DO NOTHING`,
		finish: `UPDATE flowgen_steps SET result = $1 WHERE idempotency_key = $2`,
		read:   `SELECT result FROM flowgen_steps WHERE idempotency_key = $1`,
		forget: `DELETE FROM flowgen_steps WHERE created < extract(epoch FROM now())::bigint - $1::bigint`,
	}
	sqlite = &dialect{
		begin: `INSERT INTO flowgen_steps (idempotency_key, step, created)
			VALUES (?, ?, CAST(strftime('%s', 'now') AS INTEGER)) ON CONFLICT DO NOTHING`,
		finish: `UPDATE flowgen_steps SET result = ? WHERE idempotency_key = ?`,
		read:   `SELECT result FROM flowgen_steps WHERE idempotency_key = ?`,
		forget: `DELETE FROM flowgen_steps WHERE created < CAST(strftime('%s', 'now') AS INTEGER) - ?`,
	}
)

// claim inserts the record of a step. It returns false if the record exists. It waits for a
// concurrent transaction of the same step.
func (d *dialect) claim(ctx context.Context, tx *sql.Tx, key, name string) (bool, error) {
	r, err := tx.ExecContext(ctx, d.begin, key, name)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// prepared contains the dialect of each database that has the table.
var prepared sync.Map // weak.Pointer[sql.DB] → *dialect

func dialectOf(ctx context.Context, db *sql.DB) (*dialect, error) {
	key := weak.Make(db)
	if d, ok := prepared.Load(key); ok {
		return d.(*dialect), nil
	}
	d, err := recognise(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := makeTable(ctx, db); err != nil {
		return nil, err
	}
	if _, known := prepared.LoadOrStore(key, d); !known {
		runtime.AddCleanup(db, func(k weak.Pointer[sql.DB]) { prepared.Delete(k) }, key)
	}
	return d, nil
}

// recognise determines the kind of a database by a query.
func recognise(ctx context.Context, db *sql.DB) (*dialect, error) {
	var version string
	if db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil {
		return sqlite, nil
	}
	if err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return nil, fmt.Errorf("read the version of the database: %w", err)
	}
	if !strings.HasPrefix(version, "PostgreSQL ") {
		return nil, step.Fatal(fmt.Errorf("the database is %q: sqlstep works with PostgreSQL and SQLite", version))
	}
	return postgres, nil
}

// makeTable creates the table if it does not exist. A database user without the right to create
// tables can use an existing table.
func makeTable(ctx context.Context, db *sql.DB) error {
	if there(ctx, db) == nil {
		return nil
	}
	if _, err := db.ExecContext(ctx, table); err != nil {
		if there(ctx, db) == nil {
			return nil // another process has created the table concurrently
		}
		return fmt.Errorf("create it: %w", err)
	}
	return nil
}

func there(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT 1 FROM flowgen_steps WHERE 1 = 0")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // the statement is only needed for its error, see rows.Err
	}
	return rows.Err()
}

// Forget deletes the records of steps that began more than olderThan ago, by the clock of the
// database. It returns the number of deleted records. A record is needed as long as its step may be
// executed again: at least until the step has ended, and preferably until its run has ended.
// Records are not deleted automatically.
func Forget(ctx context.Context, db *sql.DB, olderThan time.Duration) (int64, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return 0, fmt.Errorf("prepare table flowgen_steps: %w", err)
	}
	r, err := db.ExecContext(ctx, d.forget, int64(olderThan/time.Second))
	if err != nil {
		return 0, fmt.Errorf("delete old steps: %w", err)
	}
	return r.RowsAffected()
}
