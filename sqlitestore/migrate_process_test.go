package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

func init() {
	roles["migrate"] = func(args []string) error {
		if err := store.Migrate(context.Background(), "sqlite:"+args[0]); err != nil {
			return err
		}
		fmt.Println("migrated")
		return nil
	}
	// It says when it has executed so many statements, and stops for ever.
	roles["migrate in part"] = func(args []string) error {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return sqlitestore.MigrateInPart(context.Background(), args[0], n, func() {
			fmt.Println("midway")
			select {}
		})
	}
}

// Whatever has been executed when the process is killed: the file is as it was, and to migrate again brings it up to date.
func TestMigrate_KilledAtEveryStatementCanBeRepeated(t *testing.T) {
	for n := range sqlitestore.StatementsOfMigration(3) {
		path := filepath.Join(t.TempDir(), "flows.db")
		runs := sqlitestore.Older(t, path, 3)
		c := startChild(t, "migrate in part", path, strconv.Itoa(n))
		if got := c.line(); got != "midway" {
			t.Fatalf("the process said %q", got)
		}
		c.kill()
		if _, err := sqlitestore.Open(path); !errors.As(err, new(*store.OldFormatError)) {
			t.Fatalf("open after a kill before statement %d: got %v, want an OldFormatError", n, err)
		}
		check(t, sqlitestore.Migrate(t.Context(), path))
		sqlitestore.Migrated(t, path, runs)
	}
}

func TestMigrate_TwoProcessesAtOnceBothSucceed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flows.db")
	runs := sqlitestore.Older(t, path, 3)
	processes := []*child{startChild(t, "migrate", path), startChild(t, "migrate", path)}
	for _, c := range processes {
		if got := c.line(); got != "migrated" {
			t.Errorf("a process said %q", got)
		}
		c.wait()
	}
	sqlitestore.Migrated(t, path, runs)
}
