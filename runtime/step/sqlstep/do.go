package sqlstep

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Do calls f with a transaction, commits what f did in it together with a record of
// that, and returns the result of f. If an earlier attempt of the same step has
// committed, f is not called, and Do returns the result of that. A result is always
// read from its stored form, JSON.
//
// If f returns an error or panics nothing of what it did in the transaction is kept;
// Do returns the error as it is. f may not end the transaction itself. What f does
// elsewhere than in the transaction is not covered.
//
// A step has one transaction. After a call of Do that returned a result, or while one is
// under way, another call in the same attempt fails the step with code fatal. The records
// have no place for two: a number of the call in the attempt would not identify it, because
// the next attempt may take another path through the code, and would then get the result
// of a different call. After an error Do may be called again.
//
// A second attempt that begins while an abandoned first one is still at work waits
// for the end of that in the database. Do panics outside of a step.
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

// once is Do for the only transaction of an attempt of the step with this name.
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
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	first, err := d.claim(ctx, tx, key, name)
	switch {
	case err != nil:
		return zero, fmt.Errorf("record step %s: %w", name, err)
	case !first:
		_ = tx.Rollback() // a pool of one connection has none for the query otherwise
		return recorded[T](ctx, db, d, key, name)
	}
	v, err := f(ctx, tx)
	if err != nil {
		return zero, err
	}
	result, err := engine.EncodePayload("result of step ", name, v)
	if err != nil {
		return zero, err
	}
	if _, err := tx.ExecContext(ctx, d.finish, string(result), key); err != nil {
		return zero, fmt.Errorf("record the result of step %s: %w", name, err)
	}
	if err := tx.Commit(); err != nil {
		return zero, fmt.Errorf("commit step %s: %w", name, err) // if it was committed all the same, the next attempt finds that
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
