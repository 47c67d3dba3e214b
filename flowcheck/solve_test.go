package flowcheck

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// all returns the effects of each function. It finds them by an exhaustive search of all paths
// without a cycle.
func (g graph[F]) all() map[F][]Effect {
	best := make(map[F]map[Rule]Effect)
	var walk func(f F, way []F)
	walk = func(f F, way []F) {
		if slices.Contains(way, f) {
			return
		}
		way = append(slices.Clone(way), f)
		for _, e := range g.direct[f] {
			for _, w := range slices.Backward(way) {
				e = e.via(g.name(w))
				if best[w] == nil {
					best[w] = make(map[Rule]Effect)
				}
				if old, ok := best[w][e.Rule]; !ok || e.less(old) {
					best[w][e.Rule] = e
				}
			}
		}
		for _, to := range g.calls[f] {
			walk(to.to, way)
		}
	}
	for f := range g.calls {
		walk(f, nil)
	}
	for f := range g.direct {
		walk(f, nil)
	}
	list := make(map[F][]Effect)
	for f, rules := range best {
		for _, rule := range slices.Sorted(maps.Keys(rules)) {
			list[f] = append(list[f], rules[rule])
		}
	}
	return list
}

// randomGraph returns a graph with at most nine functions. The graph may contain cycles.
func randomGraph(r *rand.Rand) graph[int] {
	g := graph[int]{
		name:   func(f int) string { return fmt.Sprint("f", f) },
		direct: make(map[int][]Effect), calls: make(map[int][]arc[int]),
	}
	n := 2 + r.IntN(8)
	for range 1 + r.IntN(3) {
		f, rule := r.IntN(n), []Rule{"clock", "io"}[r.IntN(2)]
		g.direct[f] = append(g.direct[f], Effect{Rule: rule, What: fmt.Sprint("p", r.IntN(3))})
	}
	for range r.IntN(2 * n) {
		from := r.IntN(n)
		g.calls[from] = append(g.calls[from], arc[int]{to: r.IntN(n)})
	}
	return g
}

func TestGEN4_TheShortestWaysAreFoundInEveryOrderAndCycle(t *testing.T) {
	none := func(int) []Effect { return nil }
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := randomGraph(r)
		want := g.all()
		for range 50 {
			for f := range g.calls {
				r.Shuffle(len(g.calls[f]), func(i, j int) { g.calls[f][i], g.calls[f][j] = g.calls[f][j], g.calls[f][i] })
				r.Shuffle(len(g.direct[f]), func(i, j int) { g.direct[f][i], g.direct[f][j] = g.direct[f][j], g.direct[f][i] })
			}
			if diff := cmp.Diff(want, g.solve(none)); diff != "" {
				t.Fatalf("graph %d (-all ways +solved):\n%s", seed, diff)
			}
		}
	}
}

func TestSolve_CutEffectsDoNotPass(t *testing.T) {
	g := graph[int]{
		name:   func(f int) string { return fmt.Sprint("f", f) },
		direct: map[int][]Effect{2: {{Rule: "clock", What: "p"}, {Rule: "io", What: "q"}}},
		calls:  map[int][]arc[int]{1: {{to: 2, cut: func(r Rule) bool { return r == "clock" }}}},
	}
	got := g.solve(func(int) []Effect { return nil })[1]
	if diff := cmp.Diff([]Effect{{Rule: "io", What: "q", Path: []string{"f1", "f2"}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
