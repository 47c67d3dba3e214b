package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestConformance(t *testing.T) {
	paths := map[store.Store]string{}
	open := func(t testing.TB, path string, clock store.Clock) store.Store {
		s, err := sqlitestore.OpenWith(path, sqlitestore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		paths[s] = path
		return s
	}
	storetest.Run(t, storetest.Config{
		Checks: 15, // make soak executes more checks
		Open: func(t testing.TB, clock store.Clock) store.Store {
			return open(t, filepath.Join(t.TempDir(), "runs.db"), clock)
		},
		Reopen: func(t testing.TB, s store.Store, clock store.Clock) store.Store {
			return open(t, paths[s], clock)
		},
	})
}
