package speed

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/family"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// children is the workload of many runs that start children and wait for them.
type children struct{ ids []event.RunID }

func (c *children) warm(ctx context.Context, s *stage) error {
	s.tap.time()
	_, err := c.round(ctx, s, 0, min(20, s.size.runs))
	return err
}

// round starts runs in batches and waits for them and their children.
func (c *children) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	before := s.tap.now().finished
	for left := runs; left > 0; left -= s.o.batch {
		if err := c.start(ctx, s, min(left, s.o.batch)); err != nil {
			return tally{}, err
		}
	}
	all := before + runs*(1+s.size.steps)
	err := s.tap.await(ctx, "the end of all runs and their children", func(n counts) bool { return n.finished >= all })
	lives, _ := s.tap.ended()
	return tally{units: runs * s.size.steps, runs: runs, latencies: lives}, err
}

func (c *children) start(ctx context.Context, s *stage, n int) error {
	requests := make([]workflow.StartRequest[family.ParentInput], n)
	for i := range requests {
		requests[i].Input = family.ParentInput{Children: s.size.steps, Data: payload(len(c.ids) + i)}
	}
	started, err := family.Parent.StartMany(ctx, s.client, requests)
	if err != nil {
		return fmt.Errorf("start %d runs: %w", n, err)
	}
	for _, r := range started {
		if r.Err != nil {
			return r.Err
		}
		c.ids = append(c.ids, r.Run.ID())
	}
	return nil
}

func (c *children) verify(ctx context.Context, s *stage, _ *Result) error {
	return s.check(ctx, c.ids, func(int) want { return want{result: s.size.steps, children: s.size.steps} })
}
