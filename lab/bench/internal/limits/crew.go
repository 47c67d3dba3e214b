package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// patience is the maximum duration of a row. After that time the row fails. The error describes the
// event for which it waits.
const patience = 10 * time.Minute

// crew is a place with a client. It also has workers after a call of hire.
type crew struct {
	*session
	*place
	store  store.Store // store of the client
	client *workflow.Client
	ends   *ends
	probe  *flows.Probe

	stop   context.CancelFunc
	failed context.CancelCauseFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	err    error // first error of the workers
}

// newCrew connects a client to a place. The returned context ends when a worker fails.
func (s *session) newCrew(ctx context.Context, p *place) (*crew, context.Context, error) {
	st, err := p.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := &crew{session: s, place: p, store: st, ends: &ends{}}
	c.probe = &flows.Probe{Attempt: func(flows.Weight) func() { return func() {} }, Struck: func(string, time.Time) {}}
	c.client = c.newClient(st)
	ctx, c.failed = context.WithCancelCause(ctx)
	return c, ctx, nil
}

// settle opens a place with where and returns a crew for it.
func (s *session) settle(ctx context.Context, where func(context.Context) (*place, error)) (*crew, context.Context, error) {
	p, err := where(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, ctx, err := s.newCrew(ctx, p)
	if err != nil {
		return nil, nil, errors.Join(err, p.end())
	}
	return c, ctx, nil
}

func (c *crew) newClient(st store.Store) *workflow.Client {
	return workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
}

// hire starts n workers, each with its own store and client.
func (c *crew) hire(ctx context.Context, n int, cfg worker.Config) error {
	var running context.Context
	running, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	for i := range n {
		st, err := c.open(ctx)
		if err != nil {
			return err
		}
		client := c.newClient(&tap{st, c.ends})
		cfg.Name = fmt.Sprintf("worker %d", i+1)
		w := worker.New(client, cfg)
		flows.Register(w, c.probe)
		c.work.Go(func() {
			err := w.Run(running)
			if err != nil {
				c.failed(fmt.Errorf("%s: %w", cfg.Name, err))
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.err = errors.Join(c.err, err, client.Close(), st.Close())
		})
	}
	return nil
}

// dismiss stops the workers.
func (c *crew) dismiss() error {
	if c.stop != nil {
		c.stop()
		c.work.Wait()
		c.stop = nil
	}
	err := c.err
	c.err = nil
	return err
}

// leave stops the workers and closes the client. It leaves the place open.
func (c *crew) leave() error {
	err := errors.Join(c.dismiss(), c.client.Close(), c.store.Close())
	c.failed(nil)
	return err
}

// close stops the workers and closes the client and the place.
func (c *crew) close() error { return errors.Join(c.leave(), c.end()) }

// batch is the number of runs that one call of start creates.
const batch = 500

// start starts n runs of a workflow. input returns the input of run i.
func start[In, Out any](ctx context.Context, c *crew, d workflow.Definition[In, Out], n int, input func(i int) (In, []workflow.StartOption)) error {
	for from := 0; from < n; from += batch {
		requests := make([]workflow.StartRequest[In], min(batch, n-from))
		for i := range requests {
			requests[i].Input, requests[i].Options = input(from + i)
		}
		all, err := d.StartMany(ctx, c.client, requests)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Err != nil {
				return r.Err
			}
		}
		if done := from + len(requests); done%100_000 == 0 {
			c.sayf("%d of %d runs started", done, n)
		}
	}
	return nil
}

// tap is the store of a worker. It records in ends the runs that have ended.
type tap struct {
	store.Store
	ends *ends
}

// Unwrap returns the underlying store. That store may implement optional interfaces.
func (t *tap) Unwrap() store.Store { return t.Store }

// Examine returns an empty report, because measured servers are configured without persistence.
func (t *tap) Examine(context.Context) (store.Report, error) { return store.Report{}, nil }

// Commit forwards commits and records the runs that end with them.
func (t *tap) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	sent := time.Now()
	answers, err := t.Store.Commit(ctx, commits)
	n := 0
	for i := range answers {
		if answers[i].Err == nil && commits[i].Effect == store.EffectFinish {
			n++
		}
	}
	if n > 0 {
		t.ends.add(n, sent)
	}
	return answers, err
}

// ends counts runs that have ended. It includes the runs of steps.
type ends struct {
	mu    sync.Mutex
	n     int
	timed bool
	sent  []time.Time // times at which the commits that end runs were sent; recorded only if timed is set
	until int         // number of ended runs for which await waits
	done  chan struct{}
}

func (e *ends) add(n int, sent time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timed {
		e.sent = append(e.sent, sent)
	}
	if e.n += n; e.done != nil && e.n >= e.until {
		close(e.done)
		e.done = nil
	}
}

// all returns the times at which the commits that end runs were sent, in order.
func (e *ends) all() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortFunc(e.sent, time.Time.Compare)
	return e.sent
}

// now returns the current number of ended runs.
func (e *ends) now() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

// await blocks until n runs have ended.
func (e *ends) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done := make(chan struct{})
	e.mu.Lock()
	if e.n >= n {
		e.mu.Unlock()
		return nil
	}
	e.until, e.done = n, done
	e.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the ends of %d runs: %w, there are %d", n, context.Cause(ctx), e.now())
	}
}
