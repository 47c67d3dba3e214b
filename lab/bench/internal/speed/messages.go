package speed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/inbox"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// senders is the number of concurrent send calls.
const senders = 16

// messages is the workload of many waiting runs that receive messages. Each run is sent one
// message, and the next one after all runs have received theirs. Each run receives as many messages
// as the workload has steps.
type messages struct{ ids []event.RunID }

// warm starts the runs and sends each of them its first message.
func (c *messages) warm(ctx context.Context, s *stage) error {
	requests := make([]workflow.StartRequest[int], s.size.runs)
	for i := range requests {
		requests[i].Input = s.size.steps + 1
	}
	started, err := inbox.Listener.StartMany(ctx, s.client, requests)
	if err != nil {
		return err
	}
	for _, r := range started {
		if r.Err != nil {
			return r.Err
		}
		c.ids = append(c.ids, r.Run.ID())
	}
	if err := s.tap.await(ctx, "all runs to wait", func(n counts) bool { return n.parked >= len(c.ids) }); err != nil {
		return err
	}
	_, err = c.send(ctx, s, 0)
	return err
}

// round sends the messages of one round to all runs. It ignores the number of runs.
func (c *messages) round(ctx context.Context, s *stage, number, _ int) (tally, error) {
	t := tally{runs: len(c.ids)}
	rounds := len(workloadNamed("messages").split(s.size.runs))
	for n := s.size.steps * number / rounds; n < s.size.steps*(number+1)/rounds; n++ {
		took, err := c.send(ctx, s, n+1)
		if err != nil {
			return t, err
		}
		t.units, t.latencies = t.units+len(took), append(t.latencies, took...)
	}
	return t, nil
}

// send sends message n to all runs and waits until all have received it. It returns the latencies.
func (c *messages) send(ctx context.Context, s *stage, n int) ([]time.Duration, error) {
	before := s.tap.now().consumed
	took := make([]time.Duration, len(c.ids))
	errs := make([]error, senders)
	var work sync.WaitGroup
	for lane := range senders {
		work.Go(func() {
			for i := lane; i < len(c.ids) && errs[lane] == nil; i += senders {
				watch := stopwatch()
				errs[lane] = inbox.Notes.Send(ctx, s.client.Run(c.ids[i]), inbox.Note{N: n + i, Data: payload(n)})
				took[i] = watch()
			}
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, s.tap.await(ctx, fmt.Sprintf("message %d to be taken", n), func(k counts) bool { return k.consumed >= before+len(c.ids) })
}

func (c *messages) verify(ctx context.Context, s *stage, _ *Result) error {
	n := s.size.steps + 1
	return s.check(ctx, c.ids, func(i int) want { return want{result: n*(n-1)/2 + n*i, waits: n} })
}
