package redisstore_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// everyLayout adds larger numbers of partitions and more rounds of the random tests.
var everyLayout = flag.Bool("layouts", false, "play the contract on every number of partitions, and long tests of chance")

func TestMain(m *testing.M) { redistest.Main(m) }

// conforms runs the conformance suite on a server.
func conforms(t *testing.T, client redis.UniversalClient, partitions, checks int) {
	t.Helper()
	open := func(t testing.TB, clock store.Clock, prefix string) store.Store {
		s, err := redisstore.New(client, redisstore.Config{Clock: clock, Partitions: partitions, Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		if partitions > 1 { // histories mostly request one operation at a time, which are scripts of their own otherwise
			s.BatchEverything()
		}
		return s
	}
	storetest.Run(t, storetest.Config{
		Checks: checks,
		Open: func(t testing.TB, clock store.Clock) store.Store {
			return open(t, clock, redistest.Prefix())
		},
		Reopen: func(t testing.TB, s store.Store, clock store.Clock) store.Store {
			return open(t, clock, s.(*redisstore.Store).Prefix())
		},
	})
}

func TestStore_KeepsTheContract(t *testing.T) {
	layouts := map[int]int{1: 20, 5: 6} // partitions and rounds of random tests
	if *everyLayout {
		layouts[16] = 5
	}
	for partitions, checks := range layouts {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			t.Parallel() // subtests share a server but no keys, because each has its own prefix
			conforms(t, redistest.Shared(t).Client(t), partitions, checks)
		})
	}
}

// TestStore_KeepsTheContractOnOtherServers proves that the store passes the conformance suite on
// Redis and, if it is installed, on Valkey.
func TestStore_KeepsTheContractOnOtherServers(t *testing.T) {
	binaries := []string{redistest.Binary(t)}
	if valkey := redistest.Valkey(); valkey != "" {
		binaries = append(binaries, valkey)
	}
	for _, binary := range binaries[1:] {
		conforms(t, redistest.StartBinary(t, binary).Client(t), 2, 5)
	}
	t.Logf("tested on %v", binaries)
}

func TestStore_KeepsTheContractOnACluster(t *testing.T) {
	layouts := map[int]int{16: 3}
	if *everyLayout {
		layouts[1] = 10
	}
	for partitions, checks := range layouts {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			conforms(t, redistest.SharedCluster(t).Client(t), partitions, checks)
		})
	}
}
