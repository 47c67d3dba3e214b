package speed

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/bench/internal/speed/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sleepers is many runs that sleep until the same moment. They are started and
// parked before that; what is measured is how they wake.
type sleepers struct {
	ids    []event.RunID
	due    time.Time
	rate   float64 // runs started and parked per second
	memory uint64  // in use before the first start
	parked uint64  // in use when all are parked
	store  float64 // bytes per parked run
}

// warm parks some runs to learn how long all of them will take, wakes them, and
// then parks those of the round.
func (c *sleepers) warm(ctx context.Context, s *stage) error {
	some := max(s.size.runs/50, 1)
	c.due = s.tap.Clock().Now().Add(time.Second)
	took, err := c.park(ctx, s, some)
	if err != nil {
		return err
	}
	if err := s.tap.await(ctx, "the sleepers of the warm-up", func(n counts) bool { return n.finished >= some }); err != nil {
		return err
	}
	wake := s.o.wake
	if wake == 0 {
		wake = time.Duration(2.5*float64(took)*float64(s.size.runs)/float64(some)) + time.Second
	}
	before, err := s.bed.bytes(ctx)
	if err != nil {
		return err
	}
	c.memory = inUse()
	c.due = s.tap.Clock().Now().Add(wake)
	if took, err = c.park(ctx, s, s.size.runs); err != nil {
		return err
	}
	c.rate, c.parked = float64(s.size.runs)/took.Seconds(), inUse()
	after, err := s.bed.bytes(ctx)
	if err != nil {
		return err
	}
	c.store = float64(after-before) / float64(s.size.runs)
	if late := s.tap.Clock().Now().Sub(c.due); late > 0 {
		return fmt.Errorf("%d runs were parked and looked at %v after they were to wake: use a -wake of more than %v", s.size.runs, late, wake)
	}
	return nil
}

// park starts runs and waits until all are parked.
func (c *sleepers) park(ctx context.Context, s *stage, runs int) (time.Duration, error) {
	took := stopwatch()
	before := s.tap.now().parked
	for left := runs; left > 0; left -= s.o.batch {
		requests := make([]workflow.StartRequest[flows.SleeperInput], min(left, s.o.batch))
		for i := range requests {
			requests[i].Input = flows.SleeperInput{Until: c.due, Data: payload(len(c.ids) + i)}
		}
		started, err := flows.Sleeper.StartMany(ctx, s.client, requests)
		if err != nil {
			return 0, err
		}
		for _, r := range started {
			if r.Err != nil {
				return 0, r.Err
			}
			c.ids = append(c.ids, r.Run.ID())
		}
		done := runs - left
		s.progress.say("sleepers: %d of %d started", done, runs)
		room := before + done - 4*s.o.inflight
		if err := s.tap.await(ctx, "runs to be parked", func(n counts) bool { return n.parked >= room }); err != nil {
			return 0, err
		}
	}
	err := s.tap.await(ctx, "all runs to be parked", func(n counts) bool { return n.parked >= before+runs })
	return took(), err
}

func (c *sleepers) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	wait := c.due.Sub(s.tap.Clock().Now())
	if wait < 0 {
		return tally{}, fmt.Errorf("runs have woken %v before they were looked at: use a greater -wake", -wait)
	}
	due := time.Now().Add(wait)
	if err := s.tap.await(ctx, "all runs to wake", func(n counts) bool { return n.finished >= runs }); err != nil {
		return tally{}, err
	}
	t := tally{units: runs, runs: runs, elapsed: time.Since(due)}
	_, ends := s.tap.ended()
	for _, end := range ends {
		t.latencies = append(t.latencies, end.Sub(due))
	}
	return t, nil
}

func (c *sleepers) verify(ctx context.Context, s *stage, r *Result) error {
	r.ParkedPerSecond, r.BytesPerRun = c.rate, c.store
	r.ParkedMemoryMB = float64(c.parked) / 1e6
	r.ParkedBytesPerRun = max(0, float64(c.parked)-float64(c.memory)) / float64(s.size.runs)
	return s.check(ctx, c.ids, func(i int) want { return want{result: payload(i), waits: 1} })
}
