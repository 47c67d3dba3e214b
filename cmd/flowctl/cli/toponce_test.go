package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS4_TopPrintsTheFiguresOnce proves that flowctl top prints the throughput, the latencies of
// steps, the oldest ready runs and the use of limits without a terminal, and that the figures of a
// worker disappear when it stops.
func TestOPS4_TopPrintsTheFiguresOnce(t *testing.T) {
	s := open(t)
	var got struct {
		Counts admin.Counts  `json:"counts"`
		Rates  admin.Rates   `json:"rates"`
		Queues []admin.Queue `json:"queues"`
		Limits []admin.Pool  `json:"limits"`
	}
	read := func(ctx context.Context) {
		t.Helper()
		g := s.flowctl("top", "-o", "json")
		if err := json.Unmarshal([]byte(g.stdout), &got); err != nil || ctx.Err() != nil {
			t.Fatalf("top -o json: %v, %v: %s%s", err, ctx.Err(), g.stdout, g.stderr)
		}
	}
	s.work(func(ctx context.Context, c *workflow.Client) {
		if _, err := orders.Execute(ctx, c, "good"); err != nil {
			t.Fatal(err)
		}
		if _, err := orders.Start(ctx, c, "good", workflow.WithQueue(hostileQueue)); err != nil {
			t.Fatal(err)
		}
		for read(ctx); got.Rates.Workers == 0; { // the worker publishes its rates with the first heartbeat
			read(ctx)
		}
		if r := got.Rates; r.Workers != 1 || r.StartedPerSecond <= 0 || r.EndedPerSecond <= 0 || r.StepsPerSecond <= 0 || len(r.Steps) != 1 || r.Steps[0].Step != "shop.ship" || r.Steps[0].P50Ms <= 0 || r.Steps[0].P99Ms < r.Steps[0].P50Ms {
			t.Errorf("rates: got %+v, want those of a worker that has executed shop.ship", r)
		}
		s.wants(0, []string{"completed ", "last minute: started/s 0", "  ended/s 0", "  steps/s 0", ", workers 1\n", "STEP", "shop.ship", "P99", "OLDEST", "nobody!", `q\u001b[31m`}, nil, "top", "--once")
	})
	i := 0
	for i < len(got.Queues) && got.Queues[i].Queue != hostileQueue {
		i++
	}
	if i == len(got.Queues) || got.Queues[i].Ready != 1 || got.Queues[i].Oldest.IsZero() {
		t.Errorf("queues: got %+v, want the one with a ready run and the time since which it is ready", got.Queues)
	}
	read(t.Context())
	if got.Rates.Workers != 0 || len(got.Rates.Steps) != 0 {
		t.Errorf("rates after the end of the worker: got %+v, want none", got.Rates)
	}
	s.wants(2, nil, []string{"needs a terminal", "flowctl top --once"}, "top")
	s.wants(2, nil, nil, "top", "--once", "tag:orders") // the argument is not a valid filter
	if g := s.flowctl("top", "--once", "queue:nowhere"); !strings.Contains(g.stdout, "no runs") || strings.Contains(g.stdout, "QUEUE") {
		t.Errorf("top of a queue without runs: got %s", g.stdout)
	}
}
