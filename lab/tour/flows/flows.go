// Package flows contains the workflows of the tour. Each of them demonstrates some of the
// operations of runs.
//
//flow:package name=tour
package flows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/step/sqlstep"
)

// Bank is a SQL database in which steps record their effects. [Schema] creates its tables.
type Bank struct{ DB *sql.DB }

// Schema creates the tables of a bank.
const Schema = `
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, book TEXT NOT NULL, line TEXT NOT NULL, key TEXT UNIQUE NOT NULL);`

// deposit adds cents to an account exactly once.
//
//flow:step retries=20 backoff=constant(20ms)
func (b *Bank) deposit(ctx context.Context, account string, cents int64) (int64, error) {
	return sqlstep.Do(ctx, b.DB, func(ctx context.Context, tx *sql.Tx) (balance int64, err error) {
		err = tx.QueryRowContext(ctx, `INSERT INTO accounts (name, cents) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET cents = cents + $2 RETURNING cents`, account, cents).Scan(&balance)
		return balance, err
	})
}

// note writes a line to a book. A repeated execution does not write the line again.
//
//flow:step retries=50 backoff=constant(20ms)
func (b *Bank) note(ctx context.Context, book, line string) (string, error) {
	_, err := b.DB.ExecContext(ctx, `INSERT INTO notes (book, line, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		book, line, step.IdempotencyKey(ctx))
	return line, err
}

// ErrNotYet is returned if a book does not contain a required line.
//
//flow:error
var ErrNotYet = errors.New("the book does not allow it")

// allow fails permanently unless a book contains the given line.
//
//flow:step fatal=ErrNotYet retries=50 backoff=constant(20ms)
func (b *Bank) allow(ctx context.Context, book, line string) error {
	var n int
	if err := b.DB.QueryRowContext(ctx, `SELECT count(*) FROM notes WHERE book = $1 AND line = $2`, book, line).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("look for %q: %w", line, ErrNotYet)
	}
	return nil
}

// far returns the site of its worker. It runs on workers that serve the queue far.
//
//flow:step queue=far retries=50 backoff=constant(20ms)
func (s *Site) far(ctx context.Context, line string) (string, error) {
	return s.Name + " " + line, step.Write(ctx, Lines, "far: "+line)
}

// near returns the site of its worker. It runs on the queue of the run unless the call selects
// another queue.
//
//flow:step retries=50 backoff=constant(20ms)
func (s *Site) near(_ context.Context, line string) (string, error) { return s.Name + " " + line, nil }

// Site is the location of a worker.
type Site struct{ Name string }

// work takes the time d.
//
//flow:step retries=50 backoff=constant(20ms)
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
