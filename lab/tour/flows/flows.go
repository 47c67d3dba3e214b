// Package flows holds the workflows of the tour: each one uses some of the
// operations that runs have.
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

// Bank is a SQL database in which steps leave what they have done, in the tables
// that [Schema] makes.
type Bank struct{ DB *sql.DB }

// Schema are the tables of a bank.
const Schema = `
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, book TEXT NOT NULL, line TEXT NOT NULL, key TEXT UNIQUE NOT NULL);`

// deposit adds to an account, once, whatever happens.
//
//flow:step retries=20 backoff=constant(20ms)
func (b *Bank) deposit(ctx context.Context, account string, cents int64) (int64, error) {
	return sqlstep.Do(ctx, b.DB, func(ctx context.Context, tx *sql.Tx) (balance int64, err error) {
		err = tx.QueryRowContext(ctx, `INSERT INTO accounts (name, cents) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET cents = cents + $2 RETURNING cents`, account, cents).Scan(&balance)
		return balance, err
	})
}

// note writes a line into a book. It may be executed again: the line is there once.
//
//flow:step retries=50 backoff=constant(20ms)
func (b *Bank) note(ctx context.Context, book, line string) (string, error) {
	_, err := b.DB.ExecContext(ctx, `INSERT INTO notes (book, line, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		book, line, step.IdempotencyKey(ctx))
	return line, err
}

// ErrNotYet says that a book does not allow something yet.
//
//flow:error
var ErrNotYet = errors.New("the book does not allow it")

// allow fails for good unless a book has a line.
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

// far is executed on machines that serve the queue far, and says which ones those are.
//
//flow:step queue=far retries=50 backoff=constant(20ms)
func (s *Site) far(ctx context.Context, line string) (string, error) {
	return s.Name + " " + line, step.Write(ctx, Lines, "far: "+line)
}

// near is executed where the run is, unless the call says otherwise.
//
//flow:step retries=50 backoff=constant(20ms)
func (s *Site) near(_ context.Context, line string) (string, error) { return s.Name + " " + line, nil }

// Site is where a worker is.
type Site struct{ Name string }

// work takes its time.
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
