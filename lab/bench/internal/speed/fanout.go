package speed

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/parallel"
	"github.com/flowgen/flowgen/runtime/event"
)

// fanout is the workload of one run with many parallel steps.
type fanout struct {
	ids   []event.RunID
	steps []int
}

func (c *fanout) warm(ctx context.Context, s *stage) error {
	_, err := c.execute(ctx, s, min(1000, s.size.steps))
	return err
}

func (c *fanout) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	var t tally
	for range runs {
		took, err := c.execute(ctx, s, s.size.steps)
		if err != nil {
			return t, err
		}
		t.runs, t.units, t.latencies = t.runs+1, t.units+s.size.steps, append(t.latencies, took)
	}
	return t, nil
}

func (c *fanout) execute(ctx context.Context, s *stage, steps int) (time.Duration, error) {
	before, took := s.tap.now().finished, stopwatch()
	run, err := parallel.Fanout.Start(ctx, s.client, parallel.FanoutInput{Steps: steps, Data: payload(0)})
	if err != nil {
		return 0, err
	}
	got, err := end(ctx, s, run, before)
	elapsed := took()
	if err == nil && got != steps {
		err = fmt.Errorf("%d steps of run %s returned their input, want %d", got, run.ID(), steps)
	}
	c.ids, c.steps = append(c.ids, run.ID()), append(c.steps, steps)
	return elapsed, err
}

func (c *fanout) verify(ctx context.Context, s *stage, _ *Result) error {
	return s.check(ctx, c.ids, func(i int) want { return want{result: c.steps[i], steps: c.steps[i]} })
}
