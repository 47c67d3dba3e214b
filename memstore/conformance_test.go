package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore_KeepsTheContract(t *testing.T) {
	for name, partitions := range map[string]int{"one partition": 1, "five partitions": 5} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Config{
				Checks: 100 / partitions,
				Open: func(_ testing.TB, clock store.Clock) store.Store {
					return memstore.NewWith(memstore.Config{Clock: clock, Partitions: partitions})
				},
			})
		})
	}
}
