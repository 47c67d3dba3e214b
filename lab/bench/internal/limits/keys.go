package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// keyBudget is the minimum speed with keys relative to the speed without keys.
var keyBudget = atLeast(80, "%")

// perKey is the number of runs of each key.
const perKey = 2

// keys compares claims with and without keys, and then complete short runs.
func keys(ctx context.Context, s *session) ([]Figure, error) {
	claims, err := keyClaims(ctx, s)
	if err != nil {
		return nil, err
	}
	runs, err := keyRuns(ctx, s)
	return append(claims, runs...), err
}

// variant is one of several cases that are measured alternately and compared.
type variant struct {
	name    string
	perUnit []float64 // seconds per unit of work, by round
	cpu     []float64 // CPU time of the server in microseconds, by round
	calls   []float64 // number of commands that the server executed, by round
}

func (v *variant) add(took time.Duration, u usage, units int) {
	n := float64(units)
	v.perUnit = append(v.perUnit, took.Seconds()/n)
	v.cpu = append(v.cpu, u.cpu.Seconds()*1e6/n)
	v.calls = append(v.calls, u.calls/n)
}

func (v *variant) rate() float64 { return 1 / median(v.perUnit) }

// percent returns the speed of v as a percentage of the speed of other.
func (v *variant) percent(other *variant) float64 { return 100 * v.rate() / other.rate() }

// beside returns the results of variants as numbers for comparison.
func beside(unit string, servers bool, all ...*variant) (numbers []Number) {
	for _, v := range all {
		numbers = append(numbers, Number{v.name, v.rate(), unit + "/s"})
	}
	for _, v := range all {
		if servers {
			numbers = append(numbers, Number{"server for one and its end, " + v.name, median(v.cpu), "us"}, Number{"commands, " + v.name, median(v.calls), ""})
		}
	}
	return numbers
}

// keyClaims measures claims without executing the runs.
func keyClaims(ctx context.Context, s *session) ([]Figure, error) {
	without, single, many := &variant{name: "without limits"}, &variant{name: "without keys"}, &variant{name: "keys"}
	servers, err := compareClaims(ctx, s, "keys", []*variant{without, single, many}, map[*variant]order{
		single: {uses: func(int) limit.Limit { return flows.Ample }},
		many:   {uses: func(i int) limit.Limit { return flows.Tenant.For(key(i % s.keys)) }},
	})
	return []Figure{
		{What: fmt.Sprintf("claims, %d keys, of those of a limit without keys", s.keys), Value: many.percent(single), Unit: "%", budget: keyBudget,
			Beside: beside("claim", servers, many, single, without)},
		{What: "the same, of those without limits", Value: many.percent(without), Unit: "%"},
	}, err
}

// compareClaims measures claims of runs with each order alternately.
func compareClaims(ctx context.Context, s *session, row string, all []*variant, orders map[*variant]order) (servers bool, err error) {
	p, err := s.newPlace(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	st, err := p.open(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	c, err := newClaimer(ctx, st, "bench.claimed")
	if err != nil {
		return false, err
	}
	if err := c.bound(ctx, map[limit.Limit]int{flows.Tenant.All(): 1, flows.Ample: 1 << 30}); err != nil {
		return false, err
	}
	n := s.keys * perKey
	for round := range s.rounds + 1 {
		for _, v := range turns(round, all...) {
			s.sayf("%s: claims %s, round %d of %d", row, v.name, round, s.rounds)
			if err := c.create(ctx, n, orders[v]); err != nil {
				return false, err
			}
			before, err := p.usage(ctx)
			if err != nil {
				return false, err
			}
			took, err := c.drain(ctx, n)
			if err != nil {
				return false, fmt.Errorf("claims %s: %w", v.name, err)
			}
			after, err := p.since(ctx, before)
			if err != nil {
				return false, err
			}
			if _, total := busiest(after); round > 0 { // The first round is a warm-up.
				v.add(took, total, n)
			}
		}
	}
	return len(p.nodes) > 0, nil
}

// keyRuns measures workers that execute many waiting short runs.
func keyRuns(ctx context.Context, s *session) (_ []Figure, err error) {
	c, ctx, err := s.settle(ctx, s.newPlace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	without, single, many := &variant{name: "without limits"}, &variant{name: "without keys"}, &variant{name: "keys"}
	flow := map[*variant]workflow.Definition[string, string]{without: flows.Free, single: flows.Wide, many: flows.Keyed}
	n := s.keys * perKey
	for round := range s.rounds + 1 {
		for _, v := range turns(round, without, single, many) {
			s.sayf("keys: runs %s, round %d of %d", v.name, round, s.rounds)
			took, used, err := c.backlog(ctx, flow[v], n, s.keys)
			if err != nil {
				return nil, fmt.Errorf("runs %s: %w", v.name, err)
			}
			if _, total := busiest(used); round > 0 {
				v.add(took, total, n)
			}
		}
	}
	return []Figure{
		{What: fmt.Sprintf("runs, %d keys, of those of a limit without keys", s.keys), Value: many.percent(single), Unit: "%", budget: keyBudget,
			Beside: beside("run", len(c.nodes) > 0, many, single, without)},
		{What: "the same, of those without limits", Value: many.percent(without), Unit: "%"},
	}, nil
}

// backlog starts n runs before there are workers. It then measures the workers that execute all of
// these runs.
func (c *crew) backlog(ctx context.Context, flow workflow.Definition[string, string], n, keys int) (took time.Duration, used []usage, err error) {
	if err := start(ctx, c, flow, n, func(i int) (string, []workflow.StartOption) { return key(i % keys), nil }); err != nil {
		return 0, nil, err
	}
	before, err := c.usage(ctx)
	if err != nil {
		return 0, nil, err
	}
	ended, begun := c.ends.now(), time.Now()
	err = c.hire(ctx, c.workers, worker.Config{})
	if err == nil {
		err = c.ends.await(ctx, ended+n)
	}
	took = time.Since(begun)
	if err == nil {
		used, err = c.since(ctx, before)
	}
	return took, used, errors.Join(err, c.dismiss())
}

// key returns key number i, in the form of a typical customer ID.
func key(i int) string { return "cus_01j9zvq3n8k5x2m7" + strconv.Itoa(100_000_000+i) }

// turns returns the variants in an order that differs between rounds.
func turns[T any](round int, all ...T) []T {
	n := round % len(all)
	return append(append([]T{}, all[n:]...), all[:n]...)
}
