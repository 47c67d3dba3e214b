package flowtest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// databaseStores contains functions that open the database stores. They are nil with the build tag
// inmemory.
type databaseStores struct {
	sqlite  func(t *testing.T, path string, c store.Clock) store.Store
	redis   func(t *testing.T, partitions int, c store.Clock) store.Store // partitions 0 means the default number
	cluster func(t *testing.T, partitions int, c store.Clock) store.Store
}

// kind is a kind of store on which the runtime must have the same behaviour.
type kind struct {
	name string
	open func(t *testing.T, c store.Clock) store.Store // c may be nil
}

// local returns the stores in memory with the given numbers of partitions, and SQLite.
func local(partitions ...int) (all []kind) {
	for _, n := range partitions {
		all = append(all, kind{inPartitions("memory", n), func(_ *testing.T, c store.Clock) store.Store {
			return memstore.NewWith(memstore.Config{Clock: c, Partitions: n})
		}})
	}
	if databases.sqlite != nil {
		all = append(all, kind{"sqlite", func(t *testing.T, c store.Clock) store.Store {
			return databases.sqlite(t, filepath.Join(t.TempDir(), "flows.db"), c)
		}})
	}
	return all
}

// remote returns the Redis store with the given number of partitions. The server is started for the
// test.
func remote(name string, partitions int) []kind {
	if databases.redis == nil {
		return nil
	}
	return []kind{{name, func(t *testing.T, c store.Clock) store.Store { return databases.redis(t, partitions, c) }}}
}

func inPartitions(name string, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s in %d partitions", name, n)
}

// on executes a test on stores that use the real clock.
func on(t *testing.T, test func(t *testing.T, w *World), kinds ...kind) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, NewWorld(t, k.open(t, nil), workflow.ClientConfig{})) })
	}
}

// onVirtual executes a test on stores with virtual time, which only the test advances. A store
// counts the purges of its worker.
func onVirtual(t *testing.T, test func(t *testing.T, w *World, p *Purges), kinds ...kind) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			clock := storetest.NewClock()
			p := &Purges{Store: k.open(t, clock), Virtual: clock}
			w := NewWorld(t, p, workflow.ClientConfig{})
			w.Clock = clock
			test(t, w, p)
		})
	}
}

// Stores contains the kinds of stores on which the runtime must have the same behaviour.
var Stores = stores()

func stores() map[string]func(t *testing.T) store.Store {
	all := map[string]func(t *testing.T) store.Store{}
	for _, k := range local(1, 3) {
		all[k.name] = func(t *testing.T) store.Store { return k.open(t, nil) }
	}
	return all
}

// OnEachStore executes a test on every kind of store in [Stores].
func OnEachStore(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	on(t, test, local(1, 3)...)
}

// OnEveryStore executes a test on the stores of OnEachStore and on Redis.
func OnEveryStore(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	on(t, test, append(local(1, 3), remote("redis", 0)...)...)
}

// OnPartitions executes a test on every kind of store, with n partitions if the kind supports
// several.
func OnPartitions(t *testing.T, n int, test func(t *testing.T, w *World)) {
	t.Helper()
	on(t, test, append(local(1, n), remote(inPartitions("redis", n), n)...)...)
}

// OnVirtualTime executes a test on the kinds of stores in [Stores], with virtual time.
func OnVirtualTime(t *testing.T, test func(t *testing.T, w *World, p *Purges)) {
	t.Helper()
	onVirtual(t, test, local(1, 3)...)
}

// OnVirtualTimeAndRedis executes a test on the stores of OnVirtualTime and on Redis with virtual
// time.
func OnVirtualTimeAndRedis(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	onVirtual(t, func(t *testing.T, w *World, _ *Purges) { test(t, w) }, append(local(1, 3), remote("redis", 0)...)...)
}

// OnVirtualTimeInPartitions executes a test on stores with virtual time and n partitions, except
// SQLite, which has one.
func OnVirtualTimeInPartitions(t *testing.T, n int, test func(t *testing.T, w *World)) {
	t.Helper()
	onVirtual(t, func(t *testing.T, w *World, _ *Purges) { test(t, w) }, append(local(n), remote(inPartitions("redis", n), n)...)...)
}

// OnVirtualTimeOnCluster executes a test on a Redis Cluster with n partitions and virtual time.
// TestMain must call redistest.Main.
func OnVirtualTimeOnCluster(t *testing.T, n int, test func(t *testing.T, w *World)) {
	t.Helper()
	cluster := kind{inPartitions("redis cluster", n), func(t *testing.T, c store.Clock) store.Store { return databases.cluster(t, n, c) }}
	onVirtual(t, func(t *testing.T, w *World, _ *Purges) { test(t, w) }, cluster)
}

// OnCluster executes a test on a Redis Cluster with n partitions. TestMain must call redistest.Main.
func OnCluster(t *testing.T, n int, test func(t *testing.T, w *World)) {
	t.Helper()
	if databases.cluster != nil {
		on(t, test, kind{inPartitions("redis cluster", n), func(t *testing.T, c store.Clock) store.Store { return databases.cluster(t, n, c) }})
	}
}
