package cli_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const hostileQueue = "q\x1b[31m\u202e"

func TestOPS1_QueuesAreShownWithWhoServesThem(t *testing.T) {
	s := open(t)
	s.work(func(ctx context.Context, c *workflow.Client) {
		run, err := orders.Start(ctx, c, "good") // After the run has ended, the worker is known to have a session.
		if err == nil {
			_, err = run.Result(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := orders.Start(ctx, c, "good", workflow.WithQueue(hostileQueue)); err != nil {
			t.Fatal(err)
		}
		s.wants(0, []string{"WORKER", "live", "default"}, nil, "workers")
		s.wants(0, []string{"default/shop.order"}, nil, "workers", "-o", "wide", "--queue", "default")
		var page admin.WorkerPage
		g := s.flowctl("workers", "--json")
		if err := json.Unmarshal([]byte(g.stdout), &page); err != nil || len(page.Workers) != 1 || !page.Workers[0].Live ||
			!slices.Contains(page.Workers[0].Serves, admin.Served{Queue: "default", Workflow: "shop.order"}) {
			t.Errorf("workers: %v\n%s", err, g.stdout)
		}
		s.wants(0, []string{"1 worker\n"}, nil, "queues", "--queue", "default")
	})
	var page admin.QueuePage
	g := s.flowctl("queues", "--json") // The worker has stopped.
	if err := json.Unmarshal([]byte(g.stdout), &page); err != nil || len(page.Queues) != 2 || page.Queues[1].Queue != hostileQueue || page.Queues[1].Ready != 1 || page.Queues[0].Parked != 2 {
		t.Errorf("queues: %v\n%s", err, g.stdout)
	}
	s.wants(0, []string{"QUEUE", "LIMITS", `q\u001b[31m\u202e`, "nobody! start a worker that registers shop.order"}, nil, "queues")
	s.wants(0, []string{"default/shop.order\n"}, nil, "queues", "--queue", "default", "-o", "name")
	s.wants(0, []string{`{"queue":"default","workflow":"shop.order","ready":0`}, nil, "queues", "-o", "jsonl", "--limit", "1")
	s.wants(0, []string{"default"}, []string{"more results: --cursor "}, "queues", "--limit", "1")
	s.wants(0, []string{"default\n", `q\u001b[31m\u202e` + "\n"}, nil, "__complete", "queues", "--queue", "")
	s.wants(0, []string{"default\n"}, nil, "__complete", "workers", "--queue", "")
	for _, args := range [][]string{{"queues"}, {"workers"}, {"queues", "-o", "name"}, {"__complete", "queues", "--queue", ""}} {
		if g := s.flowctl(args...); strings.ContainsAny(g.stdout+g.stderr, "\x1b\u202e") {
			t.Errorf("%v: what a terminal obeys gets through:\n%q", args, g.stdout)
		}
	}
	s.wants(2, nil, []string{"a page of -1 queues"}, "queues", "--limit", "-1")
	s.wants(2, nil, []string{"cursor"}, "workers", "--cursor", "no/cursor")
}
