// Package twice has steps with two transactions.
package twice

import (
	"context"
	"database/sql"

	"github.com/flowgen/flowgen/runtime/step/sqlstep"
)

// Bank has a database.
type Bank struct{ db *sql.DB }

func debit(ctx context.Context, tx *sql.Tx) (int, error) { return 1, nil }

func credit(ctx context.Context, tx *sql.Tx) (int, error) { return 2, nil }

// move does both, one behind the other.
//
//flow:step
func (b *Bank) move(ctx context.Context, id string) error {
	if _, err := sqlstep.Do(ctx, b.db, debit); err != nil {
		return err
	}
	_, err := sqlstep.Do(ctx, b.db, credit) // want `^a step has one transaction, and this is a second one behind it, which fails the step: do both in one, or make two steps \[twice\]$`
	return err
}

// either does one of them.
//
//flow:step
func (b *Bank) either(ctx context.Context, id string) error {
	if id == "" {
		_, err := sqlstep.Do(ctx, b.db, debit)
		return err
	}
	_, err := sqlstep.Do(ctx, b.db, credit)
	return err
}

// again does it once more after an error.
//
//flow:step
func (b *Bank) again(ctx context.Context, id string) error {
	_, err := sqlstep.Do(ctx, b.db, debit)
	if err != nil {
		_, err = sqlstep.Do(ctx, b.db, debit)
	}
	return err
}
