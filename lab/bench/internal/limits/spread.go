package limits

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// spreadCores is the minimum number of cores for three servers and enough workers.
const spreadCores = 8

// spread compares the same runs on one server and on three servers.
func spread(ctx context.Context, s *session) ([]Figure, error) {
	one, err := spreadOver(ctx, s, "redis")
	if err != nil {
		return nil, err
	}
	three, err := spreadOver(ctx, s, "redis-cluster")
	if err != nil {
		return nil, err
	}
	ratio := func(i int) float64 { return three[i].rate() / one[i].rate() }
	figures := []Figure{
		{What: fmt.Sprintf("runs on 3 nodes, %d keys, of those on one node", s.keys), Value: ratio(0), Unit: "x", budget: atLeast(2.5, "x"), Beside: []Number{
			{"3 nodes", three[0].rate(), "runs/s"}, {"one node", one[0].rate(), "runs/s"},
			{"without limits, 3 nodes", three[1].rate(), "runs/s"}, {"without limits, one node", one[1].rate(), "runs/s"},
		}},
		{What: "CPU time of the one node for a run, of that of the busiest of 3: what the servers allow", Value: median(one[0].cpu) / median(three[0].cpu), Unit: "x", Beside: []Number{
			{"one node", median(one[0].cpu), "us"}, {"busiest of 3", median(three[0].cpu), "us"},
			{"without limits, one node", median(one[1].cpu), "us"}, {"without limits, busiest of 3", median(three[1].cpu), "us"},
		}},
	}
	if cores := runtime.NumCPU(); cores < spreadCores {
		figures[0].Verdict = fmt.Sprintf("not shown: servers and workers share %d cores", cores)
	}
	return figures, nil
}

// spreadOver measures runs with and without limits. The argument what describes the servers to
// start.
func spreadOver(ctx context.Context, s *session, what string) (_ []*variant, err error) {
	c, ctx, err := s.settle(ctx, func(ctx context.Context) (*place, error) { return s.newServers(ctx, what, "") })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	all := []*variant{{name: "spread"}, {name: "without limits"}}
	flow := map[*variant]workflow.Definition[string, string]{all[0]: flows.Spread, all[1]: flows.Free}
	n := s.keys * perKey
	for round := range s.rounds + 1 {
		for _, v := range turns(round, all...) {
			s.sayf("spread: %s on %d nodes, round %d of %d", v.name, len(c.nodes), round, s.rounds)
			took, used, err := c.backlog(ctx, flow[v], n, s.keys)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", v.name, what, err)
			}
			if most, _ := busiest(used); round > 0 {
				v.add(took, most, n)
			}
		}
	}
	return all, nil
}
