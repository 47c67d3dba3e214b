package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/worker"
)

// The sizes of the pools.
const (
	smallPool = 3
	bigPool   = 5
)

// pools measures the utilization of two pools.
func pools(ctx context.Context, s *session) ([]Figure, error) {
	s.sayf("pools: %d steps of %v without limits", s.steps, s.nap)
	free, _, err := (&crowd{workers: 1, cfg: worker.Config{Concurrency: smallPool}, kind: flows.InPlace, steps: s.steps, nap: s.nap}).execute(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("without limits: %w", err)
	}
	var figures []Figure
	for _, k := range []struct {
		kind flows.Kind
		gate limit.Limit
		what string
	}{{flows.InBoth, flows.Small, "of steps that use both"}, {flows.InMix, limit.Limit{}, "of steps that use both, or one"}} {
		s.sayf("pools: %d steps of %v %s", s.steps, s.nap, k.what)
		notes, _, err := (&crowd{workers: s.workers, kind: k.kind, steps: s.steps, nap: s.nap, gate: k.gate, open: limit.Config{AtOnce: smallPool}}).execute(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.what, err)
		}
		if m := notes.most; m.Small > smallPool || m.Big > bigPool {
			return nil, fmt.Errorf("%d and %d permits were held, of %d and %d", m.Small, m.Big, smallPool, bigPool)
		}
		all := notes.all()
		figures = append(figures, Figure{
			What: fmt.Sprintf("pool of %d busy, %s", smallPool, k.what), Value: busy(all, smallPool, func(a attempt) int { return a.Small }), Unit: "%", budget: atLeast(95, "%"),
			Beside: []Number{
				{fmt.Sprintf("pool of %d", bigPool), busy(all, bigPool, func(a attempt) int { return a.Big }), "%"},
				{fmt.Sprintf("%d places of a worker, without limits", smallPool), busy(free.all(), smallPool, func(attempt) int { return 1 }), "%"},
			},
		})
	}
	return figures, nil
}

// busy returns the average fraction of a pool that steps used, from the first to the last beginning
// of an attempt. After that, the number of remaining steps is too small to fill the pool.
func busy(all []attempt, size int, weight func(attempt) int) float64 {
	last := all[len(all)-1].begin
	sum := time.Duration(0)
	for _, a := range all {
		if end := a.end; a.begin.Before(last) {
			if end.After(last) {
				end = last
			}
			sum += end.Sub(a.begin) * time.Duration(weight(a))
		}
	}
	return 100 * sum.Seconds() / (max(span(all), time.Microsecond).Seconds() * float64(size))
}

// handoffWorkers is the number of workers that compete for one permit.
const handoffWorkers = 2

// handoff measures the time from the end of an attempt to the beginning of the next attempt that
// uses the same permit.
func handoff(ctx context.Context, s *session) ([]Figure, error) {
	s.sayf("handoff: %d steps, one after the other", s.steps)
	notes, ended, err := (&crowd{workers: handoffWorkers, kind: flows.InTurn, steps: s.steps, gate: flows.One, open: limit.Config{AtOnce: 1}}).execute(ctx, s)
	if err != nil {
		return nil, err
	}
	s.sayf("handoff: %d starts without limits", s.steps)
	starts, err := starts(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("without limits: %w", err)
	}
	all, sent := notes.all(), ended.all()
	var ends, commits []time.Duration
	at := 0
	for i := 1; i < len(all); i++ {
		before, after := all[i-1].end, all[i].begin
		ends = append(ends, after.Sub(before))
		for at < len(sent) && !sent[at].After(before) {
			at++
		}
		if at < len(sent) && sent[at].Before(after) {
			commits = append(commits, after.Sub(sent[at]))
		}
	}
	beside := func(q float64) []Number {
		return []Number{{"from the end of the code before", quantile(ends, q), "ms"}, {"from Start to a step, without limits", quantile(starts, q), "ms"}}
	}
	return []Figure{
		{What: "from the commit that gives a permit back to the next attempt, p50", Value: quantile(commits, 0.5), Unit: "ms", budget: atMost(1, "ms"), Beside: beside(0.5)},
		{What: "the same, p99", Value: quantile(commits, 0.99), Unit: "ms", budget: atMost(5, "ms"), Beside: beside(0.99)},
	}, nil
}
