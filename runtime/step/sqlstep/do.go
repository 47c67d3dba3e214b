// Package sqlstep lets a step have its effect on a SQL database exactly once.
//
// If a worker crashes before the completion of a step is recorded, the step is executed again. [Do]
// executes the work of the step in a transaction. The same transaction stores a record with the
// idempotency key of the step. A repeated execution finds the record and returns the result of the
// first one.
//
// The databases are PostgreSQL and SQLite, with any driver for database/sql. The records are in
// this table, which Do creates if it is missing:
//
//	CREATE TABLE flowgen_steps (
//		idempotency_key varchar(32) PRIMARY KEY,
//		step            text NOT NULL,
//		result          text,
//		created         bigint NOT NULL -- seconds since 1970, by the database's clock
//	)
package sqlstep

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Do calls f with a transaction, commits the transaction together with a record of the step, and
// returns the result of f. If an earlier attempt of the same step has committed, Do does not call f
// and returns the result of that attempt. The result is always decoded from its stored form, JSON.
//
// If f returns an error or panics, Do rolls the transaction back. Do returns the error of f
// unchanged. f must not end the transaction. Effects of f outside of the transaction are not
// covered.
//
// A step has one transaction. If a call of Do has returned a result, or another call is in
// progress, a further call in the same attempt fails the step with code fatal. The number of a call
// cannot identify its record, because the next attempt may take another path through the code and
// would return the result of a different call. After an error, Do may be called again.
//
// If an attempt begins while an abandoned attempt is running, it waits in the database until the
// abandoned attempt has ended. Do panics outside of a step.
func Do[T any](ctx context.Context, db *sql.DB, f func(context.Context, *sql.Tx) (T, error)) (T, error) {
	var zero T
	call, ok := step.Current(ctx)
	if !ok {
		panic("sqlstep: Do was called outside of a step: pass the context that the step function got")
	}
	transaction := &attempt.From(ctx).Transaction
	if !transaction.Take() {
		return zero, step.Fatal(fmt.Errorf("step %s calls sqlstep.Do again after a call that succeeded or is under way: "+
			"do both in one transaction, or make two steps", call.Step))
	}
	succeeded := false
	defer func() {
		if !succeeded {
			transaction.Free()
		}
	}()
	v, err := once(ctx, db, call.Step, f)
	succeeded = err == nil
	return v, err
}

// once implements Do for the only transaction of an attempt. name is the name of the step.
func once[T any](ctx context.Context, db *sql.DB, name string, f func(context.Context, *sql.Tx) (T, error)) (T, error) {
	var zero T
	key := step.IdempotencyKey(ctx)
	d, err := dialectOf(ctx, db)
	if err != nil {
		return zero, fmt.Errorf("prepare table flowgen_steps: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return zero, fmt.Errorf("begin transaction of step %s: %w", name, err)
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	first, err := d.claim(ctx, tx, key, name)
	switch {
	case err != nil:
		return zero, fmt.Errorf("record step %s: %w", name, err)
	case !first:
		_ = tx.Rollback() // end the transaction, because a pool with one connection could not run the query
		return recorded[T](ctx, db, d, key, name)
	}
	v, err := f(ctx, tx)
	if err != nil {
		return zero, err
	}
	result, err := flow.EncodePayload("result of step ", name, v)
	if err != nil {
		return zero, err
	}
	if _, err := tx.ExecContext(ctx, d.finish, string(result), key); err != nil {
		return zero, fmt.Errorf("record the result of step %s: %w", name, err)
	}
	if err := tx.Commit(); err != nil {
		return zero, fmt.Errorf("commit step %s: %w", name, err) // the commit may have succeeded; then the next attempt finds the record
	}
	return decode[T](name, result)
}

// recorded returns the result that an earlier attempt has committed.
func recorded[T any](ctx context.Context, db *sql.DB, d *dialect, key, name string) (T, error) {
	var result sql.NullString
	var zero T
	if err := db.QueryRowContext(ctx, d.read, key).Scan(&result); err != nil {
		return zero, fmt.Errorf("read the recorded result of step %s: %w", name, err)
	}
	if !result.Valid {
		return zero, step.Fatal(fmt.Errorf("step %s was committed by its own code, without a result: "+
			"the function that is passed to sqlstep.Do may not commit the transaction", name))
	}
	return decode[T](name, []byte(result.String))
}

func decode[T any](name string, result []byte) (T, error) {
	var v T
	if err := json.Unmarshal(result, &v); err != nil {
		return v, &workflow.PayloadError{What: "result of step " + name, Err: err}
	}
	return v, nil
}

// Steps that use this package may return these errors from functions that flowgen does not analyze.
// The names are those that flowgen generates for analyzed packages.
func init() {
	failure.RegisterSentinel("database/sql.ErrConnDone", sql.ErrConnDone)
	failure.RegisterSentinel("database/sql.ErrNoRows", sql.ErrNoRows)
	failure.RegisterSentinel("database/sql.ErrTxDone", sql.ErrTxDone)
}
