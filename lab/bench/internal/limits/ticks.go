package limits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// lateness records the delays of steps that were due at a certain time.
type lateness struct {
	clock func() time.Time // the clock of the store

	mu    sync.Mutex
	late  []time.Duration
	seen  map[string]int // number of steps by name
	until int
	done  chan struct{} // closed when the expected number of steps has been recorded
}

func newLateness(c *crew, until int) *lateness {
	l := &lateness{clock: c.store.Clock().Now, seen: map[string]int{}, until: until, done: make(chan struct{})}
	c.probe.Struck = l.add
	return l
}

// add records a step that was due at the given time and begins now.
func (l *lateness) add(name string, due time.Time) {
	late := l.clock().Sub(due)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[name+due.Format(time.RFC3339Nano)]++
	if len(l.late) == l.until {
		return
	}
	if l.late = append(l.late, late); len(l.late) == l.until {
		close(l.done)
	}
}

// times waits for the expected number of steps and returns their delays.
func (l *lateness) times(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-l.done:
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, fmt.Errorf("wait for %d steps that are due: %w, there are %d", l.until, context.Cause(ctx), len(l.late))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, times := range l.seen {
		if times > 1 {
			return nil, fmt.Errorf("%s was started %d times", what, times)
		}
	}
	return l.late, nil
}

// ticks measures the delays of schedules, and of runs that were started for a due time.
func ticks(ctx context.Context, s *session) ([]Figure, error) {
	late, err := onTime(ctx, s, s.ticks, func(ctx context.Context, c *crew) error {
		for i := range s.clocks {
			// The intervals differ, so that the ticks of the schedules do not coincide.
			plan := schedule.Spec{When: "every " + (time.Second + time.Duration(i)*time.Millisecond).String(), Overlap: schedule.Allow}
			name := fmt.Sprintf("clock-%d", i)
			if err := flows.Chime.Schedule(ctx, c.client, name, plan, name); err != nil {
				return err
			}
		}
		s.sayf("ticks: %d ticks of %d schedules", s.ticks, s.clocks)
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := max(s.ticks/5, 1)
	free, err := onTime(ctx, s, n, func(ctx context.Context, c *crew) error {
		s.sayf("ticks: %d runs that are started for a time", n)
		first := c.store.Clock().Now().Add(2*time.Second + time.Duration(n)*100*time.Microsecond)
		return start(ctx, c, flows.Delayed, n, func(i int) (flows.DelayedInput, []workflow.StartOption) {
			at := first.Add(time.Duration(i) * time.Second / time.Duration(s.clocks)).Truncate(time.Millisecond)
			return flows.DelayedInput{Name: fmt.Sprint(i), Due: at}, []workflow.StartOption{workflow.WithStartAt(at)}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("runs that are started for a time: %w", err)
	}
	figure := func(what string, q float64) Figure {
		return Figure{What: what, Value: quantile(late, q), Unit: "ms", Beside: []Number{{"a run with WithStartAt", quantile(free, q), "ms"}}}
	}
	p50, p99 := figure("how late a step of a run of a tick begins, p50", 0.5), figure("the same, p99", 0.99)
	p99.budget = atMost(50, "ms")
	p99.Beside = append(p99.Beside, Number{"ticks", float64(len(late)), ""}, Number{"schedules", float64(s.clocks), ""})
	return []Figure{p50, p99}, nil
}

// onTime returns the delays of the first n steps of the runs that the function begin starts.
func onTime(ctx context.Context, s *session, n int, begin func(context.Context, *crew) error) (_ []time.Duration, err error) {
	c, ctx, err := s.settle(ctx, s.newPlace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	l := newLateness(c, n)
	if err := c.hire(ctx, s.workers, worker.Config{}); err != nil {
		return nil, err
	}
	if err := begin(ctx, c); err != nil {
		return nil, err
	}
	return l.times(ctx)
}

// starts measures the time from the start of a run to its first step. It starts one run at a time.
func starts(ctx context.Context, s *session) (all []time.Duration, err error) {
	c, ctx, err := s.settle(ctx, s.newPlace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var mu sync.Mutex
	c.probe.Struck = func(_ string, due time.Time) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, time.Since(due))
	}
	if err := c.hire(ctx, handoffWorkers, worker.Config{}); err != nil {
		return nil, err
	}
	for range s.steps {
		if _, err := flows.Delayed.Execute(ctx, c.client, flows.DelayedInput{Due: time.Now()}); err != nil {
			return nil, err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return all, nil
}
