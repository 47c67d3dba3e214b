package speed

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/marked"
	"github.com/flowgen/flowgen/runtime/event"
)

// long is the workload of one run with many steps. The cost of step 100 is the median over the
// tenth of all steps around it. The same applies to step 9,000.
type long struct {
	ids   []event.RunID
	steps []int // number of steps of each run
	gaps  [][]time.Duration
}

func (c *long) warm(ctx context.Context, s *stage) error {
	_, err := c.execute(ctx, s, min(500, s.size.steps))
	return err
}

func (c *long) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	var t tally
	for range runs {
		gaps, err := c.execute(ctx, s, s.size.steps)
		if err != nil {
			return t, err
		}
		c.gaps = append(c.gaps, gaps)
		t.runs, t.units, t.latencies = t.runs+1, t.units+s.size.steps, append(t.latencies, gaps...)
	}
	return t, nil
}

// execute executes one run and returns the times between its consecutive steps.
func (c *long) execute(ctx context.Context, s *stage, steps int) ([]time.Duration, error) {
	seen := make([]time.Time, steps)
	s.probe.Seen = func(n int) { seen[n] = time.Now() }
	start := time.Now()
	data, before := payload(len(c.ids)), s.tap.now().finished
	run, err := marked.Long.Start(ctx, s.client, marked.LongInput{Steps: steps, Data: data})
	if err != nil {
		return nil, err
	}
	got, err := end(ctx, s, run, before)
	if err != nil {
		return nil, err
	}
	if got != data {
		return nil, fmt.Errorf("run %s returned %q, want %q", run.ID(), got, data)
	}
	c.ids, c.steps = append(c.ids, run.ID()), append(c.steps, steps)
	gaps := make([]time.Duration, steps)
	for i, at := range seen {
		gaps[i] = at.Sub(start)
		start = at
	}
	return gaps, nil
}

func (c *long) verify(ctx context.Context, s *stage, r *Result) error {
	var early, late []time.Duration
	for _, gaps := range c.gaps {
		tenth := max(len(gaps)/10, 1)
		from := min(100, len(gaps)-tenth)
		early = append(early, gaps[from:from+tenth]...)
		late = append(late, gaps[len(gaps)-tenth:]...)
	}
	r.EarlyStepUs, r.LateStepUs = microseconds(quantile(early, 0.5)), microseconds(quantile(late, 0.5))
	return s.check(ctx, c.ids, func(i int) want { return want{result: payload(i), steps: c.steps[i]} })
}
