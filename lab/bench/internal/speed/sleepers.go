package speed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/asleep"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// parking is the maximum number of runs that are started but not parked.
const parking = 8000

// sleepers is the workload of many runs that sleep until the same time. They are started and parked
// before that time. The measurement covers only their wake-up.
type sleepers struct {
	ids    []event.RunID
	first  int // index of the first measured run
	due    time.Time
	rate   float64 // number of runs that are started and parked per second
	memory uint64  // memory in use before the first start
	parked uint64  // memory in use when all runs are parked
	store  float64 // bytes in the store per parked run
}

// errEarly is returned if some runs woke before all were parked.
var errEarly = errors.New("runs have woken before all were parked: use a greater -wake")

// warm parks some runs to estimate the duration for all runs, and wakes them. Then it parks the
// runs of the round.
func (c *sleepers) warm(ctx context.Context, s *stage) error {
	some := max(s.size.runs/50, 1)
	var took func() time.Duration
	for first := 500 * time.Millisecond; ; first *= 4 {
		c.due = s.tap.Clock().Now().Add(first)
		took = stopwatch()
		err := c.park(ctx, s, some)
		if err == nil {
			break
		}
		if !errors.Is(err, errEarly) || first > 10*time.Second {
			return err
		}
		if err := c.awaitAll(ctx, s); err != nil {
			return err
		}
	}
	each := took() / time.Duration(some)
	if err := c.awaitAll(ctx, s); err != nil {
		return err
	}
	wake := s.o.wake
	if wake == 0 {
		wake = 3*each*time.Duration(s.size.runs) + 3*time.Second
	}
	for tries := 1; ; tries++ {
		err := c.prepare(ctx, s, wake)
		if !errors.Is(err, errEarly) || s.o.wake != 0 || tries == estimates {
			return err
		}
		// The machine has become slower than estimated. Wait for all runs to end, and retry.
		if err := c.awaitAll(ctx, s); err != nil {
			return err
		}
		wake *= 3
	}
}

// awaitAll waits until all started runs have ended.
func (c *sleepers) awaitAll(ctx context.Context, s *stage) error {
	return s.tap.await(ctx, "all sleepers to end", func(n counts) bool { return n.finished >= len(c.ids) })
}

// estimates is the maximum number of attempts to estimate the wake-up time.
const estimates = 3

// prepare parks the runs of the round and measures their memory.
func (c *sleepers) prepare(ctx context.Context, s *stage, wake time.Duration) error {
	before, err := s.bed.bytes(ctx)
	if err != nil {
		return err
	}
	c.memory = inUse()
	c.first = len(c.ids)
	took := stopwatch()
	c.due = s.tap.Clock().Now().Add(wake)
	if err := c.park(ctx, s, s.size.runs); err != nil {
		return err
	}
	c.rate, c.parked = float64(s.size.runs)/took().Seconds(), inUse()
	after, err := s.bed.bytes(ctx)
	c.store = float64(after-before) / float64(s.size.runs)
	return err
}

// park starts runs and waits until all of them are parked.
func (c *sleepers) park(ctx context.Context, s *stage, runs int) error {
	before := s.tap.now()
	wait := func(parked int) error {
		err := s.tap.await(ctx, "runs to be parked", func(n counts) bool {
			return n.parked >= before.parked+parked || n.finished > before.finished
		})
		if err == nil && s.tap.now().finished > before.finished {
			err = errEarly
		}
		return err
	}
	for started := 0; started < runs; {
		requests := make([]workflow.StartRequest[asleep.SleeperInput], min(runs-started, s.o.batch))
		for i := range requests {
			requests[i].Input = asleep.SleeperInput{Until: c.due, Data: payload(len(c.ids) + i)}
		}
		all, err := asleep.Sleeper.StartMany(ctx, s.client, requests)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Err != nil {
				return r.Err
			}
			c.ids = append(c.ids, r.Run.ID())
		}
		started += len(all)
		s.progress.sayf("sleepers: %d of %d started", started, runs)
		if err := wait(started - parking); err != nil {
			return err
		}
	}
	return wait(runs)
}

func (c *sleepers) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	wait := c.due.Sub(s.tap.Clock().Now())
	if wait < 0 {
		return tally{}, fmt.Errorf("%v ago: %w", -wait, errEarly)
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
	return s.check(ctx, c.ids, func(i int) want {
		if i < c.first {
			return want{result: payload(i), waits: -1} // The run may have started too late to sleep.
		}
		return want{result: payload(i), waits: 1}
	})
}
