// Package databases tests package sqlstep with SQLite and PostgreSQL. It is a separate module,
// because it depends on their drivers.
package databases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/step/sqlstep"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// database is the database on which the steps have their effects.
type database struct{ Driver, DSN string }

func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.Driver, d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newSQLite(t *testing.T) database {
	return database{"sqlite", "file:" + filepath.Join(t.TempDir(), "user.db") + "?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"}
}

// onEach runs a test with every kind of database.
func onEach(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("SQLite", func(t *testing.T) { test(t, newSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, database{"pgx", startPostgreSQL(t)}) })
}

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		victim()
		return
	}
	os.Exit(m.Run())
}

// inStep returns the context of an attempt of a step.
func inStep(ctx context.Context, key string) context.Context {
	return attempt.With(ctx, &attempt.Attempt{Run: "wrun_01JGFJJZ00000000000000000A", Step: "bank.transfer", Key: key, Number: 1})
}

func effects(t *testing.T, db *sql.DB) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT what FROM effects")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var what string
		if err := rows.Scan(&what); err != nil {
			t.Fatal(err)
		}
		counts[what]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}

func effect(what string) func(context.Context, *sql.Tx) (receipt, error) {
	return func(ctx context.Context, tx *sql.Tx) (receipt, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (what) VALUES ('"+what+"')")
		return receipt{what, []int{1, 2}}, err
	}
}

type receipt struct {
	What string `json:"what"`
	List []int  `json:"list"`
}

func withTable(t *testing.T, d database) *sql.DB {
	t.Helper()
	db := d.open(t)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (what text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestSTEP12_ARepeatedStepHasItsEffectOnceAndTheSameResult(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		db.SetMaxOpenConns(1) // a statement that needed a second connection would never return
		for range 3 {
			got, err := sqlstep.Do(inStep(t.Context(), "a"), db, effect("a"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(receipt{"a", []int{1, 2}}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		}
		if _, err := sqlstep.Do(inStep(t.Context(), "b"), db, effect("b")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, effects(t, db)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
	})
}

func TestSTEP12_WhatFailsLeavesNothingAndIsDoneAgain(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		declined := errors.New("declined")
		_, err := sqlstep.Do(inStep(t.Context(), "a"), db, func(ctx context.Context, tx *sql.Tx) (receipt, error) {
			if _, err := effect("a")(ctx, tx); err != nil {
				return receipt{}, err
			}
			return receipt{}, declined
		})
		if err != declined { // the error must be unchanged and not wrapped
			t.Errorf("got %v", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not go on")
				}
			}()
			_, _ = sqlstep.Do(inStep(t.Context(), "a"), db, func(ctx context.Context, tx *sql.Tx) (receipt, error) {
				_, _ = effect("a")(ctx, tx)
				panic("in the middle")
			})
		}()
		var payload *workflow.PayloadError
		if _, err := sqlstep.Do(inStep(t.Context(), "a"), db, func(ctx context.Context, tx *sql.Tx) (func(), error) {
			_, err := effect("a")(ctx, tx)
			return func() {}, err
		}); !errors.As(err, &payload) {
			t.Errorf("got %v", err)
		}
		if len(effects(t, db)) != 0 {
			t.Errorf("effects: %v", effects(t, db))
		}
		if _, err := sqlstep.Do(inStep(t.Context(), "a"), db, effect("a")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{"a": 1}, effects(t, db)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
	})
}

// TestSTEP12_AttemptsAtOnceHaveOneEffect proves that concurrent attempts of a step have one effect,
// for example an abandoned attempt and the next one. The first of these calls creates the table.
func TestSTEP12_AttemptsAtOnceHaveOneEffect(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		var all sync.WaitGroup
		for n := range 40 {
			own := d.open(t)
			all.Go(func() {
				what := fmt.Sprint(n % 10)
				got, err := sqlstep.Do(inStep(t.Context(), what), own, effect(what))
				if err != nil || got.What != what {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		all.Wait()
		for what, n := range effects(t, db) {
			if n != 1 {
				t.Errorf("effect %s happened %d times", what, n)
			}
		}
		if n := len(effects(t, db)); n != 10 {
			t.Errorf("%d effects, want 10", n)
		}
	})
}

func TestSTEP12_AFunctionThatCommitsItselfIsAnErrorAndNotRepeated(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		f := func(ctx context.Context, tx *sql.Tx) (receipt, error) {
			r, err := effect("a")(ctx, tx)
			return r, errors.Join(err, tx.Commit())
		}
		if _, err := sqlstep.Do(inStep(t.Context(), "a"), db, f); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("got %v", err)
		}
		var fatal *attempt.FatalError
		if _, err := sqlstep.Do(inStep(t.Context(), "a"), db, f); !errors.As(err, &fatal) || !strings.Contains(err.Error(), "may not commit") {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff(map[string]int{"a": 1}, effects(t, db)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
	})
}

func TestSTEP12_ASecondTransactionInAnAttemptIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		var fatal *attempt.FatalError
		refused := func(when string, err error) {
			t.Helper()
			if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "calls sqlstep.Do again") {
				t.Errorf("%s: got error %v, want a fatal one", when, err)
			}
		}
		first := inStep(t.Context(), "k")
		if _, err := sqlstep.Do(first, db, func(ctx context.Context, tx *sql.Tx) (receipt, error) {
			_, err := sqlstep.Do(ctx, db, effect("inner"))
			refused("under way", err)
			return receipt{}, errors.New("declined")
		}); err == nil {
			t.Error("the error of the function was lost")
		}
		if _, err := sqlstep.Do(first, db, effect("a")); err != nil { // the calls that were rolled back have no effect
			t.Errorf("after an error: got error %v, want none", err)
		}
		_, err := sqlstep.Do(first, db, effect("b"))
		refused("after a commit", err)

		next := inStep(t.Context(), "k")
		if got, err := sqlstep.Do(next, db, effect("a")); err != nil || got.What != "a" {
			t.Errorf("next attempt: got %+v, %v; want the recorded result", got, err)
		}
		_, err = sqlstep.Do(next, db, effect("b"))
		refused("after a recorded result", err)
		if diff := cmp.Diff(map[string]int{"a": 1}, effects(t, db)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
	})
}

func TestForget_RemovesOldRecords(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		if _, err := sqlstep.Do(inStep(t.Context(), "a"), db, effect("a")); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			age  time.Duration
			want int64
		}{{time.Hour, 0}, {-time.Hour, 1}, {-time.Hour, 0}} {
			if n, err := sqlstep.Forget(t.Context(), db, tt.age); n != tt.want || err != nil {
				t.Errorf("older than %v: forgot %d, %v; want %d", tt.age, n, err, tt.want)
			}
		}
	})
}

func TestDo_PanicsOutsideOfAStep(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "outside of a step") {
			t.Errorf("panicked with %q", text)
		}
	}()
	_, _ = sqlstep.Do(t.Context(), nil, effect("a"))
}
