//go:build inmemory

package flowtest

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
)

var databases databaseStores

// OpenSQLite skips the test, because its program does not link the store.
func OpenSQLite(t *testing.T, _ string) store.Store {
	t.Helper()
	t.Skip("the test needs SQLite, which the tag inmemory excludes")
	return nil
}
