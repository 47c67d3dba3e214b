package speed

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/sequence"
	"github.com/flowgen/flowgen/runtime/event"
)

// latency is the workload that executes one run at a time.
type latency struct{ ids []event.RunID }

func (c *latency) warm(ctx context.Context, s *stage) error {
	_, err := c.round(ctx, s, 0, min(100, s.size.runs))
	return err
}

func (c *latency) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	t, before := tally{units: runs * s.size.steps, runs: runs}, s.tap.now().finished
	for range runs {
		data := payload(len(c.ids))
		took := stopwatch()
		run, err := sequence.Chain.Start(ctx, s.client, sequence.ChainInput{Steps: s.size.steps, Data: data})
		if err != nil {
			return t, err
		}
		got, err := run.Result(ctx)
		if err != nil {
			return t, err
		}
		t.latencies = append(t.latencies, took())
		if got != data {
			return t, fmt.Errorf("run %s returned %q, want %q", run.ID(), got, data)
		}
		c.ids = append(c.ids, run.ID())
	}
	// The client may receive the last result before the worker receives the response to its last
	// commit.
	return t, s.tap.await(ctx, "the end of the last run", func(n counts) bool { return n.finished >= before+runs })
}

func (c *latency) verify(ctx context.Context, s *stage, _ *Result) error {
	return s.check(ctx, c.ids, func(i int) want { return want{result: payload(i), steps: s.size.steps} })
}

// stopwatch returns a function that returns the time that has passed since stopwatch was called.
func stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
