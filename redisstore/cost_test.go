package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// perRun returns MEMORY USAGE of all keys, by their kind, and the sum per run.
func perRun(t testing.TB, client *redis.Client, runs int) (sum int64, kinds map[string]int64) {
	t.Helper()
	ctx := context.Background()
	kinds = map[string]int64{}
	keys := client.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		n, err := client.MemoryUsage(ctx, keys.Val(), 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, kind, _ := strings.Cut(keys.Val(), "}:")
		kind, _, _ = strings.Cut(kind, ":")
		kinds[kind] += n
		sum += n
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	for kind, n := range kinds {
		kinds[kind] = n / int64(runs)
	}
	return sum / int64(runs), kinds
}

func TestSTORE5_CompletedAndSleepingRunsTakeFewBytes(t *testing.T) {
	const runs = 1000
	for name, tt := range map[string]struct {
		start func(f *fleet, n int) event.RunID
		ends  bool
		bound int64
	}{
		"completed three-step run": {func(f *fleet, n int) event.RunID { return start(f, Fulfil, fmt.Sprintf("order-%d", n)) }, true, 2000},
		"sleeping run":             {func(f *fleet, _ int) event.RunID { return start(f, Sleep, 24*time.Hour) }, false, 1700},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			// One partition: its indexes are as large as those of a store with
			// sixteen times as many runs.
			f := newFleet(t, openURL(t, with(server.URL(), "partitions=1")))
			stop := f.work(f.store, worker.Config{}, done)
			started := make([]event.RunID, runs)
			for n := range started {
				started[n] = tt.start(f, n)
			}
			for _, run := range started {
				for {
					info, err := f.client.Run(run).Info(f.ctx)
					if err != nil {
						t.Fatal(err)
					}
					if tt.ends && info.Status == workflow.StatusCompleted || !tt.ends && info.Status == workflow.StatusSleeping {
						break
					}
				}
			}
			stop()
			per, kinds := perRun(t, server.Client(t), runs)
			t.Logf("%s: %d bytes: %v", name, per, kinds)
			if per > tt.bound {
				t.Errorf("a %s takes %d bytes, want at most %d", name, per, tt.bound)
			}
		})
	}
}

// start starts a run and returns its id.
func start[In, Out any](f *fleet, d workflow.Definition[In, Out], in In) event.RunID {
	f.t.Helper()
	run, err := d.Start(f.ctx, f.client, in)
	if err != nil {
		f.t.Fatal(err)
	}
	return run.ID()
}
