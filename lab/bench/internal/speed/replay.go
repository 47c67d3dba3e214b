package speed

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/inbox"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// replay is the workload of two runs with long logs on a worker that caches only one of them. The
// client wakes them alternately, so that each wake requires the worker to read and replay a log.
type replay struct {
	runs   [2]*workflow.Run[int]
	events [2]int // number of events in each log
	sums   [2]int // sum of the messages sent to each run
	sent   [2]int
}

func (c *replay) warm(ctx context.Context, s *stage) error {
	for i := range c.runs {
		run, err := inbox.History.Start(ctx, s.client, inbox.HistoryInput{Steps: s.size.steps, Data: payload(0)})
		if err != nil {
			return err
		}
		if err := s.tap.await(ctx, "a long log", func(n counts) bool { return n.parked > i }); err != nil {
			return err
		}
		c.runs[i] = run
	}
	for n := range 2 { // Waking the second run evicts the first one from the cache.
		if _, _, err := c.wake(ctx, s, n); err != nil {
			return err
		}
	}
	return nil
}

// tries is the maximum number of attempts to wake a run until it is not cached. The worker evicts a
// run only after the commit that parks the other run.
const tries = 100

// wake sends a message to a run. It measures the time until the commit that records the receipt,
// and then waits until the worker releases the run. read is the number of logs that were read. It
// is 1, or 0 if the run was cached.
func (c *replay) wake(ctx context.Context, s *stage, number int) (read int, d time.Duration, err error) {
	i := number % 2
	before := s.tap.now()
	note := inbox.Note{N: number + 1, Data: payload(number)}
	took := stopwatch()
	if err := inbox.Notes.Send(ctx, c.runs[i], note); err != nil {
		return 0, 0, err
	}
	if err := s.tap.await(ctx, "the message to be taken", func(n counts) bool { return n.consumed > before.consumed }); err != nil {
		return 0, 0, err
	}
	d = took()
	if err := s.tap.await(ctx, "the run to be given back", func(n counts) bool { return n.left > before.left }); err != nil {
		return 0, 0, err
	}
	c.sums[i] += note.N
	c.sent[i]++
	return s.tap.now().reread - before.reread, d, nil
}

func (c *replay) round(ctx context.Context, s *stage, number, runs int) (tally, error) {
	var t tally
	for n := 0; t.runs < runs; n++ {
		if n >= runs+tries {
			return t, fmt.Errorf("%d logs were read, want %d: nothing was replayed", t.runs, runs)
		}
		events, err := c.length(ctx, s, (number+n)%2)
		if err != nil {
			return t, err
		}
		read, d, err := c.wake(ctx, s, number+n)
		if err != nil {
			return t, err
		}
		if read == 0 {
			continue // The run was in the cache, so there was no replay.
		}
		t.units, t.runs, t.latencies, t.elapsed = t.units+events, t.runs+1, append(t.latencies, d), t.elapsed+d
	}
	return t, nil
}

// length returns the number of events in a log.
func (c *replay) length(ctx context.Context, s *stage, i int) (int, error) {
	loaded, err := s.bed.store().Load(ctx, []store.Load{{Run: c.runs[i].ID(), Limit: -1}})
	if err != nil {
		return 0, err
	}
	c.events[i] = int(loaded[0].Record.Seq)
	return c.events[i], loaded[0].Err
}

// verify ends both runs and checks their sums.
func (c *replay) verify(ctx context.Context, s *stage, r *Result) error {
	r.EventsPerLog = float64(r.Steps) / float64(r.Runs)
	var ids []event.RunID
	for i, run := range c.runs {
		if err := inbox.Notes.Send(ctx, run, inbox.Note{N: -1}); err != nil {
			return err
		}
		got, err := run.Result(ctx)
		if err != nil {
			return err
		}
		if got != c.sums[i] {
			return fmt.Errorf("run %s adds up to %d, want %d", run.ID(), got, c.sums[i])
		}
		ids = append(ids, run.ID())
	}
	return s.check(ctx, ids, func(i int) want { return want{result: c.sums[i], steps: s.size.steps, waits: c.sent[i] + 1} })
}
