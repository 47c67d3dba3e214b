package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestCreate_CompactsLogsBehindABacklog proves that a long backlog contains only a bounded number
// of logs that are not compacted. Such a log takes 4 KiB until its run ends.
func TestCreate_CompactsLogsBehindABacklog(t *testing.T) {
	const runs, uncompacted = 400, 130
	server := redistest.Start(t)
	f := newFleet(t, openURL(t, with(server.URL(), "partitions=1&prefix=x")))
	requests := make([]workflow.StartRequest[string], runs)
	must(Fulfil.StartMany(f.ctx, f.client, requests))
	client, large := server.Client(t), 0
	logs := client.Keys(f.ctx, "{x:0}1l:*").Val()
	for _, key := range logs {
		if client.MemoryUsage(f.ctx, key).Val() > 3000 {
			large++
		}
	}
	if len(logs) != runs || large == 0 || large > uncompacted {
		t.Errorf("%d of %d logs are not compacted, want some, and at most %d of %d", large, len(logs), uncompacted, runs)
	}
	later := must(Sleep.Start(f.ctx, f.client, time.Hour, workflow.WithDelay(time.Hour)))
	_, id, _ := strings.Cut(string(later.ID()), "_")
	if n := client.MemoryUsage(f.ctx, "{x:0}1l:"+id).Val(); n > 3000 {
		t.Errorf("the log of a run that is to start later takes %d bytes, want it compacted", n)
	}
	if n := client.HLen(f.ctx, "{x:0}1k").Val(); n != 2 {
		t.Errorf("%d routes have names, want 2", n)
	}
	sound(t, f.store)
}
