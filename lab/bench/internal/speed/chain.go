package speed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/sequence"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// chain is the workload of many short runs. The client starts them in batches and waits while too
// many are active.
type chain struct{ ids []event.RunID }

func (c *chain) warm(ctx context.Context, s *stage) error {
	s.tap.time()
	_, err := c.round(ctx, s, 0, min(1000, s.size.runs))
	return err
}

func (c *chain) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	before := s.tap.now().finished
	for started := 0; started < runs; {
		n := min(s.o.batch, runs-started)
		enough := before + started + n - s.o.inflight
		if err := s.tap.await(ctx, "room for more runs", func(c counts) bool { return c.finished >= enough }); err != nil {
			return tally{}, err
		}
		if err := c.start(ctx, s, n); err != nil {
			return tally{}, err
		}
		started += n
	}
	err := s.tap.await(ctx, "the end of all runs", func(c counts) bool { return c.finished >= before+runs })
	lives, _ := s.tap.ended()
	return tally{units: runs * s.size.steps, runs: runs, latencies: lives}, err
}

// start starts n runs with one call.
func (c *chain) start(ctx context.Context, s *stage, n int) error {
	requests := make([]workflow.StartRequest[sequence.ChainInput], n)
	for i := range requests {
		requests[i].Input = sequence.ChainInput{Steps: s.size.steps, Data: s.data(len(c.ids) + i)}
	}
	started, err := sequence.Chain.StartMany(ctx, s.client, requests)
	if err != nil {
		return err
	}
	for _, r := range started {
		if r.Err != nil {
			return r.Err
		}
		c.ids = append(c.ids, r.Run.ID())
	}
	return nil
}

// data returns text with the number n. It has -payload bytes. What is added to payload has no repetitions,
// so that a codec does not compress it.
func (s *stage) data(n int) string {
	begin := payload(n)
	if s.o.payload <= len(begin) {
		return begin[:s.o.payload]
	}
	text := append(make([]byte, 0, s.o.payload+20), begin...)
	for random := rand.New(rand.NewPCG(uint64(n), 0)); len(text) < s.o.payload; {
		text = strconv.AppendUint(text, random.Uint64(), 16)
	}
	return string(text[:s.o.payload])
}

func (c *chain) verify(ctx context.Context, s *stage, _ *Result) error {
	return s.check(ctx, c.ids, func(i int) want { return want{result: s.data(i), steps: s.size.steps} })
}

// starts is like chain, but without a worker that executes the runs.
type starts struct{ chain }

func (c *starts) warm(ctx context.Context, s *stage) error {
	_, err := c.round(ctx, s, 0, min(1000, s.size.runs))
	return err
}

func (c *starts) round(ctx context.Context, s *stage, _, runs int) (tally, error) {
	t := tally{units: runs, runs: runs, appends: runs}
	for left := runs; left > 0; left -= s.o.batch {
		took := stopwatch()
		if err := c.start(ctx, s, min(s.o.batch, left)); err != nil {
			return t, err
		}
		t.latencies = append(t.latencies, took())
	}
	return t, nil
}

// verify checks that all runs exist with the correct input.
func (c *starts) verify(ctx context.Context, s *stage, _ *Result) error {
	for from := 0; from < len(c.ids); from += checkBatch {
		part := c.ids[from:min(from+checkBatch, len(c.ids))]
		loads := make([]store.Load, len(part))
		for i, id := range part {
			loads[i] = store.Load{Run: id, Limit: -1}
		}
		loaded, err := s.bed.store().Load(ctx, loads)
		if err != nil {
			return err
		}
		for i, l := range loaded {
			if l.Err != nil || l.Record.QueueState != store.StateReady || l.Record.Seq != 1 {
				return fmt.Errorf("run %s is %s and has %d events, %w, want a ready one of one event", part[i], l.Record.QueueState, l.Record.Seq, l.Err)
			}
		}
	}
	return nil
}
