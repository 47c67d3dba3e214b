package worker_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// onEveryStore is onEachStore, and Redis.
func onEveryStore(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	onEachStore(t, test)
	t.Run("redis", func(t *testing.T) {
		st, err := redisstore.Open(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		test(t, newWorld(t, st, workflow.ClientConfig{}))
	})
}
