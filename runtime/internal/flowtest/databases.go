//go:build !inmemory

package flowtest

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// Programs that are built with the tag inmemory do not link the database stores. With the race
// detector, all linked packages are compiled anew. For SQLite and the Redis client this takes
// longer than the tests themselves.
var databases = databaseStores{sqlite: onFile, redis: onServer, cluster: onCluster}

// OpenSQLite opens a store in the file at path.
func OpenSQLite(t *testing.T, path string) store.Store {
	t.Helper()
	return onFile(t, path, nil)
}

func onFile(t *testing.T, path string, c store.Clock) store.Store {
	t.Helper()
	st, err := sqlitestore.OpenWith(path, sqlitestore.Config{Clock: c})
	Order(t, err)
	return st
}

func onServer(t *testing.T, partitions int, c store.Clock) store.Store {
	t.Helper()
	st, err := redisstore.New(redistest.Start(t).Client(t), redisstore.Config{Partitions: partitions, Clock: c})
	Order(t, err)
	return st
}

// onCluster opens a store on the cluster that all tests of a binary share. TestMain must call
// redistest.Main.
func onCluster(t *testing.T, partitions int, c store.Clock) store.Store {
	t.Helper()
	st, err := redisstore.New(redistest.SharedCluster(t).Client(t), redisstore.Config{Prefix: redistest.Prefix(), Partitions: partitions, Clock: c})
	Order(t, err)
	return st
}
