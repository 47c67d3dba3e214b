package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// attempt is the record of one attempt of a step.
type attempt struct {
	flows.Weight
	begin, end time.Time
}

// notebook contains the records of all attempts.
type notebook struct {
	mu       sync.Mutex
	attempts []attempt
	held     flows.Weight // permits that active attempts hold
	most     flows.Weight
}

// enter records the beginning of an attempt. The returned function records its end.
func (n *notebook) enter(w flows.Weight) func() {
	begin := time.Now()
	n.mu.Lock()
	n.held.Small, n.held.Big = n.held.Small+w.Small, n.held.Big+w.Big
	n.most.Small, n.most.Big = max(n.most.Small, n.held.Small), max(n.most.Big, n.held.Big)
	n.mu.Unlock()
	return func() {
		end := time.Now()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.held.Small, n.held.Big = n.held.Small-w.Small, n.held.Big-w.Big
		n.attempts = append(n.attempts, attempt{w, begin, end})
	}
}

// all returns the attempts ordered by their beginnings.
func (n *notebook) all() []attempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.SortFunc(n.attempts, func(a, b attempt) int { return a.begin.Compare(b.begin) })
	return n.attempts
}

// crowd describes a large number of steps that are called at the same time.
type crowd struct {
	workers int
	cfg     worker.Config
	kind    flows.Kind
	steps   int
	nap     time.Duration
	// gate prevents steps from beginning until all of them are waiting. The zero Limit means that
	// there is no gate. open is the configuration with which the gate opens.
	gate limit.Limit
	open limit.Config
}

// crowdOf is the number of concurrent steps of each run.
const crowdOf = 500

// execute executes the steps. It returns the records of the steps and the observed ends of their
// runs.
func (w *crowd) execute(ctx context.Context, s *session) (_ *notebook, _ *ends, err error) {
	c, ctx, err := s.settle(ctx, s.newPlace)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	notes := &notebook{}
	c.probe.Attempt, c.ends.timed = notes.enter, true
	if err := c.hire(ctx, w.workers, w.cfg); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := w.shut(ctx, c); err != nil {
		return nil, nil, err
	}
	var runs []*workflow.Run[int]
	for left := w.steps; left > 0; left -= crowdOf {
		run, err := flows.Crowd.Start(ctx, c.client, flows.CrowdInput{Kind: w.kind, Calls: min(left, crowdOf), Nap: w.nap})
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, run)
	}
	if err := w.unclosed(ctx, c); err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		if _, err := run.Result(ctx); err != nil {
			return nil, nil, err
		}
	}
	return notes, c.ends, nil
}

// shut closes the gate.
func (w *crowd) shut(ctx context.Context, c *crew) error {
	if w.gate == (limit.Limit{}) {
		return nil
	}
	if err := ops.New(c.client).Limits().Set(ctx, w.gate, w.open); err != nil {
		return err
	}
	return ops.New(c.client).Limits().Pause(ctx, w.gate)
}

// unclosed opens the gate when all steps are waiting.
func (w *crowd) unclosed(ctx context.Context, c *crew) error {
	if w.gate == (limit.Limit{}) {
		return nil
	}
	for waits := -1; waits != w.steps; {
		all, err := ops.New(c.client).Limits().List(ctx)
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Name == w.gate.Name() {
				waits = l.Waits
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait until %d steps wait for limit %s: %w, %d do", w.steps, w.gate, context.Cause(ctx), waits)
		}
	}
	return ops.New(c.client).Limits().Resume(ctx, w.gate)
}
