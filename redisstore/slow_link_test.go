package redisstore_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC10_ABatchThatIsTooLargeForTheLinkPassesInParts proves that a worker on a slow link can
// load a batch of runs. Within the timeout of an answer, the link can transfer more than one run
// but much less than the batch.
func TestREC10_ABatchThatIsTooLargeForTheLinkPassesInParts(t *testing.T) {
	t.Parallel()
	const (
		runs = 12
		size = 400 << 10
		rate = 3 << 19 // bytes per second
	)
	server, prefix := redistest.Start(t), redistest.Prefix()
	f := newFleet(t, openURL(t, with(server.URL(), "partitions=1&prefix="+prefix)))
	big := strings.Repeat("x", size)
	var started []*workflow.Run[string]
	for range runs {
		started = append(started, must(Fulfil.Start(f.ctx, f.client, big)))
	}
	proxy := redistest.NewProxy(t, server.Addr)
	var link sync.Mutex
	proxy.Do(func(_ bool, piece []byte) redistest.Verdict {
		link.Lock()
		defer link.Unlock()
		time.Sleep(time.Duration(len(piece)) * time.Second / rate)
		return redistest.Pass
	})
	far, err := redisstore.New(closing(t, redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, ReadTimeout: 2 * time.Second})),
		redisstore.Config{Prefix: prefix, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	f.work(far, worker.Config{Heartbeat: 5 * time.Second, ClaimExpiry: time.Hour}, done)
	for _, run := range started {
		if got := result(f, run); got != big+" shipped" {
			t.Errorf("got %d bytes", len(got))
		}
	}
}
